"""Which rows cannot be billed, and why; the first applicable reason is counted (docs/costs.md, "Bad input")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipeline.schemas import KINDS, LARGEST_MESSAGE_BYTES, MOST, MOST_UNITS, TRANSFERS, USAGE

LONGEST = {"scope": 200, "pair": 63, "namespace": 260, "entity": 300}  # bytes; no such name can be stored
ZERO_BYTE = "\0"
FUTURE = "the minute lies in the future"
COUNTS = ("operations", "messages", "bytes", "billing_units")


def usage_reason(not_after: datetime | None) -> Column:
    """Why a usage row is not billed; null for a good row. `not_after`: later minutes come from a fast clock."""
    rules: list[tuple[Column, str]] = [
        *((F.col(name).isNull(), f"{name} is missing") for name in USAGE),
        (~F.col("kind").isin(*KINDS), "the kind is unknown"),
        *_impossible_names(*LONGEST),
        *((F.col(name) < 0, f"{name} is negative") for name in COUNTS),
        (_impossible_units(), "billing_units is less than messages"),
        (_impossible_size(), "bytes is more than the messages can hold"),
        *((F.col(name) > MOST, f"{name} is more than a minute can have") for name in COUNTS),
        (_impossible_cost(), "billing_units is more than the messages can cost"),
        (F.to_date("minute") != F.to_date("date"), "the minute is not of the folder's day"),
        (F.col("minute") != F.date_trunc("minute", "minute"), "the minute is not a whole minute"),
    ]
    if not_after is not None:
        rules.append((F.col("minute") > F.lit(not_after), FUTURE))
    return _first_reason(rules)


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


def _first_reason(rules: list[tuple[Column, str]]) -> Column:
    (first, its_reason), *others = rules
    return reduce(lambda so_far, rule: so_far.when(*rule), others, F.when(first, its_reason))
