"""The cost pipeline, started as a separate process, so that Spark does not run in a worker."""

import subprocess
import threading
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings

from dashboard.models import ChargeRun
from dashboard.site.places import manage
from dashboard.site.redis import announce_change
from workers import compaction
from workers.celery import app
from workers.slices import one_at_a_time

log = structlog.get_logger(__name__)
LIMIT_S = 3600.0


def months(now: datetime) -> list[str]:
    """The months to compute at `now`: this month, and the previous one while late records may arrive."""
    return sorted({f"{day:%Y-%m}" for day in (now, now - timedelta(days=2))})


@app.task(name="pipeline.charges", acks_late=False)  # it can exceed the visibility timeout; it runs every night
@one_at_a_time("charges", LIMIT_S)
def charges(stop: threading.Event) -> None:
    """Compute the charges of this month, and in its first days of the previous one; reads only changed days."""
    for month in months(datetime.now(UTC)):
        run(["compute_charges", "--month", month, "--incremental"], stop)
    announce_change()


@app.task(name="pipeline.compact", acks_late=False)
@one_at_a_time("compact", LIMIT_S)
def compact(stop: threading.Event) -> None:
    """Compact the small files of past days."""
    compaction.compact(settings.USAGE_DIR, datetime.now(UTC))


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
        manage(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
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
