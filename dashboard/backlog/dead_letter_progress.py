"""The progress of a dead-letter job, and when it has to stop. Pure: no broker, no database, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pairing.messages.sizes import received_size

MOST_HELD, MOST_HELD_BYTES = 10_000, 64 * 1024**2  # kept locked to reach the messages behind them
REACH_S = 40.0  # without progress; less than a slice


@dataclass(slots=True)
class Progress:
    """The scope of a job, its completed part, and the messages that this slice keeps locked."""

    chosen: Sequence[int]
    """The sequence numbers of the job; empty if it covers all up to `upto`."""
    upto: int
    total: int
    done: int
    left: set[int]
    """The selected ones that are not done."""
    under_way: set[int]
    """Those whose processing was started: if one of them is gone, it is done."""
    useful_at: float
    """Time of the last progress, or of the start of the slice, in seconds of a monotonic clock."""
    sent: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    held: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """Locked messages with their sizes."""
    has_lapsed: bool = False
    done_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.done_before = self.done

    @property
    def open_numbers(self) -> set[int]:
        """The selected ones that still have to be processed."""
        return self.left - self.refused.keys()

    @property
    def finished(self) -> list[int]:
        """The selected ones that are done."""
        return [number for number in self.chosen if number not in self.left]

    @property
    def has_advanced(self) -> bool:
        """Whether this slice made progress."""
        return self.done > self.done_before

    @property
    def seems_over(self) -> bool:
        """Whether as many are processed as were confirmed. A job over all dead letters may find new ones."""
        if self.chosen:
            return not self.open_numbers
        return self.done + len(self.refused) >= self.total

    def is_wanted(self, number: int) -> bool:
        """Whether a dead letter belongs to the job."""
        if number in self.refused:
            return False
        return number in self.left if self.chosen else number <= self.upto

    def receive(self, messages: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Keep received messages locked. Returns those of the job, now started, and the newly locked numbers."""
        fresh = [message.sequence_number for message in messages if message.sequence_number not in self.held]
        self.held |= {message.sequence_number: (message, received_size(message)) for message in messages}
        wanted = [message for message in messages if self.is_wanted(message.sequence_number)]
        self.has_lapsed = not wanted and len(fresh) < len(messages)
        self.under_way.update(message.sequence_number for message in wanted)
        return wanted, fresh

    def may_bring_more(self, fresh: Collection[int]) -> bool:
        """Whether another receive can find messages of the job."""
        return self.has_lapsed or (bool(fresh) and (bool(self.chosen) or min(fresh) <= self.upto))

    def is_at_its_limit(self, now_s: float) -> bool:
        """Whether the first locks have expired or soon will, or the limit of locked messages is reached."""
        is_full = len(self.held) >= MOST_HELD or sum(size for _, size in self.held.values()) >= MOST_HELD_BYTES
        is_late = bool(self.held) and now_s - self.useful_at >= REACH_S
        return self.has_lapsed or is_full or is_late

    def finish(self, numbers: Collection[int], now_s: float) -> None:
        """Mark these as done."""
        self.done += len(numbers)
        self.left.difference_update(numbers)
        self.under_way.difference_update(numbers)
        for number in numbers:
            self.held.pop(number, None)
        if numbers:
            self.useful_at = now_s

    def forget(self, numbers: Iterable[int]) -> None:
        """Mark these as not sent, so that they do not count as done if another receiver removes them."""
        self.under_way -= set(numbers) - self.sent

    def summary(self, verb: str, unreached: Collection[int]) -> str:
        """The result of the job in sentences. `unreached`: those behind more messages than can be kept locked."""
        missing = len(self.open_numbers - set(unreached))
        count = f"{len(unreached):,}" if self.chosen else "Some"
        sentences = [
            f"{self.done:,} {verb}.",
            f"{len(self.refused):,} not: {next(iter(self.refused.values()))}." if self.refused else "",
            f"{missing:,} no longer existed." if missing else "",
            f"{count} could not be reached behind {len(self.held):,} others: process these first." if unreached else "",
        ]
        return " ".join(filter(None, sentences))
