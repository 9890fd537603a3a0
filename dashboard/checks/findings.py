"""What a check of the environment finds about one item: a level, its cause and a remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is, best first."""

    OK = "ok"
    WARNING = "warning"
    """It works, or works in part; somebody should look at it."""
    PROBLEM = "problem"
    """The control plane cannot work like this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the output. A finding that is not ok has a remedy."""

    item: str
    level: Level
    cause: str
    remedy: str = ""


def ok(item: str, cause: str) -> Finding:
    """Nothing to do."""
    return Finding(item, Level.OK, cause)


def warning(item: str, cause: str, remedy: str) -> Finding:
    """Something to look at."""
    return Finding(item, Level.WARNING, cause, remedy)


def problem(item: str, cause: str, remedy: str) -> Finding:
    """Something to correct."""
    return Finding(item, Level.PROBLEM, cause, remedy)


def status_of(findings: Iterable[Finding]) -> int:
    """The exit status: 1 if there is a problem, else 0."""
    return int(any(finding.level is Level.PROBLEM for finding in findings))


def lines(findings: Sequence[Finding]) -> list[str]:
    """One line for each finding, and a last one with the counts."""
    width = max((len(finding.item) for finding in findings), default=0)
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    total = ", ".join(f"{count} {level}" for level, count in counts.items())
    return [*(_line(finding, width) for finding in findings), total]


def _line(finding: Finding, width: int) -> str:
    text = f"{finding.cause} {finding.remedy}".strip()
    return f"{finding.level:<8} {finding.item:<{width}}  {' '.join(text.split())}"


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs."""
    return {"is_complete": not status_of(findings), "findings": [asdict(finding) for finding in findings]}
