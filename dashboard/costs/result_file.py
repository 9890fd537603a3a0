"""The result file of a charges run: read, and checked record by record for what the database can store.

A record that cannot be stored is left out with a reason, so that no single record keeps the month from being stored.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from django.db import models

from dashboard.costs.jobs import JobFailed

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
ESCAPED = "\\u"
LARGEST = 2**63 - 1
LARGEST_POSITIVE = 2**31 - 1
EXAMPLES = 20
LEVELS = 20
SET_HERE = {"id", "run", "invoice", "statement", "closed_at"}
"""Fields of rows that no record has."""
COUNTED = ("read", "accepted", "copies", "quarantined")
PRICE_ROW = ("meter", "unit", "from", "price", "currency")
NOTHING: Mapping[str, Any] = {}
Key = tuple[str, ...]
Record = Mapping[str, Any]
Stored = TypeVar("Stored", bound=models.Model)


@dataclass(slots=True)
class LeftOut:
    """What could not be stored: how many records, the cents of those that are rows of an invoice, and examples."""

    count: int = 0
    cents: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, reason: str, cents: object = 0) -> None:
        self.count += 1
        self.cents += cents if isinstance(cents, int) else 0
        if len(self.examples) < EXAMPLES:
            self.examples.append((what[:300], reason))

    @property
    def details(self) -> dict[str, Any]:
        return {"count": self.count, "cents": self.cents, "examples": self.examples}


class Rows:
    """Checked rows for the database, by model: without those that cannot be stored and those with a known key."""

    def __init__(self, left_out: LeftOut) -> None:
        self.left_out = left_out
        self._seen: set[tuple[object, ...]] = set()

    def row(self, model: type[Stored], key: Key, record: Record, added: Record = NOTHING) -> Stored | None:
        """The row, not yet stored; None if it cannot be, which is noted. `key`: the fields that make it unique.

        `added`: the values of the row that the record does not have under these names.
        """
        return model(**record, **added) if self.fits(model, key, record, added) else None

    def fits(self, model: type[models.Model], key: Key, record: Record, added: Record = NOTHING) -> bool:
        """Whether it can be stored as a row; noted if not."""
        reason = self._reason(model, key, record, added)
        if reason:
            self.leave_out(model, key, {**record, **added}, reason)
        return not reason

    def leave_out(self, model: type[models.Model], key: Key, values: Record, reason: str) -> None:
        """Note why there is no such row."""
        what = " ".join(_shown(values.get(name)) for name in key)
        self.left_out.add(f"{model._meta.verbose_name} {what}", reason, values.get("cents"))

    def _reason(self, model: type[models.Model], key: Key, record: Record, added: Record) -> str:
        checks, values = _checks(model), {**record, **added}
        if unknown := record.keys() - (_names(model) - added.keys()):
            return f"has the unknown field {min(unknown)}"
        if missing := _required(model) - values.keys():
            return f"has no {min(missing)}"
        for name, value in values.items():
            if name in checks and (reason := checks[name](value)):
                return f"{name} {reason}"
        parsers = _parsers(model)
        identity = (model, *(parsers.get(name, str)(values.get(name, "")) for name in key))
        if identity in self._seen:
            return "is there twice"
        self._seen.add(identity)
        return ""


def _shown(value: Any) -> str:
    return "…" if isinstance(value, dict | list) else str(value)  # whose levels may be too many


@cache
def _names(model: type[models.Model]) -> frozenset[str]:
    """The fields that a record may fill."""
    return frozenset(each.name for each in model._meta.fields) - SET_HERE


@cache
def _parsers(model: type[models.Model]) -> dict[str, Callable[[Any], object]]:
    """By field what a text stands for: a time or a day can be written in several ways."""
    return {each.name: each.to_python for each in model._meta.fields if isinstance(each, models.DateField)}


@cache
def _required(model: type[models.Model]) -> frozenset[str]:
    return frozenset(
        each.name
        for each in model._meta.fields
        if not (each.primary_key or each.null or each.has_default() or each.blank)
    )


@cache
def _checks(model: type[models.Model]) -> dict[str, Callable[[Any], str]]:
    """For each field of the model that is filled from a record: why a value does not fit; empty if it does."""
    return {each.name: check for each in model._meta.fields if (check := _check_of(each)) is not None}


def _check_of(of: models.Field[Any, Any]) -> Callable[[Any], str] | None:
    check: Callable[[Any], str]
    match of:
        case models.CharField() | models.TextField():
            check = _text_check(of.max_length)
        case models.PositiveIntegerField():
            check = _whole_check(0, LARGEST_POSITIVE)
        case models.BigIntegerField():
            check = _whole_check(-LARGEST, LARGEST)
        case models.BooleanField():
            check = _flag_problem
        case models.FloatField():
            check = _number_problem
        case models.DateTimeField():
            check = _moment_problem
        case models.DateField():
            check = _date_problem
        case models.JSONField():
            check = _json_check(of.default)
        case _:
            return None
    return (lambda value: "" if value is None else check(value)) if of.null else check


def _text_check(longest: int | None) -> Callable[[Any], str]:
    def problem(value: Any) -> str:
        if not isinstance(value, str):
            return "is not a text"
        return f"has {len(value)} characters, more than {longest}" if longest and len(value) > longest else ""

    return problem


def _whole_check(least: int, most: int) -> Callable[[Any], str]:
    def problem(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "is not a whole number"
        return "" if least <= value <= most else "is a number that cannot be stored"

    return problem


def _json_check(kind: object) -> Callable[[Any], str]:
    """A field with the default `dict` holds an object, any other one a list.

    Without this check a JSON null would become a NULL of the database, which refuses the whole month.
    """

    def problem(value: Any) -> str:
        if not isinstance(value, dict if kind is dict else list):
            return "is not an object" if kind is dict else "is not a list"
        return json_problem(value)

    return problem


def json_problem(value: Any, levels: int = LEVELS) -> str:
    """Why the value does not fit a JSON field: the database has no infinity (`1e400`), and a limit of levels."""
    match value:
        case int() | float():
            return "" if -LARGEST <= value <= LARGEST else "has a number that cannot be stored"
        case dict() | list() if not levels:
            return f"has more than {LEVELS} levels"
        case dict() | list():
            inner = value.values() if isinstance(value, dict) else value
            return next(filter(None, (json_problem(each, levels - 1) for each in inner)), "")
    return ""


def description_problem(details: Mapping[str, Any]) -> str:
    """Why the pages and the command cannot show this description of a run; empty if they can."""
    counts = details.get("counts")
    if not isinstance(counts, dict) or not all(_is_count(counts.get(name)) for name in COUNTED):
        return "has no counts"
    reasons, rejected, examples = counts.get("reasons"), counts.get("rejected"), counts.get("examples", [])
    if not isinstance(reasons, dict) or not all(map(_is_count, reasons.values())):
        return "has no counts by reason"
    if not isinstance(rejected, list) or not all(_is_pair_of_texts(each) for each in rejected):
        return "has no list of the files that were left out"
    if not isinstance(examples, list) or not all(isinstance(each, dict) for each in examples):
        return "has no list of quarantined rows"
    prices, hours = details.get("prices"), details.get("hours_in_month")
    if not isinstance(prices, list) or not all(map(_is_price_row, prices)):
        return "has no price rows"
    if hours is not None and not (_is_count(hours) and hours):
        return "has no hours"
    return "" if isinstance(details.get("tiers", {}), dict) else "has no tiers by namespace"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pair_of_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)


def _is_price_row(row: Any) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in PRICE_ROW):
        return False
    try:
        return Decimal(row["from"]).is_finite() and Decimal(row["price"]).is_finite()
    except InvalidOperation:
        return False


def _flag_problem(value: Any) -> str:
    return "" if isinstance(value, bool) else "is neither true nor false"


def _number_problem(value: Any) -> str:
    return "" if isinstance(value, int | float) and abs(value) <= sys.float_info.max else "is not a number"


def _moment_problem(value: Any) -> str:
    return "" if isinstance(value, datetime) or _parses(datetime.fromisoformat, value) else "is not a time"


def _date_problem(value: Any) -> str:
    return "" if isinstance(value, date) or _parses(date.fromisoformat, value) else "is not a date"


def _parses(parse: Callable[[str], date], value: Any) -> bool:
    try:
        found = parse(value)
        if isinstance(found, datetime):
            found.astimezone(UTC)  # as it is stored: the calendar begins and ends there, too
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(found, datetime) or found.tzinfo is not None


def records_in(result: Path, *, is_complete: bool = False) -> Iterator[dict[str, Any]]:
    """The records of the file, the `run` first. Raises JobFailed if it is not such a file.

    `is_complete`: whether the last record must say how many there are, as the job writes it.
    """
    count, last = 0, dict[str, Any]()
    try:
        with result.open(encoding="utf-8") as lines:
            for count, line in enumerate(lines, 1):
                last = _record(line, count)
                yield last.copy()
    except OSError as error:
        raise JobFailed(f"The result {result} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # also of the encoding, and of thousands of brackets
        raise JobFailed(f"The result {result} cannot be stored: line {count or 1} is not a record.") from error
    if not count:
        raise JobFailed(f"The result {result} is empty.")
    if is_complete and (last.get("record") != "end" or last.get("records") != count - 1):
        raise JobFailed(f"The result {result} is not complete: copy it again, or run the job again.")


def _record(line: str, number: int) -> dict[str, Any]:
    found = _decoded(line)
    if not isinstance(found, dict) or not isinstance(found.get("record"), str):
        raise ValueError("not a record")
    if (number == 1) != (found["record"] == "run"):
        raise ValueError("the run is the first record")
    record: dict[str, Any] = storable(found) if ESCAPED in line else found
    return record


def _decoded(line: str) -> Any:
    try:
        return DECODER.decode(line)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a whole number has more digits than Python reads (4,300)
        return OF_LONG_NUMBERS.decode(line)


def storable(value: Any) -> Any:
    """The value with each character replaced that the database rejects: zero bytes and lone surrogates."""
    match value:
        case str():
            return UNSTORABLE.sub("\ufffd", value)
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list():
            return [storable(each) for each in value]
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _whole_or_infinite(text: str) -> int | float:
    return int(text) if len(text) <= 100 else math.inf


DECODER = json.JSONDecoder(parse_constant=_no_number)
OF_LONG_NUMBERS = json.JSONDecoder(parse_constant=_no_number, parse_int=_whole_or_infinite)
"""It takes twice the time."""
