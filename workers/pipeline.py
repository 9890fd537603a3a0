"""The cost pipeline, started as a separate process, so that Spark does not run in a worker.

With a second beat each tick of the schedule comes twice. The tasks here take long, and two at once would cost more than
time: a compaction would fail over the files that the other one has replaced, and two runs of a month cannot use its
kept sums. So one worker of the fleet takes a tick, and the others skip it.
"""

import os
import subprocess
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings

from dashboard.costs.late_usage import last_computed, months_with_late_usage, note_late_days
from dashboard.models import ChargeRun
from dashboard.site.places import manage
from dashboard.site.redis import announce_change, connection
from pairing.fleet.claims import claimed
from workers import compaction
from workers.celery import app
from workers.slices import one_at_a_time
from workers.warm_session import SessionKeeper

log = structlog.get_logger(__name__)
LIMIT_S = 3600.0
SAME_TICK_S = 600.0
"""Ticks of a task within this time are one: far more than beats and workers are apart, and less than an hour."""
keeper = SessionKeeper(settings.SPARK_SESSION_IDLE_S)


def takes_tick(task: str, apart_s: float = SAME_TICK_S) -> bool:
    """Whether this worker is the first to take this tick of the task. Raises RedisError."""
    if claimed(connection(), f"workers:tick:{task}", apart_s):
        return True
    log.info("skipped: it was started a moment ago", task=task, again_after_s=apart_s)
    return False


def months(now: datetime) -> list[str]:
    """The months to compute at `now`: this month, and the previous one while late records may arrive."""
    return sorted({f"{day:%Y-%m}" for day in (now, now - timedelta(days=2))})


def months_to_compute(now: datetime) -> list[str]:
    """The months to compute at `now`, then those of which records came late."""
    always = months(now)
    return [*always, *(month for month in months_with_late_usage() if month not in always)]


@app.task(name="pipeline.charges", acks_late=False)  # it can exceed the visibility timeout; it runs every night
@one_at_a_time("charges", LIMIT_S)
def charges(stop: threading.Event) -> None:
    """Compute the charges of this month, in its first days of the previous one, and of months with late records.

    Only changed days are read. The months that are always computed come first.
    """
    often_s = settings.CHARGES_INTERVAL_S
    if not takes_tick("charges", min(SAME_TICK_S, often_s / 2) if often_s else SAME_TICK_S):
        return
    for month in months_to_compute(datetime.now(UTC)):
        compute(["--month", month, "--incremental"], stop)
    announce_change()


@app.task(name="pipeline.compact", acks_late=False)
@one_at_a_time("compact", LIMIT_S)
def compact(stop: threading.Event) -> None:
    """Note the past days with new files, also those that no collector wrote, and compact their small files."""
    if not takes_tick("compact"):
        return
    now = datetime.now(UTC)
    note_late_days(compaction.days_with_new_files(settings.USAGE_DIR, now, last_computed()), now)
    compaction.compact(settings.USAGE_DIR, now)


@app.task(name="pipeline.compact_today", acks_late=False)
@one_at_a_time("compact", LIMIT_S)
def compact_today(stop: threading.Event) -> None:
    """Compact the small files of the finished hours of today, so that the running day is quick to compute."""
    if takes_tick("compact_today"):
        compaction.compact_today(settings.USAGE_DIR, datetime.now(UTC))


@app.task(name="pipeline.wanted", acks_late=False)
@one_at_a_time("wanted", LIMIT_S)
def wanted(stop: threading.Event) -> None:
    """Compute what an operator requested on the cost page, if anything."""
    if ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).exists():
        compute(["--wanted"], stop)
        announce_change()


def compute(arguments: list[str], stop: threading.Event) -> None:
    """Run `compute_charges`, in the kept Spark session if there is one."""
    with keeper.session() as variables:
        run(["compute_charges", *arguments], stop, variables)


def run(arguments: list[str], stop: threading.Event, variables: Mapping[str, str]) -> None:
    """Run a management command to its end, or until stop is set. Raises RuntimeError with its last output."""
    with subprocess.Popen(
        manage(*arguments),
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as job:
        watch = threading.Thread(target=_end_with, args=(job, stop), daemon=True)
        watch.start()
        assert job.stdout is not None
        words = job.stdout.read().decode(errors="replace").strip().splitlines()
    if job.returncode and not stop.is_set():
        raise RuntimeError(f"{arguments[0]} failed: {words[-1] if words else job.returncode}")


def _end_with(job: "subprocess.Popen[bytes]", stop: threading.Event) -> None:
    while job.poll() is None:
        if stop.wait(0.5):
            job.terminate()
            return
