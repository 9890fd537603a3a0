"""What the library did and will be billed for: counted in memory, reported as one record per minute and kind.

A record has an identity that stays the same however often it is delivered, and numbers that add up from the start of
its minute; of records with one identity the one with the highest ``seq`` counts (docs/specification.md, section 10).
"""

import builtins
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pairing.clock import Clock

KINDS = frozenset(
    {
        "send",
        "send_backlog",
        "ping",
        "syphon_receive",
        "syphon_receive_empty",
        "syphon_send",
        "syphon_settle",
        "receive",
        "receive_empty",
        "settle",
        "manage",
    }
)
"""What can be counted."""

_STEP = 65_536
_MINUTE = timedelta(minutes=1)
_MOST_PENDING = 20_000

_Key = tuple[str, str, str]
_Minute = dict[_Key, list[int]]


def billing_units(size_bytes: int) -> int:
    """64 KB steps of a message or call of this size, at least 1."""
    return max(1, -(-size_bytes // _STEP))


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What one process did of one kind for one entity in one minute."""

    record_id: str
    minute: datetime
    """Start of the minute, aware and UTC."""
    scope: str
    """Billing scope; the pair's name until somebody who knows the subscription replaces it."""
    pair: str
    namespace: str
    """Where it is billed."""
    entity: str
    """What it was for; ``*`` where there is none."""
    kind: str
    reporter: str
    """The process that did it."""
    seq: int
    operations: int
    messages: int
    bytes: int
    billing_units: int

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self) | {"minute": self.minute.isoformat()})

    @classmethod
    def from_json(cls, text: str | builtins.bytes) -> "UsageRecord":
        """The record that ``to_json`` wrote; ValueError or TypeError where the text is none."""
        fields: Mapping[str, Any] = json.loads(text)
        record = cls(**{**fields, "minute": datetime.fromisoformat(fields["minute"])})
        if record.minute.tzinfo is None or not all(_fits(getattr(record, name), kind) for name, kind in _TYPES.items()):
            raise ValueError("not a usage record: a field is of the wrong type")
        return record


_TEXTS = ("record_id", "scope", "pair", "namespace", "entity", "kind", "reporter")
_NUMBERS = ("seq", "operations", "messages", "bytes", "billing_units")
_TYPES: dict[str, type] = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_NUMBERS, int)}


def _fits(value: Any, kind: type) -> bool:
    """Whether a column of this kind takes the value: whole numbers have 64 bits there."""
    return type(value) is kind and (not isinstance(value, int) or -(2**63) <= value < 2**63)


class UsageMeter:
    """Counts operations, from any thread; whoever drains it gets each minute once it is over.

    Where nobody drains it, memory stays bounded: old minutes are added to the next ones, no number is lost.
    """

    def __init__(self, pair: str, reporter: str, clock: Clock, *, most_pending: int = _MOST_PENDING) -> None:
        self._pair, self._reporter, self._clock, self._most_pending = pair, reporter, clock, most_pending
        self._now = clock.now
        self._lock = threading.Lock()
        self._closed: dict[datetime, _Minute] = {}
        self._open: _Minute = {}
        self._minute = datetime.min.replace(tzinfo=UTC)
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
        """Adds to the current minute; ValueError where ``kind`` is none of ``KINDS``."""
        key = (kind, namespace, entity)
        with self._lock:
            now = self._now()
            if now >= self._minute_ends:
                self._turn(now)
            numbers = self._open.get(key)
            if numbers is None:
                numbers = self._open[key] = self._begin(kind)
            numbers[0] += operations
            numbers[1] += messages
            numbers[2] += bytes
            numbers[3] += billing_units

    def drain(self, now: float, *, everything: bool = False) -> list[UsageRecord]:
        """The records of the minutes that are over at ``now`` on the meter's clock, each once.

        ``everything`` adds the running minute so far; its records come again, with a higher ``seq``, if they grow.
        """
        with self._lock:
            if now >= self._minute_ends:
                self._turn(now)
            closed, self._closed = self._closed, {}
            records = [record for minute, numbers in closed.items() for record in self._report(minute, numbers)]
            return records + (self._report(self._minute, self._open) if everything else [])

    @staticmethod
    def _begin(kind: str) -> list[int]:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of usage: {kind}")
        return [0] * 9  # four numbers, the same four as last reported, the last seq

    def _turn(self, now: float) -> None:
        """Begins the minute of ``now``; a wall clock that was set back never reopens one that was reported."""
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
            total = into.setdefault(key, self._begin(key[0]))
            for i in range(4):
                total[i] += numbers[i] - numbers[4 + i]  # what was reported stays where it was

    def _report(self, minute: datetime, counted: _Minute) -> list[UsageRecord]:
        return [self._record(minute, key, numbers) for key, numbers in counted.items() if numbers[:4] != numbers[4:8]]

    def _record(self, minute: datetime, key: _Key, numbers: list[int]) -> UsageRecord:
        kind, namespace, entity = key
        numbers[4:8] = numbers[:4]
        numbers[8] += 1
        identity = f"{self._pair}/{self._reporter}/{minute:%Y%m%dT%H%M}/{kind}/{namespace}/{entity}"
        return UsageRecord(
            identity, minute, self._pair, self._pair, namespace, entity, kind, self._reporter, numbers[8], *numbers[:4]
        )
