"""The keys of one pair in Redis, and the clock of its fleet. Names are as in docs/design/coordination.md."""

from datetime import UTC, datetime, timedelta

import redis

from pairing.stored_json import hash_of


class PairKeys:
    """The base of a pair's shared state. Blocking; every call may raise ``redis.RedisError``.

    The client decodes responses.
    """

    def __init__(self, client: redis.Redis, pair: str) -> None:
        self.redis, self.pair = client, pair
        self._prefix = f"pairing:{{{pair}}}:"

    def now(self) -> datetime:
        """The fleet's time: that of Redis's clock."""
        seconds, microseconds = self.redis.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _hash(self, name: str) -> dict[str, str]:
        return hash_of(self.redis, self._key(name))
