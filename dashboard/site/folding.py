"""A long table in parts: its first rows, the rest, and together the rows that say nothing. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Folded(Generic[Row]):
    """The rows of a table. Together they are all of them, in their order."""

    first: Sequence[Row]
    rest: Sequence[Row]
    zeros: Sequence[Row]
    """Rows of zero, which are shown together. Empty if all rows are: then they are the table."""


def folded(rows: Sequence[Row], most: int, is_zero: Callable[[Row], bool]) -> Folded[Row]:
    """At most `most` rows first. A single row of zero stays where it is."""
    zeros = [row for row in rows if is_zero(row)]
    others = [row for row in rows if not is_zero(row)]
    if not others or len(zeros) == 1:
        others, zeros = list(rows), []
    return Folded(others[:most], others[most:], zeros)
