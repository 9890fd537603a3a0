"""The monthly charges: requests, the job, and its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.utils import timezone

from dashboard.costs.rules import next_rule
from dashboard.costs.runs.inputs import Inputs, configured_prices, inputs_of, price_arguments
from dashboard.costs.runs.jobs import JobFailed, argument_for, run_job, table_arguments
from dashboard.costs.runs.storing import finish, hold_month, records_in, store
from dashboard.fleet.state.outages import Outage, recorded
from dashboard.fleet.usage.metered import minute_of
from dashboard.models import ChargeRun, DepthSample, EntityHealth, PairDepth
from pairing.health.faults import describe
from pipeline.months import Month, is_month

DELAY = timedelta(seconds=25)
"""Of records: ten seconds until a process reports, and the time that is left to collectors for writing."""
OPEN = (ChargeRun.Status.WANTED, ChargeRun.Status.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargesRequest:
    """The parameters of a computation. What is empty is that of the month's inputs (`dashboard.costs.runs.inputs`).

    `todays_inputs`: also of a past month the inputs of today, instead of those of its last run.
    """

    month: str
    usage: str = ""
    prices: str = ""
    region: str = ""
    rule: str = ""
    allocation: str = ""
    hours_in_month: int | None = None
    started_by: str = ""
    todays_inputs: bool = False
    allow_empty: bool = False
    max_quarantined: str | None = None

    def over(self, inputs: Inputs) -> Inputs:
        """The inputs, with what is given here."""
        inputs = replace(
            inputs,
            rule=self.rule or inputs.rule,
            allocation=self.allocation or inputs.allocation,
            hours=inputs.hours if self.hours_in_month is None else self.hours_in_month,
        )
        if self.prices or self.region:
            inputs = replace(inputs, prices=price_arguments(self.prices or configured_prices(), self.region))
        return inputs

    def arguments(self, result: Path) -> list[str]:
        """The job's arguments besides its inputs."""
        usage = argument_for(self.usage or settings.USAGE_DIR)
        words = ["--month", self.month, "--usage", usage, "--result", str(result)]
        words += ["--may-be-empty"] if not self.usage or self.allow_empty else []
        words += ["--max-quarantined", self.max_quarantined] if self.max_quarantined else []
        return words


@transaction.atomic
def request_run(month: str, person: str, now: datetime, *, todays_inputs: bool = False) -> tuple[ChargeRun, bool]:
    """Request a computation of the month. Returns the run, and whether it is new: one may be under way already."""
    if (latest := _under_way(month, now)) is not None:
        return latest, False
    hold_month(month)
    if (latest := _under_way(month, now)) is not None:  # requested meanwhile
        return latest, False
    run = ChargeRun.objects.create(
        month=month,
        status=ChargeRun.Status.WANTED,
        details={"todays_inputs": todays_inputs},
        started_by=person,
        started_at=now,
        heard_at=now,
    )
    return run, True


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
    run = run or _begin(request.month, request.started_by)
    with _closed(run), TemporaryDirectory(prefix="charges-") as folder:
        _compute(request, run, Path(folder), tell)
    return run


def _compute(request: ChargesRequest, run: ChargeRun, folder: Path, tell: Callable[[ChargeRun], None]) -> None:
    result = folder / "result.jsonl"
    inputs = request.over(inputs_of(request.month, folder, todays=request.todays_inputs))
    run.rule, run.allocation = inputs.rule, inputs.allocation
    run.save(update_fields=["rule", "allocation"])
    arguments = [
        *request.arguments(result),
        *table_arguments(),
        *inputs.arguments(folder),
        *outages_for(folder, request.month),
        *depths_for(folder, request.month, timezone.now()),
        *([] if request.usage else ["--until", _written_until(timezone.now()).isoformat()]),
    ]
    usage = request.usage or settings.USAGE_DIR
    run_job("pipeline.jobs.charges", arguments, lambda said: _note(run, said, tell), usage)
    store(run, result, may_be_empty=request.allow_empty)


def _written_until(now: datetime) -> datetime:
    """The minute before which all records are in the files: processes report and collectors write with a delay."""
    return minute_of(now - timedelta(seconds=settings.USAGE_FLUSH_S) - DELAY)


def store_result(result: Path, rule: str, started_by: str, *, allow_empty: bool = False) -> ChargeRun:
    """Store the result file of a job that ran elsewhere, on a cluster for example. Raises JobFailed."""
    head = next(records_in(result))
    month = str(head.get("month"))
    if not is_month(month):
        raise JobFailed(f"The result {result} names no month.")
    run = _begin(month, started_by)
    with _closed(run):
        run.rule, run.allocation = rule or next_rule(month), head["allocation"]
        run.save(update_fields=["rule", "allocation"])
        store(run, result, may_be_empty=allow_empty)
    return run


@contextmanager
def _closed(run: ChargeRun) -> Iterator[None]:
    """Stores why the run failed, for the page that requested it."""
    try:
        yield
    except BaseException as error:
        why = str(error) if isinstance(error, JobFailed) else f"{describe(error)}."
        finish(run, ChargeRun.Status.FAILED, why if isinstance(error, Exception) else "It was interrupted.")
        raise


def outages_for(folder: Path, month: str) -> list[str]:
    """Write the entities and their outages into the folder; returns the arguments that name these files.

    Outages are folded here from the events before the month's end, and the job takes them as they are.
    """
    path, inventory = folder / "outages.jsonl", folder / "inventory.jsonl"
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(_outage(one)) + "\n" for one in recorded(time__lt=Month.parse(month).end))
    with inventory.open("w", encoding="utf-8") as out:
        real = EntityHealth.objects.exclude(pk__in=EntityHealth.objects.of_drills())
        for pair, entity in real.values_list("pair__name", "path"):
            out.write(json.dumps({"pair": pair, "entity": entity}) + "\n")
    return ["--outages", str(path), "--inventory", str(inventory)]


def _outage(one: Outage) -> dict[str, Any]:
    return {
        "pair": one.began.pair,
        "entity": one.began.entity,
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


def _begin(month: str, started_by: str) -> ChargeRun:
    now = timezone.now()
    return ChargeRun.objects.create(month=month, started_by=started_by, started_at=now, heard_at=now)


def _note(run: ChargeRun, said: dict[str, Any], tell: Callable[[ChargeRun], None]) -> None:
    run.stage, run.share, run.rows = str(said["stage"]), float(said["share"]), int(said["rows"])
    run.heard_at = timezone.now()
    run.save(update_fields=["stage", "share", "rows", "heard_at"])
    tell(run)


def latest_run(month: str) -> ChargeRun | None:
    """The month's newest run."""
    return ChargeRun.objects.filter(month=month).first()


def is_stalled(run: ChargeRun, now: datetime) -> bool:
    """Whether a requested or running computation has made no progress for a quarter of an hour."""
    return run.status in OPEN and (now - run.heard_at).total_seconds() > 900
