"""The shared state of backlog queues: their fill levels, and which of them are out of the rotation.

One process per interval reads the queues for all, and exactly one process gets each warning to report. Blocking; every
call may raise ``redis.RedisError``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pairing.backlog.capacity import Fill, seen
from pairing.fleet.access import claimed
from pairing.stored_json import Stored, hash_of, readable

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState


@dataclass(frozen=True, slots=True)
class QueueNews(Stored):
    """A backlog queue left the rotation of a process, or returned."""

    path: str
    reason: str
    process: str
    until: datetime | None
    """When its probation ends; None: it has returned."""


class SharedBacklog:
    """The state of a pair's backlog queues, shared by a fleet."""

    def __init__(self, shared: "SharedState") -> None:
        self._redis, prefix = shared.redis, f"pairing:{{{shared.pair}}}:"
        self._fills, self._warned, self._look = prefix + "fills", prefix + "fills-warned", prefix + "fills-look"
        self._repair = prefix + "queues-repair"
        self._pulled, self.channel = prefix + "queues", prefix + "queues"

    # Capacity ------------------------------------------------------------------------------------------------------

    def claim_look(self, every_s: float) -> bool:
        """Whether the caller should read the queues now: one process of a fleet, once per interval."""
        return claimed(self._redis, self._look, every_s)

    def claim_repair(self, every_s: float) -> bool:
        """Whether the caller should create deleted queues again now: one process of a fleet, once per interval."""
        return claimed(self._redis, self._repair, every_s)

    def record(self, sizes: Mapping[str, tuple[int, int]], at: float) -> dict[str, Fill]:
        """Store observed sizes: size and limit in bytes by path, ``at`` in seconds of Unix time.

        Returns the queues for which the caller, and no other process, should report a warning.
        """
        before, warnings = self.fills(), dict[str, Fill]()
        for path, (size, limit) in sizes.items():
            fill = seen(before.get(path), size, limit, at)
            self._redis.hset(self._fills, path, json.dumps(fill._asdict()))
            if not fill.is_worrying:
                self._redis.hdel(self._warned, path)
            elif self._redis.hsetnx(self._warned, path, "1"):
                warnings[path] = fill
        return warnings

    def fills(self) -> dict[str, Fill]:
        """The fill level of each queue, by path."""
        return readable(self._fills, hash_of(self._redis, self._fills), lambda text: Fill(**json.loads(text)))

    # The rotation --------------------------------------------------------------------------------------------------

    def report(self, news: QueueNews) -> None:
        """Report to the fleet that a queue left a rotation, or returned."""
        with self._redis.pipeline(transaction=True) as pipeline:
            if news.until is None:
                pipeline.hdel(self._pulled, news.path)
            else:
                pipeline.hset(self._pulled, news.path, news.to_json())
            pipeline.publish(self.channel, news.to_json())
            pipeline.execute()

    def pulled(self) -> list[QueueNews]:
        """The queues that are out of some process's rotation now."""
        found, now = readable(self._pulled, hash_of(self._redis, self._pulled), QueueNews.from_json), datetime.now(UTC)
        return [news for news in found.values() if news.until is not None and news.until > now]
