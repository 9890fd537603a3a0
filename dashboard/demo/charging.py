"""The charges of the demo, computed while the dashboard serves. On a fresh machine Spark is installed first."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from dashboard.costs.runs.charges import ChargesRequest, compute_month
from dashboard.costs.runs.jobs import JobFailed
from dashboard.demo.history.plan import history
from dashboard.demo.history.usage import write
from dashboard.models import ChargeRun
from dashboard.site.places import BASE_DIR
from pipeline.months import Month

SPARK_LATER = "PAIRED_NAMESPACES_SPARK_LATER"
"""Set by the set-up (tools/bootstrap.py) if Spark and Java may be missing so far."""
INSTALLING = "Spark and Java are being installed"
WAITING = "waiting for the first usage records"
STARTED_BY = "demo"
USAGE_S = 120.0
_POLL_S = 0.5


class ChargingError(Exception):
    """There are no charges; the text says why."""


def compute(now: datetime) -> str:
    """Compute the charges of this month, and of the month before if there is a past. Returns a sentence about it.

    Raises ChargingError.
    """
    this = f"{now:%Y-%m}"
    if settings.SIMULATED_UNTIL is None:
        _each([this])
        return f"the charges of {this} are computed"
    before = str(Month.of(settings.SIMULATED_UNTIL).previous)
    write(history(settings.SIMULATED_UNTIL), Path(settings.USAGE_DIR))
    _each([this, before])
    return f"the charges of {this} and {before} are computed"


def _each(months: Sequence[str]) -> None:
    runs = [begin(month) for month in months]
    install_spark(runs)
    await_usage(runs)
    for run in runs:
        try:
            compute_month(ChargesRequest(month=run.month), run=run)
        except JobFailed as error:
            raise ChargingError(f"the charges of {run.month} could not be computed: {error}") from None


def begin(month: str) -> ChargeRun:
    """A run that the cost page shows as being computed."""
    now, stage = timezone.now(), INSTALLING if os.environ.get(SPARK_LATER) else ""
    return ChargeRun.objects.create(month=month, stage=stage, started_by=STARTED_BY, started_at=now, heard_at=now)


def await_usage(runs: Sequence[ChargeRun]) -> None:
    """Wait for the first usage records, for a limited time."""
    deadline = time.monotonic() + USAGE_S
    while not any(Path(settings.USAGE_DIR).glob("usage/*/*.parquet")) and time.monotonic() < deadline:
        ChargeRun.objects.filter(pk__in=[run.pk for run in runs]).update(stage=WAITING)
        time.sleep(_POLL_S)


def install_spark(runs: Sequence[ChargeRun]) -> None:
    """Let the set-up add what is missing, once. Raises ChargingError, which is then the error of the runs too."""
    if not os.environ.pop(SPARK_LATER, ""):
        return
    command = [sys.executable, str(BASE_DIR / "tools" / "bootstrap.py"), "spark"]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0:
        return
    error = "Spark could not be installed, so there are no charges; see charges.log of the demo."
    for run in runs:
        run.status, run.error, run.finished_at = ChargeRun.Status.FAILED, error, timezone.now()
        run.save()
    raise ChargingError(error)
