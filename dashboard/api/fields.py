"""Types of values in requests, validated on input."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.http import Http404
from ninja import Schema
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from dashboard.models import Pair
from dashboard.site.money import amount
from pipeline.months import PATTERN

_NO_NUL = r"^[^\x00]*$"
_NOT_BLANK = r"^[^\x00]*[^\x00-\x20][^\x00]*$"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

Path = Annotated[str, Field(min_length=1, max_length=300, pattern=_NO_NUL)]
Word = Annotated[str, Field(max_length=300, pattern=_NO_NUL)]
Reason = Annotated[
    str, Field(min_length=1, max_length=500, pattern=_NOT_BLANK, description="Stored in the audit trail; not blank.")
]
Month = Annotated[str, Field(pattern=f"^{PATTERN}$", max_length=7, description="YYYY-MM")]


def _whole(value: Any) -> Any:
    """JSON has only one type of number: 5.0 is 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Number = Annotated[int, Field(ge=0, lt=2**63), WHOLE]
Rule = Literal["", "published", "settlements"]
Amount = Annotated[str, BeforeValidator(amount)]
"""An amount of cents in a response: 123.45."""


def _instant(value: Any) -> Any:
    """A bare number is not a time, although pydantic would accept it."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("use RFC 3339 with an offset: 2026-11-02T03:00:00Z")
    return value.upper()


def _bounded(value: datetime) -> datetime:
    """Times outside the range of the database are replaced by the nearest possible ones."""
    try:
        return min(max(value.astimezone(UTC), _FIRST), _LAST)
    except OverflowError:
        return _FIRST if value.year < _FIRST.year else _LAST


Instant = Annotated[datetime, BeforeValidator(_instant), AfterValidator(_bounded)]


class Body(Schema):
    """The body of a request. Unknown fields are rejected, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Why(Body):
    """The reason."""

    reason: Reason


def pair_or_404(name: str) -> Pair:
    """The pair with this name."""
    row = Pair.objects.filter(name=name).first() if "\0" not in name else None
    if row is None:
        raise Http404("There is no pair with that name; GET /api/v1/pairs lists them.")
    return row
