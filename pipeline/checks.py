"""Which rows cannot be billed, and why; the first applicable reason is counted (docs/costs.md, "Bad input")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipeline.schemas import KINDS, LARGEST_MESSAGE_BYTES, MOST, MOST_UNITS, TRANSFERS, USAGE

LONGEST = {"scope": 200, "pair": 63, "namespace": 260, "entity": 300}  # bytes; no such name can be stored
ZERO_BYTE = "\0"
OTHER_DAY = "the minute is not of the folder's day"
FUTURE = "the minute lies in the future"
COUNTS = ("operations", "messages", "bytes", "billing_units")


class _Of(Enum):
    """What breaks a rule: a row by itself; or its names and hour, as all rows break it that share them; or that it has
    no id.
    """

    ROW = auto()
    HOUR = auto()
    ID = auto()


OF_NAMES = {"record_id": _Of.ID} | dict.fromkeys((*LONGEST, "kind"), _Of.HOUR)


@dataclass(frozen=True, slots=True)
class _Rule:
    broken: Column
    reason: str
    of: _Of = _Of.ROW


def usage_reason(not_after: datetime | None) -> Column:
    """Why a usage row is not billed; null for a good row. `not_after`: later minutes come from a fast clock."""
    return _reason(_usage_rules(not_after), *_Of)


def is_good_but_for_its_id(not_after: datetime | None) -> Column:
    """Whether a row is good, or would be if it had an id."""
    return _reason(_usage_rules(not_after), _Of.ROW, _Of.HOUR).isNull()


def is_good_in_its_hour(not_after: datetime | None) -> Column:
    """The same of a row whose hour is good."""
    return _reason(_usage_rules(not_after), _Of.ROW).isNull()


def is_good_hour() -> Column:
    """Whether the names and the `hour` of a sum of `rows` are good.

    Of a condition on these columns alone, Spark sees that it can ask it of each row instead.
    """
    rules = ((rule.broken, rule.reason) for rule in _usage_rules(None, "hour") if rule.of is _Of.HOUR)
    return _first_reason([(F.col("rows") == 0, "nothing was summed"), *rules]).isNull()


def _usage_rules(not_after: datetime | None, time: str = "minute") -> Iterator[_Rule]:
    for name in USAGE:
        yield _Rule(F.col(name).isNull(), f"{name} is missing", OF_NAMES.get(name, _Of.ROW))
    yield _Rule(~F.col("kind").isin(*KINDS), "the kind is unknown", _Of.HOUR)
    for broken, reason in _impossible_names(*LONGEST):
        yield _Rule(broken, reason, _Of.HOUR)
    for name in COUNTS:
        yield _Rule(F.col(name) < 0, f"{name} is negative")
    yield _Rule(_impossible_units(), "billing_units is less than messages")
    yield _Rule(_impossible_size(), "bytes is more than the messages can hold")
    for name in COUNTS:
        yield _Rule(F.col(name) > MOST, f"{name} is more than a minute can have")
    yield _Rule(_impossible_cost(), "billing_units is more than the messages can cost")
    yield _Rule(F.unix_micros("minute") < 0, OTHER_DAY)  # no month is so early; their hours are not looked at
    yield _Rule(F.to_date(time) != F.to_date("date"), OTHER_DAY, _Of.HOUR)
    yield _Rule(F.col("minute") != F.date_trunc("minute", "minute"), "the minute is not a whole minute")
    if not_after is not None:
        yield _Rule(F.col("minute") > F.lit(not_after), FUTURE)


def _reason(rules: Iterable[_Rule], *of: _Of) -> Column:
    return _first_reason((rule.broken, rule.reason) for rule in rules if rule.of in of)


def _impossible_names(*names: str) -> Iterator[tuple[Column, str]]:
    """Names that the database cannot store, or that it would store as one although they differ.

    Zero bytes in an entity's name are replaced when the result is made; those who pay and connect have plain names.
    """
    for name in names:
        yield F.octet_length(name) > LONGEST[name], f"{name} is too long"
        yield ~F.is_valid_utf8(name), f"{name} is not valid UTF-8"
        if name != "entity":
            yield F.contains(F.col(name), F.lit(ZERO_BYTE)), f"{name} contains a zero byte"


def _impossible_units() -> Column:
    """A sent or received message costs at least one unit; a peek or an attempt may cost none."""
    return F.col("kind").isin(*TRANSFERS) & (F.col("billing_units") < F.col("messages"))


def _impossible_size() -> Column:
    # Divided, not multiplied: the product of two wild counts could overflow, and that would end the whole job.
    return F.expr(f"bytes div {LARGEST_MESSAGE_BYTES}") > F.greatest("messages", "operations")


def _impossible_cost() -> Column:
    # More than MOST is refused by itself: up to it the product cannot overflow.
    return F.col("billing_units") > MOST_UNITS * F.least(F.greatest("operations", "messages"), F.lit(MOST))


def connection_reason() -> Column:
    """Why a row of connection peaks does not count; null for a good row."""
    return _first_reason(
        [
            *((F.col(name).isNull(), f"{name} is missing") for name in ("hour", "scope", "namespace", "peak")),
            *_impossible_names("scope", "namespace"),
            (F.col("peak") < 0, "peak is negative"),
            (F.col("peak") > MOST, "peak is more than a namespace can have"),
            (F.to_date("hour") != F.to_date("date"), "the hour is not of the folder's day"),
        ]
    )


def _first_reason(rules: Iterable[tuple[Column, str]]) -> Column:
    (first, its_reason), *others = rules
    return reduce(lambda so_far, rule: so_far.when(*rule), others, F.when(first, its_reason))
