"""A month's charges from its usage files: read, check, keep each fact once, sort into tiers, price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.checks import connection_reason, usage_reason
from pipeline.errors import InputError
from pipeline.invoice import Connections, Terms, Usage, invoice
from pipeline.months import Month
from pipeline.prices import PriceList
from pipeline.progress import Progress, silent
from pipeline.results import Counts, Day, Priced
from pipeline.schemas import ALLOCATIONS, CONNECTIONS, RULES, USAGE
from pipeline.sources import Listing, list_month, read_files

EXAMPLES = 20
CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be computed. `usage`: the folder that holds `usage/` and `connections/`."""

    month: Month
    usage: str
    prices: PriceList
    allocation: str = ALLOCATIONS[0]
    hours_in_month: int | None = None
    max_quarantined: Fraction = Fraction(5, 100)

    def terms(self, rule: str) -> Terms:
        return Terms(
            month=self.month,
            prices=self.prices,
            rule=rule,
            allocation=self.allocation,
            hours_in_month=self.hours_in_month,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out: how the rows fared, and per billing scope and rule an invoice."""

    counts: Counts
    priced: tuple[Priced, ...]


def compute(spark: SparkSession, request: Request, now: datetime, progress: Progress = silent) -> Outcome:
    """The month's invoices under both counting rules; raises PipelineError where the input cannot be trusted."""
    progress("looking at the files", 0.0, 0)
    listing = list_month(spark, f"{request.usage}/usage", request.month, USAGE)
    peaks = list_month(spark, f"{request.usage}/connections", request.month, CONNECTIONS)
    counts, rows = _used(spark, request, listing, now, progress)
    priced = _price(request, rows, _connections(spark, peaks))
    progress("done", 1.0, listing.rows)
    return Outcome(counts=counts, priced=tuple(priced))


def _used(
    spark: SparkSession, request: Request, listing: Listing, now: datetime, progress: Progress
) -> tuple[Counts, list[Row]]:
    """How the rows fared, and what the good ones come to: see `transforms.totals`."""
    if listing.rows == 0:
        counts = _counted(listing)
        _refuse_too_much(counts, request.max_quarantined)
        return counts, []
    progress("finding repeated records", 0.05, listing.rows)
    valid = valid_rows(spark, listing, request.month, now)
    copies = transforms.find_copies(valid)
    progress("summing by hour", 0.4, listing.rows)
    clean = transforms.without_copies(valid, copies)
    hours = transforms.hourly(clean).persist()
    counts = _counts(spark, listing, request.month, now, valid, hours, copies)
    _refuse_too_much(counts, request.max_quarantined)
    progress("pricing", 0.8, listing.rows)
    starts = request.prices.operations.starts
    rows = transforms.totals(_placed(hours, clean, starts), len(starts)).collect()
    for frame in (hours, copies.hashes, copies.winners):
        frame.unpersist()
    return counts, rows


def valid_rows(spark: SparkSession, listing: Listing, month: Month, now: datetime) -> DataFrame:
    """The rows that can be billed, with their hash."""
    rows = read_files(spark, listing, USAGE)
    return transforms.hashed(rows.where(usage_reason(_latest(month, now)).isNull()).drop("file"))


def _latest(month: Month, now: datetime) -> datetime | None:
    """The last minute that can have been; of a month that is still to come nothing is known, so nothing is refused."""
    return now + CLOCK_SKEW if month.start <= now else None


def _counts(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    valid: DataFrame,
    hours: DataFrame,
    copies: transforms.Copies,
) -> Counts:
    """How the rows fared. The footers say how many there are: the accepted, copied and quarantined ones must add up."""
    accepted = hours.agg(F.sum("rows")).collect()[0][0] or 0
    repeated = valid.join(copies.hashes, "h", "left_semi").count() - copies.winners.count() if copies.count else 0
    reasons: dict[str, int] = {}
    examples: list[dict[str, str]] = []
    if listing.rows != accepted + repeated:
        reason = usage_reason(_latest(month, now)).alias("reason")
        rejected = read_files(spark, listing, USAGE).select("record_id", "file", reason).where("reason is not null")
        reasons = {row["reason"]: row["count"] for row in rejected.groupBy("reason").count().collect()}
        examples = [row.asDict() for row in rejected.limit(EXAMPLES).collect()]
    counts = replace(_counted(listing, accepted, repeated, reasons), examples=examples)
    if not counts.adds_up:
        raise InputError(
            f"The rows do not add up: {counts.read} read, {accepted} accepted, {repeated} repeated, "
            f"{counts.quarantined} quarantined; the files changed while they were read, run it again."
        )
    return counts


def _counted(
    listing: Listing, accepted: int = 0, repeated: int = 0, reasons: Mapping[str, int] | None = None
) -> Counts:
    return Counts(
        read=listing.rows,
        accepted=accepted,
        copies=repeated,
        quarantined=sum((reasons or {}).values()),
        files=len(listing.files) + len(listing.rejected),
        files_rejected=len(listing.rejected),
        reasons=reasons or {},
        rejected=[(file.path, file.reason) for file in listing.rejected],
    )


def _refuse_too_much(counts: Counts, allowed: Fraction) -> None:
    """No invoice from input of which too much had to be left out."""
    rows = Fraction(counts.quarantined, counts.read or 1)
    files = Fraction(counts.files_rejected, counts.files or 1)
    if max(rows, files) > allowed:
        raise InputError(
            f"Too much of the input is unusable ({counts.quarantined} of {counts.read} rows, "
            f"{counts.files_rejected} of {counts.files} files, more than {float(allowed):.0%}): nothing was published. "
            f"{_why(counts)}"
        )


def _why(counts: Counts) -> str:
    files = [f"{path} {reason}" for path, reason in counts.rejected[:3]]
    return "; ".join([*files, *(f"{count} rows: {reason}" for reason, count in sorted(counts.reasons.items()))]) + "."


def _placed(hours: DataFrame, clean: DataFrame, starts: tuple[int, ...]) -> DataFrame:
    billed = transforms.by_rule(hours)
    ladder = transforms.hours_on_the_ladder(billed, starts).persist()
    placed = transforms.in_one_tier(billed, ladder, starts)
    if ladder.where("lowest < highest").isEmpty():
        return placed
    return placed.unionByName(transforms.across_tiers(clean, ladder, starts))


def _connections(spark: SparkSession, listing: Listing) -> dict[str, list[Connections]]:
    peaks = read_files(spark, listing, CONNECTIONS).where(connection_reason().isNull())
    by_scope: dict[str, list[Connections]] = defaultdict(list)
    if listing.files:
        for row in transforms.connection_hours(peaks).orderBy("scope", "namespace").collect():
            by_scope[row["scope"]].append(Connections(namespace=row["namespace"], hours=row["connection_hours"]))
    return by_scope


def _price(request: Request, rows: Sequence[Row], connections: Mapping[str, list[Connections]]) -> Iterator[Priced]:
    tiers = len(request.prices.operations.tiers)
    usage = _grouped(sorted((row for row in rows if row["date"] is None), key=_by_key))
    days = _grouped(sorted((row for row in rows if row["date"] is not None), key=_by_day))
    for rule in RULES:
        terms = request.terms(rule)
        for scope in sorted({key[1] for key in usage} | set(connections)):
            used = [_usage(row, tiers) for row in usage.get((rule, scope), [])]
            made = invoice(terms, scope, used, connections.get(scope, []))
            yield Priced(invoice=made, days=tuple(_days(terms, made.tiers, days.get((rule, scope), []))))


def _by_key(row: Row) -> tuple[str, ...]:
    return (row["namespace"], row["entity"], row["kind"])


def _by_day(row: Row) -> tuple[str, ...]:
    return (row["date"], row["kind"])


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["rule"], row["scope"]].append(row)
    return groups


def _usage(row: Row, tiers: int) -> Usage:
    return Usage(
        namespace=row["namespace"],
        entity=row["entity"],
        kind=row["kind"],
        pair=row["pair"],
        operations=row["operations"],
        messages=row["messages"],
        bytes=row["bytes"],
        units=row["units"],
        tiers=_tiers(row, tiers),
    )


def _tiers(row: Row, tiers: int) -> tuple[int, ...]:
    return tuple(row[f"t{n}"] for n in range(tiers))


def _days(terms: Terms, month: tuple[int, ...], rows: Iterable[Row]) -> Iterator[Day]:
    """The operations' charge by day and kind, shared as the allocation says."""
    ladder, total = terms.prices.operations, sum(month)
    for row in rows:
        by_share = terms.allocation == "pro-rata" and total
        exact = (
            ladder.price_of(month) * Fraction(row["units"], total)
            if by_share
            else ladder.price_of(_tiers(row, len(month)))
        )
        yield Day(date=row["date"], kind=row["kind"], operations=row["operations"], units=row["units"], exact=exact)


def utc_now() -> datetime:
    return datetime.now(UTC)
