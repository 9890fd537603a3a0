"""The state that the processes of a fleet share through Redis: thin and blocking, raising the errors of redis-py.

Each change is one script, so that the result does not depend on the order of arrival. Fencing tokens follow Redis's
clock if it is ahead of the last one, so that they keep increasing after Redis was restarted empty.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

import redis

from pairing.events import Event
from pairing.fleet.access import script
from pairing.fleet.health_store import HealthStore, News, Seen, Verb
from pairing.fleet.shared_health import PingRecord
from pairing.fleet.streams import EVENTS, USAGE, append
from pairing.fleet.syphon_store import SyphonStore
from pairing.stored_json import fields_of, hash_of, readable
from pairing.telemetry.metering import UsageRecord

__all__ = ["EVENTS", "USAGE", "News", "Seen", "SharedState", "Verb"]

_ROOM = "pairing.fleet"
_CLAIM = script(_ROOM, "clock", "claim_ping")
_RECORD_PING = script(_ROOM, "record", "record_ping")
_ACQUIRE = script(_ROOM, "clock", "whole", "acquire_lease")
_RENEW = script(_ROOM, "renew_lease")
_RELEASE = script(_ROOM, "release_lease")


class SharedState(HealthStore, SyphonStore):
    """The shared state of one pair in Redis: health, pings, pauses and leases; and the streams of all pairs.

    Blocking; every call may raise ``redis.RedisError``. docs/design/coordination.md lists the names.
    """

    def __init__(self, client: redis.Redis, pair: str) -> None:
        super().__init__(client, pair)
        self._claim = client.register_script(_CLAIM)
        self._record_ping = client.register_script(_RECORD_PING)
        self._acquire = client.register_script(_ACQUIRE)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)

    # Entities ---------------------------------------------------------------------------------------------------------

    def know(self, paths: Iterable[str]) -> None:
        """Note that these entities exist, so that other processes treat their absence as an outage, not as a typo."""
        if names := [path.lower() for path in paths]:
            self.redis.sadd(self._key("known"), *names)

    def known(self, *, but: int = -1) -> frozenset[str] | None:
        """The entities, in lower case, that are known to have existed; None if their number is ``but``.

        Entities are never removed, so the number shows whether there are new ones.
        """
        key = self._key("known")
        if self.redis.scard(key) == but:
            return None
        return frozenset(cast("set[str]", self.redis.smembers(key)))

    # Pings ------------------------------------------------------------------------------------------------------------

    def claim_ping(self, path: str, interval_s: float, *, grace_s: float = 0.0) -> bool:
        """Whether the caller should ping the entity now: one process of a fleet, once per interval.

        With ``grace_s`` only when the ping is that much overdue, so that callers without it go first.
        """
        arguments: list[str | int] = [path, _ms(interval_s), _ms(grace_s)]
        return bool(self._claim(keys=[self._key("ping-due")], args=arguments))

    def record_ping(self, path: str, *, accepted: bool, reason: str, next_due: datetime | None = None) -> None:
        """Store the result of a ping for display."""
        record = PingRecord(datetime.now(UTC), accepted, reason, 0, next_due)
        self._record_ping(keys=[self._key("pings")], args=[path, record.to_json()])

    def pings(self, paths: Iterable[str] | None = None) -> dict[str, PingRecord]:
        """The last ping of each entity by path, or of these entities only."""
        key = self._key("pings")
        found = hash_of(self.redis, key) if paths is None else fields_of(self.redis, key, list(paths))
        return readable(key, found, PingRecord.from_json)

    # Leases -----------------------------------------------------------------------------------------------------------

    def acquire_lease(self, name: str, owner: str, ttl_s: float) -> int | None:
        """The fencing token of the lease, which only increases; None while another owner holds it."""
        token = self._acquire(keys=[self._lease(name), self._key("fence")], args=[name, owner, _ms(ttl_s)])
        return None if token is None else int(token)

    def renew_lease(self, name: str, owner: str, ttl_s: float) -> bool:
        """Whether the owner still holds the lease, extended by ``ttl_s``."""
        return bool(self._renew(keys=[self._lease(name)], args=[owner, _ms(ttl_s)]))

    def release_lease(self, name: str, owner: str) -> bool:
        """Release the lease; False if it did not belong to the owner any more."""
        return bool(self._release(keys=[self._lease(name)], args=[owner]))

    def leases(self) -> dict[str, str]:
        """The owner of each lease, by name."""
        names = list(self._hash("fence"))
        owners = cast("list[str | None]", self.redis.mget([self._lease(name) for name in names])) if names else []
        return {name: owner for name, owner in zip(names, owners, strict=True) if owner is not None}

    def _lease(self, name: str) -> str:
        return self._key(f"lease:{name}")

    # Streams ----------------------------------------------------------------------------------------------------------

    def report(self, *events: Event) -> None:
        """Append events to the stream of all pairs, in order and atomically."""
        append(self.redis, EVENTS, "event", (event.to_json() for event in events))

    def record_usage(self, records: Iterable[UsageRecord]) -> None:
        """Append usage records to the stream of all pairs."""
        append(self.redis, USAGE, "record", (record.to_json() for record in records))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds > 0 else 0
