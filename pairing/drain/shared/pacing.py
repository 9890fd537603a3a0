"""The rate limits of the syphon: per entity, per backlog queue, and for the whole pair. No I/O, no clock.

Limits apply to the fleet: a process gets a share in proportion to its backlog queues among all that are served. The
limit of one backlog queue is not divided, because one process serves it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

_BURST_S = 1.0
_SOON_S = 0.25


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may go now."""

    count: int
    wait_s: float = 0.0
    """Where nothing may: in how many seconds one may."""
    is_own: bool = False
    """Whether it is the destination that has to wait, and others need not."""


@dataclass(slots=True)
class _Bucket:
    tokens: float = 0.0
    filled_at: float | None = None

    def fill(self, rate: float, now: float) -> float:
        elapsed = _BURST_S if self.filled_at is None else now - self.filled_at
        self.tokens, self.filled_at = min(max(1.0, rate * _BURST_S), self.tokens + elapsed * rate), now
        return self.tokens


class Pacing:
    """Token buckets, by target; ``lock`` guards them where several threads share them."""

    def __init__(self, max_rate: float | None = None, lock: AbstractContextManager[object] | None = None) -> None:
        self._max_rate, self._lock = max_rate, lock or nullcontext()
        self._rates: dict[str, float] = {}
        self._share = 1.0
        self._buckets: dict[str, _Bucket] = {}

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self._max_rate is not None or bool(self._rates)

    def obey(self, rates: Mapping[str, float], share: float) -> None:
        """What operators want, in messages a second by target (``*``: the pair), and this process's share of it."""
        self._rates = {target.lower(): rate for target, rate in rates.items()}
        self._share = share

    def allowance(self, path: str, queue: str, wanted: int, now: float) -> Allowance:
        """How many of ``wanted`` messages may be sent from this backlog queue to this entity now, uncounted."""
        with self._lock:
            return self._allowance(path, queue, wanted, now)

    def take(self, path: str, queue: str, wanted: int, now: float) -> Allowance:
        """Like ``allowance``, but counts the allowed messages as sent."""
        with self._lock:
            allowed = self._allowance(path, queue, wanted, now)
            for target, _ in self._limits(path, queue) if allowed.count else ():
                self._buckets[target].tokens -= allowed.count
            return allowed

    def give_back(self, path: str, queue: str, count: int) -> None:
        """This number of allowed messages was not sent after all."""
        with self._lock:
            for target, _ in self._limits(path, queue) if count else ():
                if target in self._buckets:
                    self._buckets[target].tokens += count

    def _allowance(self, path: str, queue: str, wanted: int, now: float) -> Allowance:
        own, count, wait_s, is_own = path.lower(), wanted, 0.0, False
        for target, rate in self._limits(path, queue):
            tokens = self._buckets.setdefault(target, _Bucket()).fill(rate, now)
            count = min(count, int(tokens))
            if tokens < 1:
                waits_s = (1 - tokens) / rate
                wait_s, is_own = max(wait_s, waits_s), is_own or (target == own and waits_s > _SOON_S / 10)
        return Allowance(count, wait_s, is_own)

    def _limits(self, path: str, queue: str) -> list[tuple[str, float]]:
        """Each limit that holds for a message, as target and rate."""
        if not self.is_limited:
            return []
        own = path.lower()
        paces = [self._rates.get(own), self._max_rate]
        entity = [rate * self._share for rate in paces if rate is not None]
        found = [(own, min(entity))] if entity else []
        if (pair := self._rates.get("*")) is not None:
            found.append(("*", pair * self._share))
        if (one := self._rates.get(queue.lower())) is not None:
            found.append((queue.lower(), one))
        return found
