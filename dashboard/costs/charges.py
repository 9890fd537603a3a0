"""The monthly charges: starts the job, and stores its complete result in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.utils import timezone

from dashboard.access.visibility import require_all
from dashboard.costs.jobs import JobFailed, run_job, table_arguments
from dashboard.costs.listed_prices import listed_prices
from dashboard.costs.result_file import records_in
from dashboard.costs.storing import finish, hold_month, store
from dashboard.costs.terms import (
    CHOSEN,
    Terms,
    chosen_terms,
    closed_terms,
    refuse_other_terms,
    refuse_other_than_chosen,
    set_terms,
    terms_of,
)
from dashboard.costs.usage_place import argument_for
from dashboard.fleet.outages import TURNS, Report, outages
from dashboard.fleet.outages import Outage as Folded
from dashboard.fleet.pairs_file import PairConfig, PairsFileError, load_pairs
from dashboard.models import (
    AuditEntry,
    ChargeRun,
    ClosedMonth,
    DepthSample,
    EntityHealth,
    FailoverEvent,
    PairDepth,
)
from dashboard.models.charge import PUBLISHED
from dashboard.models.cost_terms import ALL_MONTHS
from dashboard.models.visibility import all_pairs
from pairing.health.faults import describe
from pipeline.months import Month, is_month

CHUNK = 1_000
REPORTED = ("pair", "entity", "time", "kind", "reason")
DEFAULT_PRICES = settings.BASE_DIR / "prices.json"
OPEN = (ChargeRun.Status.WANTED, ChargeRun.Status.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargesRequest:
    """The parameters of a computation; empty fields take what was chosen for the month, or the configured default.

    What is given here is recorded as chosen for the month once the run has succeeded, or for all months.
    """

    month: str
    usage: str = ""
    prices: str = ""
    region: str = ""
    rule: str = ""
    allocation: str = ""
    hours_in_month: int | None = None
    started_by: str = ""
    for_all_months: bool = False
    allow_empty: bool = False
    max_quarantined: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The terms that are not left to what was chosen before."""
        given = {name: value for name in CHOSEN if (value := getattr(self, name)) not in ("", None)}
        return given | ({"prices": absolute(self.prices)} if self.prices else {})

    def with_terms(self) -> ChargesRequest:
        """The same with the terms of the month where nothing is given."""
        terms = terms_of(self.month)
        return replace(self, **{name: getattr(terms, name) for name in CHOSEN if name not in self.given})

    def arguments(self, result: Path) -> list[str]:
        """The job's arguments."""
        usage = argument_for(self.usage or settings.USAGE_DIR)
        words = ["--month", self.month, "--usage", usage, "--result", str(result)]
        words += ["--may-be-empty"] if not self.usage or self.allow_empty else []
        words += ["--allocation", self.allocation or Terms().allocation]
        words += price_arguments(self.prices or configured_prices(), self.region)
        if self.max_quarantined:
            words += ["--max-quarantined", self.max_quarantined]
        if self.hours_in_month is not None:
            words += ["--hours-in-month", str(self.hours_in_month)]
        return words


def absolute(place: str) -> str:
    """The absolute path for a process with another working directory; a URL is unchanged."""
    return place if "://" in place else str(Path(place).expanduser().absolute())


def configured_prices() -> str:
    """The price list of PRICES_FILE; empty if none is configured, so that the job uses the sample list.

    A configured file that does not exist is returned too: the job reports that it cannot be read.
    """
    path = Path(settings.PRICES_FILE)
    return "" if path == DEFAULT_PRICES and not path.exists() else str(path)


def price_arguments(prices: str, region: str = "") -> list[str]:
    """The job's arguments for a price list, and for one region of it, by default PRICES_REGION.

    The sample list, which is used if no list is given, has one region of its own, so no region is passed for it.
    """
    region = region or (settings.PRICES_REGION if prices else "")
    return [*(["--prices", absolute(prices)] if prices else []), *(["--region", region] if region else [])]


def chosen_rows(month: str) -> list[dict[str, str]] | None:
    """The price rows of the list and region that were chosen for the month; None if nobody chose. Raises JobFailed."""
    chosen = chosen_terms(month)
    if not chosen.keys() & {"prices", "region"}:
        return None
    places = price_arguments(chosen.get("prices") or configured_prices(), chosen.get("region", ""))
    return listed_prices(month, places).rows


@transaction.atomic
def request_run(month: str, person: str, now: datetime) -> ChargeRun:
    """Request a computation of the month; returns the run that is requested or running already, if any.

    Raises Refused for somebody who does not see all pairs.
    """
    require_all()
    if (latest := _under_way(month, now)) is not None:
        return latest
    hold_month(month)
    if (latest := _under_way(month, now)) is not None:  # requested meanwhile
        return latest
    run = ChargeRun.objects.create(
        month=month, status=ChargeRun.Status.WANTED, started_by=person, started_at=now, heard_at=now
    )
    entry = AuditEntry(
        request_id=str(uuid4()), at=now, operator=person, verb="compute_charges", pair="*", target=month, outcome="done"
    )
    entry.save()
    return run


def _under_way(month: str, now: datetime) -> ChargeRun | None:
    latest = ChargeRun.objects.filter(month=month, status__in=OPEN).first()
    return None if latest is None or is_stalled(latest, now) else latest


def take_requested(now: datetime) -> ChargeRun | None:
    """Claim the oldest requested run; None if there is none."""
    for run in ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).order_by("started_at"):
        waiting = ChargeRun.objects.filter(pk=run.pk, status=ChargeRun.Status.WANTED)
        if waiting.update(status=ChargeRun.Status.RUNNING, heard_at=now):
            run.refresh_from_db()
            return run
    return None


def compute_month(
    request: ChargesRequest, tell: Callable[[ChargeRun], None] = lambda run: None, run: ChargeRun | None = None
) -> ChargeRun:
    """Compute and store a month's charges. Raises JobFailed, and then the previous charges remain.

    `tell` is called after each change of the run's progress; `run` is a claimed request.
    """
    given, request = request, request.with_terms()
    run = run or _begin(request, timezone.now())
    try:
        with TemporaryDirectory(prefix="charges-") as folder:
            result = Path(folder, "result.jsonl")
            request, known = _as_closed(request, given, Path(folder))
            run.rule, run.allocation = request.rule, request.allocation
            run.save(update_fields=["rule", "allocation"])
            tariffs, note = namespaces_for(Path(folder))
            arguments = [
                *request.arguments(result),
                *table_arguments(),
                *outages_for(Path(folder), request.month),
                *depths_for(Path(folder), request.month, timezone.now()),
                *tariffs,
            ]
            usage = given.usage or settings.USAGE_DIR
            run_job("pipeline.jobs.charges", arguments, lambda said: _note(run, said, tell), usage)
            notes = {"note": note} if note else {}
            store(run, result, known | notes, may_be_empty=given.allow_empty)
        _remember(given)
    except BaseException as error:
        finish(run, ChargeRun.Status.FAILED, _why(error))
        raise
    return run


def _as_closed(request: ChargesRequest, given: ChargesRequest, folder: Path) -> tuple[ChargesRequest, dict[str, Any]]:
    """The request with the terms and price rows of a closed month, and what its run's details say of them."""
    closed = closed_terms(request.month)
    if closed is None:
        known = {"terms": {name: getattr(request, name) for name in CHOSEN}}
        return request, known
    by_hand = given.given
    if given.prices:
        by_hand["prices"] = listed_prices(request.month, price_arguments(given.prices, closed.region)).rows
    refuse_other_terms(request.month, closed, by_hand)
    path = closed.write_prices(folder)
    kept = replace(
        request,
        rule=closed.rule,
        allocation=closed.allocation,
        hours_in_month=closed.hours_in_month or request.hours_in_month,
        prices=path or request.prices,
        region=closed.region if path else request.region,
    )
    return kept, {"sample_prices": closed.is_sample}


def _remember(given: ChargesRequest) -> None:
    """Record what was given by hand, so that the next run of the month does the same."""
    if given.given and not ClosedMonth.objects.filter(month=given.month).exists():
        person = given.started_by or "command"
        set_terms(ALL_MONTHS if given.for_all_months else given.month, given.given, person, timezone.now())


def store_result(result: Path, rule: str, started_by: str, *, allow_empty: bool = False) -> ChargeRun:
    """Store the result file of a job that ran elsewhere, on a cluster for example. Raises JobFailed.

    Its terms must be those of the month. A given rule is recorded as chosen for the month, as by `compute_month`.
    """
    head = next(records_in(result))
    month = str(head.get("month"))
    if not is_month(month):
        raise JobFailed(f"The result {result} names no month.")
    allocation = "pro-rata" if head.get("allocation") == "pro-rata" else "time"
    given = ChargesRequest(month=month, rule=rule, started_by=started_by)
    found = {"allocation": allocation, "hours_in_month": head.get("hours_in_month"), "prices": head.get("prices")}
    if (closed := closed_terms(month)) is not None:
        refuse_other_terms(month, closed, given.given | found)
    else:
        refuse_other_than_chosen(month, found, chosen_rows(month))
    rule = rule or (closed or terms_of(month)).rule
    run = _begin(replace(given, rule=rule, allocation=allocation), timezone.now())
    try:
        _store_complete(run, result, allow_empty)
        _remember(given)
    except BaseException as error:
        finish(run, ChargeRun.Status.FAILED, _why(error))
        raise
    return run


def _store_complete(run: ChargeRun, result: Path, allow_empty: bool) -> None:
    try:
        store(run, result, is_complete=True, may_be_empty=allow_empty)
    except KeyError as error:
        raise JobFailed(f"The result {result} cannot be stored: a record has no {error}.") from error


def _why(error: BaseException) -> str:
    """Why a run failed, for the page that requested it."""
    if not isinstance(error, Exception):
        return "It was interrupted."
    return str(error) if isinstance(error, JobFailed) else f"{describe(error)}."


def outages_for(folder: Path, month: str) -> list[str]:
    """Write the entities and their outages into the folder; returns the arguments that name these files.

    Outages are folded here from the events before the month's end, and the job takes them as they are.
    """
    path, inventory = folder / "outages.jsonl", folder / "inventory.jsonl"
    events = FailoverEvent.objects.filter(kind__in=TURNS, time__lt=Month.parse(month).end).exclude(entity="*")
    in_order = events.order_by("pair", "entity", "time", "event_id").values_list(*REPORTED).iterator()
    with path.open("w", encoding="utf-8") as out:
        for (pair, entity), rows in groupby(in_order, itemgetter(0, 1)):
            found = outages(Report(time, kind, reason) for _, _, time, kind, reason in rows)
            out.writelines(json.dumps(_outage(pair, entity, one)) + "\n" for one in found)
    with inventory.open("w", encoding="utf-8") as out:
        for pair, entity in EntityHealth.objects.values_list("pair__name", "path"):
            out.write(json.dumps({"pair": pair, "entity": entity}) + "\n")
    return ["--outages", str(path), "--inventory", str(inventory)]


def _outage(pair: str, entity: str, one: Folded) -> dict[str, Any]:
    return {
        "pair": pair,
        "entity": entity,
        "started": one.began.time.isoformat(),
        "ended": one.ended.time.isoformat() if one.ended else None,
        "cause": one.began.kind,
        "reason": one.began.reason,
    }


def depths_for(folder: Path, month: str, now: datetime) -> list[str]:
    """Write the month's samples of the backlogs; of single queues only those since yesterday, as older ones are rolled
    up.
    """
    begin, end = Month.parse(month).start, Month.parse(month).end
    since = max(begin, now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1))
    pairs = PairDepth.objects.filter(at__gte=begin, at__lt=end).values_list("pair__name", Value("*"), "at", "messages")
    queues = DepthSample.objects.filter(at__gte=since, at__lt=end).values_list(
        "queue__pair__name", "queue__path", "at", F("active") + F("scheduled")
    )
    path = folder / "depths.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for pair, queue, at, messages in chain(pairs.iterator(), queues.iterator()):
            out.write(json.dumps({"pair": pair, "queue": queue, "at": at.isoformat(), "messages": messages}) + "\n")
    return ["--depths", str(path)]


def namespaces_for(folder: Path) -> tuple[list[str], str]:
    """Write the tiers and regions of PAIRS_FILE into the folder. Returns the arguments that name it, and a note.

    Without a PAIRS_FILE all namespaces are Standard and in one region. The same applies to an unusable file, and the
    note says so.
    """
    if not Path(settings.PAIRS_FILE).exists():
        return [], ""
    try:
        pairs = load_pairs()
    except PairsFileError as error:
        return (
            [],
            f"All namespaces were priced as Standard and in one region, because PAIRS_FILE could not be used. {error}",
        )
    path = folder / "namespaces.jsonl"
    path.write_text(
        "".join(json.dumps(record) + "\n" for pair in pairs.values() for record in _namespace_records(pair))
    )
    return ["--namespaces", str(path)], ""


def _namespace_records(pair: PairConfig) -> Iterator[dict[str, Any]]:
    for end in (pair.primary, pair.secondary):
        yield {
            "record": "namespace",
            "name": end.namespace,
            "scope": pair.scope(end.namespace),
            "tier": end.tier,
            "messaging_units": end.messaging_units,
        }
    if pair.crosses_regions:
        price = pair.bandwidth_per_gb
        yield {"record": "crossing", "pair": pair.name, "per_gigabyte": price, "meter": pair.bandwidth_meter}


def _begin(request: ChargesRequest, now: datetime) -> ChargeRun:
    return ChargeRun.objects.create(
        month=request.month[:7],
        rule=request.rule,
        allocation=request.allocation,
        started_by=request.started_by,
        started_at=now,
        heard_at=now,
    )


def _note(run: ChargeRun, said: dict[str, Any], tell: Callable[[ChargeRun], None]) -> None:
    run.stage, run.share, run.rows = str(said["stage"]), float(said["share"]), int(said["rows"])
    run.heard_at = timezone.now()
    run.save(update_fields=["stage", "share", "rows", "heard_at"])
    tell(run)


def latest_run(month: str, status: ChargeRun.Status | None = None) -> ChargeRun | None:
    """The month's newest run, optionally of one status."""
    runs = ChargeRun.objects.filter(month=month)
    return (runs.filter(status=status) if status else runs).first()


def rule_of(month: str) -> str:
    """The counting rule that the month was computed for, also for somebody who does not see all pairs."""
    with all_pairs():
        run = latest_run(month, ChargeRun.Status.SUCCEEDED)
    return run.rule if run else PUBLISHED


def is_stalled(run: ChargeRun, now: datetime) -> bool:
    """Whether a requested or running computation has made no progress for a quarter of an hour."""
    return run.status in OPEN and (now - run.heard_at).total_seconds() > 900
