"""Which records cannot be billed, and why; the first applicable reason is counted (docs/costs.md, "Bad input")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipeline.schemas import FUTURE, KEY, KINDS, LARGEST_MESSAGE_BYTES, LONGEST, MOST, MOST_UNITS, TRANSFERS, USAGE

COUNTS = ("operations", "messages", "bytes", "billing_units")


def usage_reason(not_after: datetime | None) -> Column:
    """Why a record is not billed; null for a good one. `not_after`: later minutes come from a fast clock."""
    (first, its_reason), *others = (*of_id(), *of_row(not_after), *of_key())
    return reduce(lambda so_far, rule: so_far.when(*rule), others, F.when(first, its_reason))


def is_none_of(rules: Iterable[tuple[Column, str]]) -> Column:
    """Whether no rule applies, which is found sooner than the reason."""
    return ~reduce(or_, (condition for condition, _ in rules))


def of_key() -> Iterator[tuple[Column, str]]:
    """The rules about a record's KEY, which many have in common."""
    for name in KEY:
        yield F.col(name).isNull(), f"{name} is missing"
    yield ~F.col("kind").isin(*KINDS), "the kind is unknown"
    for name in LONGEST:
        yield F.octet_length(name) > LONGEST[name], f"{name} is too long"
        yield ~F.is_valid_utf8(name), f"{name} is not valid UTF-8"
        if name != "entity":  # those who pay and connect have plain names; an entity's zero bytes are replaced
            yield F.contains(F.col(name), F.lit("\0")), f"{name} contains a zero byte"


def of_id() -> Iterator[tuple[Column, str]]:
    """The rule about a record's id."""
    yield F.col("record_id").isNull(), "record_id is missing"


def of_row(not_after: datetime | None) -> Iterator[tuple[Column, str]]:
    """The other rules."""
    for name in (name for name in USAGE if name not in (*KEY, "record_id")):
        yield F.col(name).isNull(), f"{name} is missing"
    for name in COUNTS:
        yield F.col(name) < 0, f"{name} is negative"
    # A sent or received message costs at least one unit; a peek or an attempt may cost none.
    is_cheap = F.col("billing_units") < F.col("messages")
    yield F.col("kind").isin(*TRANSFERS) & is_cheap, "billing_units is less than messages"
    # Divided, not multiplied: the product of two wild counts could overflow, and that would end the whole job.
    is_large = F.expr(f"bytes div {LARGEST_MESSAGE_BYTES}") > F.greatest("messages", "operations")
    yield is_large, "bytes is more than the messages can hold"
    for name in COUNTS:
        yield F.col(name) > MOST, f"{name} is more than a minute can have"
    most = MOST_UNITS * F.least(F.greatest("operations", "messages"), F.lit(MOST))
    yield F.col("billing_units") > most, "billing_units is more than the messages can cost"
    micros = F.unix_micros("minute")
    yield micros < 0, "the minute lies before 1970"
    yield micros % 60_000_000 != 0, "the minute is not a whole minute"
    if not_after is not None:
        yield F.col("minute") > F.lit(not_after), FUTURE
