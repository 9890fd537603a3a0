"""Events and usage records that wait for Redis: bounded, in their order, and kept until they were delivered."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from pairing.events import Event
from pairing.telemetry.metering import UsageRecord

_LOGGER = logging.getLogger("pairing")

_MOST_FACTS = 20_000
_IN_ONE_GO = 500

F = TypeVar("F", Event, UsageRecord)


class Facts:
    """Two queues of facts. A full one loses its oldest. ``lock`` wakes the thread that delivers."""

    def __init__(self, lock: threading.Condition) -> None:
        self._dropped = 0
        self._lock = lock
        self._events: deque[Event] = deque()
        self._usage: deque[UsageRecord] = deque()

    def __bool__(self) -> bool:
        return bool(self._events or self._usage)

    def add_event(self, event: Event) -> None:
        """Put an event behind the others."""
        with self._lock:
            self._append(self._events, event)
            self._lock.notify_all()

    def add_usage(self, records: Iterable[UsageRecord]) -> None:
        """Put usage records behind the others."""
        with self._lock:
            for record in records:
                self._append(self._usage, record)
            self._lock.notify_all()

    def deliver(self, report: Callable[[list[Event]], None], record_usage: Callable[[list[UsageRecord]], None]) -> None:
        """Deliver up to so many of each in one go. What a delivery that raises was given stays here."""
        self._deliver(self._events, report)
        self._deliver(self._usage, record_usage)

    def _append(self, facts: deque[F], fact: F) -> None:
        if len(facts) >= _MOST_FACTS:
            facts.popleft()
            self._dropped += 1
            if self._dropped % _MOST_FACTS == 1:
                _LOGGER.error(
                    "pairing: Redis was unavailable for too long: the oldest of %d events or records are lost",
                    len(facts),
                )
        facts.append(fact)

    def _deliver(self, facts: deque[F], report: Callable[[list[F]], None]) -> None:
        with self._lock:
            batch = [facts.popleft() for _ in range(min(len(facts), _IN_ONE_GO))]
        try:
            report(batch)
        except BaseException:
            with self._lock:  # reported again: each fact has an identity by which a second delivery is known
                facts.extendleft(reversed(batch))
            raise
