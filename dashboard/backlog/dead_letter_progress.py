"""How far a job over dead letters is, and when it has to stop. Pure: no broker, no database, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pairing.messages.sizes import received_size

MOST_HELD, MOST_HELD_BYTES = 10_000, 64 * 1024**2  # kept locked to reach what is behind them
REACH_S = 40.0  # without anything done; less than a slice


@dataclass(slots=True)
class Progress:
    """What a job is about, what is done of it, and what this slice of it keeps locked."""

    chosen: Sequence[int]
    """The sequence numbers of the job; empty where it is about all up to `upto`."""
    upto: int
    total: int
    done: int
    left: set[int]
    """The chosen ones that are not done."""
    under_way: set[int]
    """Those that were begun: who finds one of them gone knows that it is done."""
    useful_at: float
    """When something was done last, or the slice began; seconds of a steady clock."""
    sent: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    held: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """Messages that are locked, with their sizes."""
    has_lapsed: bool = False
    done_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.done_before = self.done

    @property
    def open_numbers(self) -> set[int]:
        """The chosen ones that still have to be dealt with."""
        return self.left - self.refused.keys()

    @property
    def finished(self) -> list[int]:
        """The chosen ones that are done."""
        return [number for number in self.chosen if number not in self.left]

    @property
    def has_advanced(self) -> bool:
        """Whether this slice has done anything."""
        return self.done > self.done_before

    @property
    def seems_over(self) -> bool:
        """Whether as many are dealt with as were confirmed. Where all are meant, there may be more of them by now."""
        if self.chosen:
            return not self.open_numbers
        return self.done + len(self.refused) >= self.total

    def is_wanted(self, number: int) -> bool:
        """Whether a dead letter is to be dealt with."""
        if number in self.refused:
            return False
        return number in self.left if self.chosen else number <= self.upto

    def receive(self, messages: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Hold what was received: the wanted ones, now under way, and the numbers that were not held before."""
        fresh = [message.sequence_number for message in messages if message.sequence_number not in self.held]
        self.held |= {message.sequence_number: (message, received_size(message)) for message in messages}
        wanted = [message for message in messages if self.is_wanted(message.sequence_number)]
        self.has_lapsed = not wanted and len(fresh) < len(messages)
        self.under_way.update(message.sequence_number for message in wanted)
        return wanted, fresh

    def may_bring_more(self, fresh: Collection[int]) -> bool:
        """Whether another receive may find what is wanted."""
        return self.has_lapsed or (bool(fresh) and (bool(self.chosen) or min(fresh) <= self.upto))

    def is_at_its_limit(self, now_s: float) -> bool:
        """Whether the first locks have lapsed, or soon will, or more is kept locked than there is room for."""
        is_full = len(self.held) >= MOST_HELD or sum(size for _, size in self.held.values()) >= MOST_HELD_BYTES
        is_late = bool(self.held) and now_s - self.useful_at >= REACH_S
        return self.has_lapsed or is_full or is_late

    def finish(self, numbers: Collection[int], now_s: float) -> None:
        """These are done."""
        self.done += len(numbers)
        self.left.difference_update(numbers)
        self.under_way.difference_update(numbers)
        for number in numbers:
            self.held.pop(number, None)
        if numbers:
            self.useful_at = now_s

    def forget(self, numbers: Iterable[int]) -> None:
        """These were not sent after all: nobody may take them for done where another receiver takes them away."""
        self.under_way -= set(numbers) - self.sent

    def summary(self, verb: str, unreached: Collection[int]) -> str:
        """What came of the job, in sentences. `unreached`: those that lie behind more than can be kept locked."""
        missing = len(self.open_numbers - set(unreached))
        count = f"{len(unreached):,}" if self.chosen else "Some"
        sentences = [
            f"{self.done:,} {verb}.",
            f"{len(self.refused):,} not: {next(iter(self.refused.values()))}." if self.refused else "",
            f"{missing:,} were not there any more." if missing else "",
            f"{count} could not be reached behind {len(self.held):,} others: see to these first." if unreached else "",
        ]
        return " ".join(filter(None, sentences))
