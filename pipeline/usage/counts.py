"""The number of rows that were read, and their results: no row disappears uncounted (docs/costs.md, "Bad input")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pipeline.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The rows that were read, and their results.

    `rejected`: ignored files, and why; `examples`: some of the quarantined rows, with place and reason.
    """

    read: int = 0
    accepted: int = 0
    copies: int = 0
    quarantined: int = 0
    files: int = 0
    files_rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    rejected: Sequence[tuple[str, str]] = ()
    examples: Sequence[Mapping[str, str]] = ()


def total(parts: Iterable[Counts]) -> Counts:
    """The counts together."""
    known = list(parts)
    reasons: Counter[str] = Counter()
    for part in known:
        reasons.update(part.reasons)
    return Counts(
        read=sum(part.read for part in known),
        accepted=sum(part.accepted for part in known),
        copies=sum(part.copies for part in known),
        quarantined=sum(part.quarantined for part in known),
        files=sum(part.files for part in known),
        files_rejected=sum(part.files_rejected for part in known),
        reasons=dict(reasons),
        rejected=[entry for part in known for entry in part.rejected],
        examples=[row for part in known for row in part.examples],
    )


REMEDY = (
    "Repair or remove them, rename a file so that its name begins with _ to leave it out of every run, "
    "or compute the month once without them with --max-quarantined 1."
)


def refuse_too_much(counts: Counts, allowed: Fraction) -> None:
    """Refuses to create an invoice if too much of the input is unusable."""
    rows = Fraction(counts.quarantined, counts.read or 1)
    files = Fraction(counts.files_rejected, counts.files or 1)
    if max(rows, files) > allowed:
        raise InputError(
            f"Too much of the input is unusable ({counts.quarantined} of {counts.read} rows, "
            f"{counts.files_rejected} of {counts.files} files, more than {float(allowed):.0%}): nothing was published. "
            f"{_why(counts)} {REMEDY}"
        )


def _why(counts: Counts) -> str:
    files = [f"{path} {reason}" for path, reason in counts.rejected[:3]]
    return "; ".join([*files, *(f"{count} rows: {reason}" for reason, count in sorted(counts.reasons.items()))]) + "."
