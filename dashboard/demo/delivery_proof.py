"""The ledger of the demo: which messages applications have sent, and which have been received.

Senders and receivers set bit n of a bitmap for message number n. A message is *missing* only if it was accepted more
than five seconds ago, has not been received, and the namespaces do not hold enough messages for it to be among them.
The order of the reads makes that exact while traffic flows: old bits, backlog, primary, new bits. A message in both
sets of bits was in the brokers meanwhile, first in the backlog or later in the primary, or it is lost.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import redis
from django.conf import settings

SETTLED_S = 5.0
Bits = Mapping[str, int]
ADDED_UP = ("accepted", "received", "duplicates", "refused", "damaged")


@dataclass(frozen=True, slots=True)
class Account:
    """The counts of one queue."""

    queue: str
    accepted: int
    received: int
    on_the_way: int
    missing: int
    duplicates: int
    refused: int
    damaged: int


@dataclass(frozen=True, slots=True)
class Totals:
    """All queues and their total."""

    accounts: Sequence[Account]
    total: Account


@dataclass(frozen=True, slots=True)
class Held:
    """Messages that the two namespaces hold: per queue in the primary, and in all backlog queues together."""

    primary: Mapping[str, int]
    backlog: int


class Bookkeeper:
    """Remembers which messages were in transit a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._past: deque[tuple[float, Bits]] = deque()

    def close(self, queues: Sequence[str], client: redis.Redis, held: Callable[[], Held]) -> Totals:
        """The counts at this moment. Raises what Redis and `held` raise."""
        old = self._settled()
        stock = held()
        accepted, received = (read_bits(client, queues, name) for name in ("accepted", "received"))
        on_the_way = {queue: accepted[queue] & ~received[queue] for queue in queues}
        self._past.append((self._clock(), on_the_way))
        stuck = {queue: (on_the_way[queue] & old.get(queue, 0)).bit_count() for queue in queues}
        refused, duplicates, damaged = (
            read_counters(client, queues, name) for name in ("refused", "duplicates", "damaged")
        )
        counts = {queue: on_the_way[queue].bit_count() for queue in queues}
        accounts = []
        for queue in queues:
            missing = max(0, stuck[queue] - stock.primary.get(queue, 0) - stock.backlog)
            accounts.append(
                Account(
                    queue,
                    accepted=accepted[queue].bit_count(),
                    received=received[queue].bit_count(),
                    on_the_way=counts[queue] - missing,
                    missing=missing,
                    duplicates=duplicates[queue],
                    refused=refused[queue],
                    damaged=damaged[queue],
                )
            )
        missing = max(0, sum(stuck.values()) - sum(stock.primary.values()) - stock.backlog)
        sums = {name: sum(getattr(account, name) for account in accounts) for name in ADDED_UP}
        total = Account("All", on_the_way=sum(counts.values()) - missing, missing=missing, **sums)
        return Totals(accounts, total)

    def _settled(self) -> Bits:
        """The newest bits that are old enough; older ones are discarded after a minute."""
        now = self._clock()
        while len(self._past) > 1 and now - self._past[1][0] >= SETTLED_S:
            self._past.popleft()
        return self._past[0][1] if self._past and now - self._past[0][0] >= SETTLED_S else {}


def read_bits(client: redis.Redis, queues: Sequence[str], name: str) -> dict[str, int]:
    """The bitmaps as integers; an unused queue has no bits."""
    values = cast("list[bytes | None]", client.mget([f"demo:{{{queue}}}:{name}" for queue in queues]))
    return {queue: int.from_bytes(value or b"", "little") for queue, value in zip(queues, values, strict=True)}


def read_counters(client: redis.Redis, queues: Sequence[str], name: str) -> dict[str, int]:
    """The counters; missing ones are 0."""
    values = client.mget([f"demo:{{{queue}}}:{name}" for queue in queues])
    return {queue: int(value or 0) for queue, value in zip(queues, values, strict=True)}


@lru_cache(maxsize=2)
def bitmaps(url: str = "") -> redis.Redis:
    """A client that returns bytes, because bitmaps are not text."""
    return redis.Redis.from_url(url or settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=1)
