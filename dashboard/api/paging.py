"""Pages by cursor: each starts after the last row of the previous one, so that added or removed rows shift nothing."""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import Http404
from ninja import Query, Schema

from dashboard.api.fields import Instant, Word

Row = TypeVar("Row", bound=Model)
Item = TypeVar("Item")
NEWEST_FIRST = ("-time", "-id")
"""The order of events; the row id orders events of the same time."""
NONE = "There is no such page: send `next` back unchanged."


class Page(Schema, Generic[Item]):
    """A part of the items; `next` is the cursor of the following ones, null at the end."""

    items: list[Item]
    next: str | None


class Cursor(Schema):
    """The cursor, and the size of a page."""

    cursor: Annotated[str, Query(max_length=500, pattern=r"^[A-Za-z0-9_=-]*$")] = ""
    limit: Annotated[int, Query(ge=1, le=500)] = 100


class Between(Cursor):
    """Selects records of a pair, from `since` on, and before `until`."""

    pair: Word = ""
    since: Instant | None = None
    until: Instant | None = None

    def of(self, rows: QuerySet[Any], column: str) -> QuerySet[Any]:
        lookups = {"pair": self.pair, f"{column}__gte": self.since, f"{column}__lt": self.until}
        return rows.filter(**{name: value for name, value in lookups.items() if value})


def page(
    rows: QuerySet[Row],
    order: tuple[str, ...],
    where: Cursor,
    shown: Callable[[Row], Any] = lambda row: row,
    *,
    most: int = 500,
) -> dict[str, Any]:
    """The page of rows in this order (names as for order_by; together they are unique). Raises Http404."""
    limit = min(where.limit, most)
    wanted = rows.order_by(*order)
    if where.cursor:
        wanted = wanted.filter(_after(order, _values(rows, order, where.cursor)))
    found = list(wanted[: limit + 1])
    return {
        "items": [shown(row) for row in found[:limit]],
        "next": _cursor(found[limit - 1], order) if len(found) > limit else None,
    }


def _after(order: tuple[str, ...], values: list[Any]) -> Q:
    """Rows after these values: later in the first column, or equal there and later in the next, and so on."""
    wanted, equal = Q(pk__in=()), Q()
    for name, value in zip(order, values, strict=True):
        column = name.lstrip("-")
        wanted |= equal & Q(**{f"{column}__{'lt' if name.startswith('-') else 'gt'}": value})
        equal &= Q(**{column: value})
    return wanted


def _cursor(row: Model, order: tuple[str, ...]) -> str:
    values = [getattr(row, name.lstrip("-")) for name in order]
    parts = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _values(rows: QuerySet[Row], order: tuple[str, ...], cursor: str) -> list[Any]:
    try:
        parts = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
        if (
            not isinstance(parts, list)
            or len(parts) != len(order)
            or not all(isinstance(each, str | int) for each in parts)
        ):
            raise ValueError
        fields = [rows.model._meta.get_field(name.lstrip("-")) for name in order]
        return [_value(field, each) for field, each in zip(fields, parts, strict=True)]
    except (ValueError, TypeError, binascii.Error, ValidationError, OverflowError):
        raise Http404(NONE) from None


def _value(field: Any, parts: str | int) -> Any:
    value = field.to_python(parts)
    if value is None or (isinstance(value, int) and abs(value) >= 2**63) or "\0" in str(value):
        raise ValueError
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError
    return value
