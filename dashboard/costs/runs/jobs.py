"""Jobs of the pipeline, each in a separate process, so that web and worker processes never load Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from django.conf import settings

from pipeline.usage.place import VARIABLE, without_keys

OnProgress = Callable[[dict[str, Any]], None]
WITHOUT_SPARK = ("pipeline.jobs.prices", "pipeline.jobs.days")


class JobFailed(Exception):
    """The job ended without a result. The text is one sentence for the person who requested it."""


def run_job(module: str, arguments: Sequence[str], on_progress: OnProgress, usage: str = "") -> None:
    """Run `python -m MODULE` to its end, and report each line of progress. Raises JobFailed.

    `usage`: where the usage files are, for a job that reads them.

    The job watches its standard input and ends with this process.
    """
    if module not in WITHOUT_SPARK and find_spec("pyspark") is None:
        raise JobFailed("PySpark is not installed: install paired-namespaces-control-plane[pipeline].")
    command = [sys.executable, "-m", module, *arguments, "--end-with-stdin"]
    with subprocess.Popen(
        command,
        cwd=settings.BASE_DIR,
        env=os.environ | variables_for(usage),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",  # a log may name a file whose name is no text
    ) as process:
        try:
            tail, error = _listen(process, on_progress)
            status = process.wait()
        except BaseException:
            process.kill()
            raise
    if status != 0:
        raise JobFailed(error or _last_line(tail, status))


def table_arguments() -> list[str]:
    """The job's arguments for the folder in which the sums of each day of usage are kept."""
    return ["--table", str(settings.STATE_DIR / "day-sums")]


def compact_usage() -> None:
    """Merge the small usage files of past days. Raises JobFailed."""
    usage = settings.USAGE_DIR
    run_job("pipeline.jobs.days", ["--usage", argument_for(usage)], lambda record: None, usage)


def months_to_compute(now: datetime) -> list[str]:
    """This month, and the previous one while its records usually come; then those of which files changed since they
    were summed. Raises JobFailed.
    """
    usage = settings.USAGE_DIR
    always = sorted({f"{day:%Y-%m}" for day in (now, now - timedelta(days=2))})
    records: list[dict[str, Any]] = []
    run_job("pipeline.jobs.days", ["--usage", argument_for(usage), *table_arguments()], records.append, usage)
    changed = sorted({day[:7] for day in records[-1]["days"]} - set(always))
    return [*always, *(month for month in changed if month < always[0])]


def _listen(process: subprocess.Popen[str], on_progress: OnProgress) -> tuple[Iterable[str], str]:
    """Read both outputs to their end. Returns the last lines of the log, and the error that the job reported."""
    assert process.stdout is not None
    assert process.stderr is not None
    tail: deque[str] = deque(maxlen=20)
    reader = Thread(target=tail.extend, args=(process.stderr,), daemon=True)
    reader.start()
    error = ""
    for line in process.stdout:
        if (record := _parsed(line)) is None:
            continue
        error = str(record.get("error", error))
        if "stage" in record:
            on_progress(record)
    reader.join()
    return tail, error


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _last_line(tail: Iterable[str], status: int) -> str:
    words = [line.strip() for line in tail if line.strip()]
    return f"The job ended with status {status}: {words[-1] if words else 'no output'}"


def argument_for(usage: str) -> str:
    """What a job is given: an absolute path, or a URL without keys."""
    return without_keys(usage) if "://" in usage else str(Path(usage).expanduser().absolute())


def variables_for(usage: str) -> Mapping[str, str]:
    """The variable that passes a URL with its keys to a job, where other users cannot read it."""
    return {VARIABLE: usage} if "://" in usage else {}
