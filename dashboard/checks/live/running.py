"""Tries assumptions one after another, always cleans up, and reports."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dashboard.checks.live import failovers, service  # noqa: F401 (they register their assumptions)
from dashboard.checks.live.assumptions import ASSUMPTIONS, Assumption, Holding
from dashboard.checks.live.stage import Stage, now, prefix_of
from dashboard.fleet.pairs.pairs_file import PairConfig

HELD, DID_NOT_HOLD, NOT_CLEAN = 0, 1, 2
OPERATIONS = 400
"""Billable operations of a whole run, at most."""
_ABOUT_AN_EMULATOR = (
    "Tried on a local namespace (emulator): the results are about the emulator, and show nothing about Azure."
)
_ABOUT_AZURE = "Tried on Azure Service Bus: the results are about these two namespaces, at this time."


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one assumption, with a reason unless it holds."""

    assumption: Assumption
    holding: Holding
    reason: str

    def line(self) -> str:
        """Only what does not hold, or is not known, needs its reason."""
        line = f"{self.holding:<14} {self.assumption.id:<22} {self.assumption.sentence}"
        if self.holding is Holding.HOLDS:
            return line
        reason = f"{self.reason[:1].upper()}{self.reason[1:].rstrip('.')}."
        return f"{line} {reason} (docs/{self.assumption.section})"


@dataclass(slots=True)
class Report:
    """Everything that a run found."""

    is_emulator: bool
    results: list[Result] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Scratch entities that could not be deleted."""
    interrupted: bool = False

    @property
    def status(self) -> int:
        """The exit status. An assumption about which nothing was learned does not change it."""
        if self.left or self.interrupted:
            return NOT_CLEAN
        return DID_NOT_HOLD if any(one.holding is Holding.FAILS for one in self.results) else HELD

    def lines(self) -> list[str]:
        """What follows the results themselves."""
        counts = Counter(result.holding for result in self.results)
        total = ", ".join(f"{counts[holding]} {holding}" for holding in Holding)
        about = _ABOUT_AN_EMULATOR if self.is_emulator else _ABOUT_AZURE
        left = [f"Not deleted: {name}. Run it again with --clean." for name in self.left]
        return [total, *(["Interrupted: the rest was not tried."] if self.interrupted else []), *left, about]


def run_live(pair: PairConfig, ids: Sequence[str], on_result: Callable[[Result], None]) -> Report:
    """Try these assumptions, or all; KeyboardInterrupt ends the trials early. Afterwards scratch entities are gone."""
    with Stage(pair, prefix_of(now(), uuid.uuid4().hex[:8])) as stage:
        report = Report(any(end.emulator for end in stage.endpoints.values()))
        try:
            for assumption in (ASSUMPTIONS[id_] for id_ in ids or ASSUMPTIONS):
                report.results.append(Result(assumption, *assumption.tried(stage)))
                on_result(report.results[-1])
        except KeyboardInterrupt:
            report.interrupted = True
        finally:
            report.left = stage.clean_up()
        return report
