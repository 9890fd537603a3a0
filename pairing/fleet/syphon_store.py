"""The state that syphons of a pair share through Redis: pauses, rate limits, and the ledgers of backlog queues."""

from datetime import UTC, datetime
from typing import cast

import redis

from pairing.fleet.access import script
from pairing.fleet.pair_keys import PairKeys
from pairing.fleet.shared_health import Pace, Pause
from pairing.stored_json import readable

_KEEP_LEDGER = script("pairing.fleet", "whole", "keep_ledger")


class SyphonStore(PairKeys):
    """Pauses and limits of operators, and the ledgers of syphons."""

    def __init__(self, client: redis.Redis, pair: str) -> None:
        super().__init__(client, pair)
        self._keep_ledger = client.register_script(_KEEP_LEDGER)

    def pause_syphon(self, target: str | None, *, operator: str, reason: str) -> None:
        """Pause the pair's syphon, that of one backlog queue, or its sends to one entity."""
        pause = Pause(operator, reason, datetime.now(UTC))
        self.redis.hset(self._key("syphon"), target or "*", pause.to_json())

    def resume_syphon(self, target: str | None) -> bool:
        """End the pause of the pair's syphon, of a backlog queue or of an entity; False if there was none."""
        return bool(self.redis.hdel(self._key("syphon"), target or "*"))

    def paused(self) -> dict[str, Pause]:
        """The pauses by path of backlog queue or entity; ``*``: of the pair."""
        return readable(self._key("syphon"), self._hash("syphon"), Pause.from_json)

    def pace_syphon(self, target: str | None, rate: float | None, operator: str, reason: str) -> None:
        """Limit the syphons of the fleet together to ``rate`` messages per second; None removes the limit.

        ``target`` is the path of a destination entity or of a backlog queue, None the whole pair. Effective within 2 s.
        """
        if rate is None:
            self.redis.hdel(self._key("pace"), target or "*")
            return
        pace = Pace(rate, operator, reason, datetime.now(UTC))
        self.redis.hset(self._key("pace"), target or "*", pace.to_json())

    def paces(self) -> dict[str, Pace]:
        """The limits of operators, by entity or backlog queue path; ``*`` is that of the whole pair."""
        return readable(self._key("pace"), self._hash("pace"), Pace.from_json)

    def ledgers(self) -> dict[str, str]:
        """The ledgers of the backlog queues as JSON, by path, as stored by their syphons."""
        return self._hash("ledger")

    def ledger(self, queue: str) -> str | None:
        """The ledger of one backlog queue as JSON."""
        return cast("str | None", self.redis.hget(self._key("ledger"), queue))

    def keep_ledger(self, queue: str, ledger: str, *, token: int | None) -> bool:
        """Store the ledger of a backlog queue for the next syphon, and for display.

        ``token`` is that of the lease under which the queue is served. If another process has the lease now, nothing is
        written and the result is False: one step in Redis, so that a frozen process cannot overwrite its successor.
        """
        keys = [self._key(name) for name in ("ledger", "fence", "ledger-token")]
        return bool(self._keep_ledger(keys=keys, args=[queue, ledger, token or 0]))
