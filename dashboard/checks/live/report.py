"""The report of a live check: each assumption with its result, and what the whole is about. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dashboard.checks.live.assumptions import BY_ID, Holding, Result

HELD, DID_NOT_HOLD, NOT_CLEAN = 0, 1, 2
ABOUT_AN_EMULATOR = (
    "Tried on a local namespace (emulator): the results are about the emulator, and show nothing about Azure."
)
ABOUT_AZURE = "Tried on Azure Service Bus: the results are about these two namespaces, at this time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a run found."""

    pair: str
    hosts: Mapping[str, str]
    is_emulator: bool
    began_at: datetime
    ended_at: datetime
    operations: Mapping[str, int]
    cost: Mapping[str, Any] | None
    results: Sequence[Result]
    left: Sequence[str] = field(default=())
    """Scratch entities that could not be deleted."""
    interrupted: bool = False

    @property
    def status(self) -> int:
        """The exit status. What could not be held_if does not change it."""
        if self.left or self.interrupted:
            return NOT_CLEAN
        return DID_NOT_HOLD if any(one.holding is Holding.FAILS for one in self.results) else HELD

    @property
    def about(self) -> str:
        """What the results are about."""
        return ABOUT_AN_EMULATOR if self.is_emulator else ABOUT_AZURE

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pair": self.pair,
            "namespaces": dict(self.hosts),
            "is_emulator": self.is_emulator,
            "about": self.about,
            "began_at": self.began_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "interrupted": self.interrupted,
            "operations_at_most": dict(self.operations),
            "cost_at_most": None if self.cost is None else dict(self.cost),
            "results": [_entry(result) for result in self.results],
            "left": list(self.left),
        }

    def lines(self) -> list[str]:
        """For people: the results are printed as they come, so only what concerns all of them."""
        counts = Counter(result.holding for result in self.results)
        total = ", ".join(f"{counts[holding]} {holding}" for holding in Holding)
        left = [f"Not deleted: {path}. Run it again with --clean." for path in self.left]
        return [total, *(["Interrupted: the rest was not tried."] if self.interrupted else []), *left, self.about]


def _entry(result: Result) -> dict[str, str]:
    assumption = BY_ID[result.id]
    return {
        "id": result.id,
        "assumption": assumption.sentence,
        "documented": f"docs/{assumption.section}",
        "result": result.holding.value,
        "reason": result.reason,
    }


def line_of(result: Result) -> str:
    """One result for people: only what does not hold, or is not known, needs its reason."""
    assumption = BY_ID[result.id]
    said = f"{result.holding:<14} {result.id:<24} {assumption.sentence}"
    if result.holding is Holding.HOLDS:
        return said
    return f"{said} {result.reason[:1].upper()}{result.reason[1:].rstrip('.')}. (docs/{assumption.section})"
