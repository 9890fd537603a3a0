"""The cost pipeline, started as separate processes, so that neither Spark nor Arrow runs in a worker.

With a second beat each tick of the schedule comes twice. The tasks here take long, and two compactions at once would
fail over the files that the other one has replaced. So one worker of the fleet takes a tick, and the others skip it.
"""

import subprocess
import threading
from datetime import UTC, datetime

import structlog
from django.conf import settings

from dashboard.costs.runs.jobs import compact_usage, months_to_compute
from dashboard.models import ChargeRun
from dashboard.site.places import manage
from dashboard.site.redis import announce_change, connection
from pairing.fleet.access import claimed
from workers.celery import app
from workers.slices import one_at_a_time

log = structlog.get_logger(__name__)
LIMIT_S = 3600.0
SAME_TICK_S = 600.0
"""Ticks of a task within this time are one: far more than beats and workers are apart, and less than an hour."""


def takes_tick(task: str, apart_s: float = SAME_TICK_S) -> bool:
    """Whether this worker is the first to take this tick of the task. Raises RedisError."""
    if claimed(connection(), f"workers:tick:{task}", apart_s):
        return True
    log.info("skipped: it was started a moment ago", task=task, again_after_s=apart_s)
    return False


@app.task(name="pipeline.charges", acks_late=False)  # it can exceed the visibility timeout; it runs every night
@one_at_a_time("charges", LIMIT_S)
def charges(stop: threading.Event) -> None:
    """Compute the charges of this month, in its first days of the previous one, and of months whose files changed."""
    often_s = settings.CHARGES_INTERVAL_S
    if not takes_tick("charges", min(SAME_TICK_S, often_s / 2) if often_s else SAME_TICK_S):
        return
    for month in months_to_compute(datetime.now(UTC)):
        run(["compute_charges", "--month", month], stop)
    announce_change()


@app.task(name="pipeline.compact", acks_late=False)
@one_at_a_time("compact", LIMIT_S)
def compact(stop: threading.Event) -> None:
    """Merge the small usage files of past days."""
    if takes_tick("compact"):
        compact_usage()


@app.task(name="pipeline.wanted", acks_late=False)
@one_at_a_time("wanted", LIMIT_S)
def wanted(stop: threading.Event) -> None:
    """Compute what an operator requested on the cost page, if anything."""
    if ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).exists():
        run(["compute_charges", "--wanted"], stop)
        announce_change()


def run(arguments: list[str], stop: threading.Event) -> None:
    """Run a management command to its end, or until stop is set. Raises RuntimeError with its last output."""
    with subprocess.Popen(
        manage(*arguments),
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
