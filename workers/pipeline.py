"""The cost pipeline, started as a process of its own: Spark has no place in a worker."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings

from dashboard.models import ChargeRun
from dashboard.site.redis import announce_change
from workers import compaction
from workers.celery import app
from workers.slices import one_at_a_time

log = structlog.get_logger(__name__)
LIMIT_S = 3600.0


def months(now: datetime) -> list[str]:
    """What to compute at `now`: this month, and the one before while its last records may still come in."""
    return sorted({f"{day:%Y-%m}" for day in (now, now - timedelta(days=2))})


@app.task(name="pipeline.charges", acks_late=False)  # it may outlast the broker's patience; the next night comes
@one_at_a_time("charges", LIMIT_S)
def charges(stop: threading.Event) -> None:
    """Computes the charges of the running month, and of the last one in its first days; only changed days are read."""
    for month in months(datetime.now(UTC)):
        run(["compute_charges", "--month", month, "--incremental"], stop)
    announce_change()


@app.task(name="pipeline.compact", acks_late=False)
@one_at_a_time("compact", LIMIT_S)
def compact(stop: threading.Event) -> None:
    """Makes few files of the many small ones of days that are over."""
    compaction.compact(settings.USAGE_DIR, datetime.now(UTC))


@app.task(name="pipeline.wanted", acks_late=False)
@one_at_a_time("wanted", LIMIT_S)
def wanted(stop: threading.Event) -> None:
    """Computes what an operator asked for on the cost page, if anything."""
    if ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).exists():
        run(["compute_charges", "--wanted"], stop)
        announce_change()


def run(arguments: list[str], stop: threading.Event) -> None:
    """Runs a management command to its end, or until stop is set. Raises RuntimeError with its last words."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
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
