"""Meters the billable operations of the library in memory, reported as one record per minute and kind.

A record has an identity that stays the same however often it is delivered, and totals since the start of its minute; of
records with one identity the one with the highest ``seq`` counts (docs/specification.md, section 10).
"""

import builtins
import json
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from pairing.clock import Clock
from pairing.stored_json import reading, typed, written


class UsageKind(NamedTuple):
    """A kind of operation, as reports show it."""

    label: str
    group: Literal["traffic", "failover", "idle", "administration"]
    """What caused it: the application, a failover, a syphon without messages, or neither."""
    is_settlement: bool = False
    """The counting rule `published` does not bill it."""


KINDS: Mapping[str, UsageKind] = {
    "send": UsageKind("Sent", "traffic"),
    "receive": UsageKind("Received", "traffic"),
    "receive_empty": UsageKind("Empty receives", "traffic"),
    "settle": UsageKind("Settled", "traffic", is_settlement=True),
    "send_backlog": UsageKind("Sent to the backlog", "failover"),
    "ping": UsageKind("Pings", "failover"),
    "syphon_receive": UsageKind("Received by the syphon", "failover"),
    "syphon_receive_empty": UsageKind("Syphon polls, empty", "idle"),
    "syphon_send": UsageKind("Sent to the primary by the syphon", "failover"),
    "syphon_settle": UsageKind("Settled by the syphon", "failover", is_settlement=True),
    "manage": UsageKind("Administration", "administration"),
}
"""What can be counted, by the name that usage records have; `pipeline/schemas.py` lists the same names."""
SETTLEMENT_KINDS = tuple(name for name, kind in KINDS.items() if kind.is_settlement)

CONNECTIONS = "connections"
"""The kind of a record about an hour: ``operations`` is the peak of connections this process had open."""

STEP = 65_536
"""Bytes of one billing unit."""
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_HOURS_KEPT = 72  # of peaks that are not fetched, by namespace
_MOST_PENDING = 20_000
_MOST_COUNTED = 10_000

_Key = tuple[str, str, str]
_Numbers = tuple[int, int, int, int]
_Minute = dict[_Key, list[int]]


def _nothing() -> list[int]:
    return [0] * 9  # four numbers, the same four as last reported, the last seq


def billing_units(size_bytes: int) -> int:
    """64 KB steps of a message or call of this size, at least 1."""
    return max(1, -(-size_bytes // STEP))


class UsageRecord(NamedTuple):
    """The operations of one kind that one process made for one entity in one minute."""

    record_id: str
    minute: datetime
    """Start of the minute, aware and UTC."""
    scope: str
    """Billing scope; the name of the pair until the control plane replaces it by the subscription."""
    pair: str
    namespace: str
    """The namespace that is billed."""
    entity: str
    """The entity; ``*`` for none."""
    kind: str
    reporter: str
    """The process that made the operations."""
    seq: int
    operations: int
    messages: int
    bytes: int
    billing_units: int

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return written(self._asdict())

    @classmethod
    def from_json(cls, text: str | builtins.bytes) -> "UsageRecord":
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading("a usage record"):
            return cls(**typed(cls, json.loads(text)))


class UsageMeter:
    """Counts operations, from any thread; draining returns each minute after its end.

    Without draining, memory stays bounded: old minutes are merged into the next ones, and no count is lost.
    """

    def __init__(self, pair: str, reporter: str, clock: Clock, *, most_pending: int = _MOST_PENDING) -> None:
        self._pair, self._reporter, self._clock, self._most_pending = pair, reporter, clock, most_pending
        self._now = clock.now
        self._lock = threading.RLock()  # a signal handler may count while its thread does
        self._closed: dict[datetime, _Minute] = {}
        self._open: _Minute = {}
        self._peaks: dict[tuple[datetime, str], list[int]] = {}  # the peak, the peak as last reported, the last seq
        self._minute = datetime.min.replace(tzinfo=UTC)
        self._counted: deque[tuple[_Key, _Numbers]] = deque()  # in the running minute; appending needs no lock
        self._minute_ends = float("-inf")

    def count(
        self,
        kind: str,
        namespace: str,
        entity: str,
        *,
        operations: int = 1,
        messages: int = 0,
        bytes: int = 0,
        billing_units: int = 0,
    ) -> None:
        """Add to the current minute; ``kind`` is one of ``KINDS``. It is cheap: ``fold`` adds up."""
        now = self._now()
        if now >= self._minute_ends:
            with self._lock:
                self._turn(now)
        self._counted.append(((kind, namespace, entity), (operations, messages, bytes, billing_units)))
        if len(self._counted) >= _MOST_COUNTED:
            self.fold()

    def fold(self) -> None:
        """Add up what was counted."""
        with self._lock:
            self._fold()

    def connections(self, namespace: str, number: int) -> None:
        """Note the present number of open connections to a namespace; the maximum of each hour is reported."""
        with self._lock:
            hour = self._clock.utc(self._now()).replace(minute=0, second=0, microsecond=0)
            peak = self._peaks.setdefault((hour, namespace), [0, 0, 0])
            peak[0] = max(peak[0], number)
            while len(self._peaks) > _HOURS_KEPT:
                del self._peaks[min(self._peaks)]

    def drain(self, now: float, *, everything: bool = False) -> list[UsageRecord]:
        """The records of the minutes that are over at ``now`` on the meter's clock, each once.

        ``everything`` adds the current minute so far; its records come again, with a higher ``seq``, if they grow.
        """
        with self._lock:
            self._turn(now)
            self._fold()
            closed, self._closed = self._closed, {}
            records = [record for minute, numbers in closed.items() for record in self._report(minute, numbers)]
            records += self._report_peaks(self._clock.utc(now))
            return records + (self._report(self._minute, self._open) if everything else [])

    def _fold(self) -> None:
        with suppress(IndexError):  # a signal handler has folded meanwhile
            for _ in range(len(self._counted)):
                key, more = self._counted.popleft()
                numbers = self._open.setdefault(key, _nothing())
                for i in range(4):
                    numbers[i] += more[i]

    def _turn(self, now: float) -> None:
        """Start the minute of ``now``; if the wall clock is set back, a reported minute is not opened again."""
        if now < self._minute_ends:  # another thread was faster
            return
        self._fold()
        wall = self._clock.utc(now)
        minute = wall.replace(second=0, microsecond=0)
        self._minute_ends = now + max(0.0, (minute + _MINUTE - wall).total_seconds())
        if minute <= self._minute:
            return
        if self._open:
            self._closed[self._minute] = self._open
            self._open = {}
            self._bound()
        self._minute = minute

    def _bound(self) -> None:
        while len(self._closed) > 1 and sum(map(len, self._closed.values())) > self._most_pending:
            oldest, *_, latest = sorted(self._closed)
            self._merge(self._closed.pop(oldest), self._closed[latest])

    def _merge(self, minute: _Minute, into: _Minute) -> None:
        for key, numbers in minute.items():
            total = into.setdefault(key, _nothing())
            for i in range(4):
                total[i] += numbers[i] - numbers[4 + i]  # reported counts are not moved

    def _report(self, minute: datetime, counted: _Minute) -> list[UsageRecord]:
        return [self._record(minute, key, numbers) for key, numbers in counted.items() if numbers[:4] != numbers[4:8]]

    def _record(self, minute: datetime, key: _Key, numbers: list[int]) -> UsageRecord:
        numbers[4:8] = numbers[:4]
        numbers[8] += 1
        return self._usage_record(minute, key, numbers[8], *numbers[:4])

    def _report_peaks(self, now: datetime) -> list[UsageRecord]:
        """The hours whose peak has increased since the last report; past hours are then deleted."""
        records = []
        for (hour, namespace), peak in list(self._peaks.items()):
            if peak[0] > peak[1]:
                peak[1:] = peak[0], peak[2] + 1
                records.append(self._usage_record(hour, (CONNECTIONS, namespace, "*"), peak[2], peak[0], 0, 0, 0))
            if hour + _HOUR <= now:
                del self._peaks[hour, namespace]
        return records

    def _usage_record(self, begins: datetime, key: _Key, seq: int, *numbers: int) -> UsageRecord:
        kind, namespace, entity = key
        identity = f"{self._pair}/{self._reporter}/{begins:%Y%m%dT%H%M}/{kind}/{namespace}/{entity}"
        return UsageRecord(
            identity, begins, self._pair, self._pair, namespace, entity, kind, self._reporter, seq, *numbers
        )
