"""`python -m pipeline.jobs.warm`: a process that keeps a Spark session between the charges jobs of a worker.

The worker that starts it hands over a listening Unix socket. A client connects, sends the arguments of a job as one
line of JSON, and gets the job's own lines of progress, then `{"status": N}`, or `{"cold": REASON}` where the job should
have a session of its own: it needs more than this one has, or this session failed. Both end the process, so that the
next job starts a session that does. One job runs at a time. A client that goes away ends the process with its job; so
does the end of standard input, and a time without jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import IO, Any

from pyspark.sql import SparkSession

from pipeline.charges import Request, compute_readable
from pipeline.errors import PipelineError
from pipeline.jobs import charges
from pipeline.progress import Progress, end_with_stdin
from pipeline.results import Outcome
from pipeline.spark import LOCAL_DEFAULTS, SEMANTICS, build_session, is_enough_for, settings_for

OF_THE_PROCESS = ("spark.driver.", "spark.hadoop.", "spark.ui.", "spark.buffer.")
"""Settings that a running session keeps, by how their names begin; the others are set for each job."""


HUNG_UP = 3
"""The exit status when a client has gone away before its answer."""
SILENT_S = 10.0
"""The time that a client has to send the arguments of its job: the next one waits meanwhile."""


class NotSuitable(Exception):
    """The job needs a session of its own. The text says why."""


class WarmSession:
    """One Spark session, made for the first job, for all jobs that need no more than that."""

    def __init__(self) -> None:
        self.session: SparkSession | None = None
        self.built_with: dict[str, str] = {}
        self.changed: set[str] = set()

    def compute(self, request: Request, now: datetime, progress: Progress) -> Outcome:
        """What `compute_readable` returns. Raises NotSuitable."""
        session = self._session_for(settings_for(request.usage, str(request.month), incremental=request.incremental))
        try:
            return compute_readable(session, request, now, progress)
        finally:
            session.catalog.clearCache()
            session._jvm.System.gc()  # type: ignore[union-attr]  # gives back what the job needed; it takes 0.2 s

    def _session_for(self, settings: dict[str, str]) -> SparkSession:
        if self.session is None:
            self.built_with, self.session = settings, build_session("charges", **settings)
        elif not is_enough_for(self.built_with, settings):
            raise NotSuitable("the job needs more than this session has")
        for name in self.changed - settings.keys():
            if name in LOCAL_DEFAULTS:  # of the session, where unsetting would leave Spark's own
                self.session.conf.set(name, LOCAL_DEFAULTS[name])
            else:
                self.session.conf.unset(name)
        of_this_job = {n: value for n, value in (SEMANTICS | settings).items() if not n.startswith(OF_THE_PROCESS)}
        for name, value in of_this_job.items():
            self.session.conf.set(name, value)
        self.changed = set(of_this_job)
        return self.session


def serve(listener: socket.socket, idle_s: float) -> None:
    """Run the jobs of the clients, one after another, until nobody comes for `idle_s` seconds."""
    warm = WarmSession()
    listener.settimeout(idle_s)
    while True:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            return
        with client, client.makefile("rw", encoding="utf-8") as lines:
            if (asked := _asked(client, lines)) is not None and not _run(warm, client, lines, asked):
                return


def _asked(client: socket.socket, lines: IO[str]) -> list[str] | None:
    """The client's arguments; nothing of one that says nothing, or something else, or goes away."""
    client.settimeout(SILENT_S)
    with suppress(OSError, ValueError, RecursionError):
        asked = json.loads(lines.readline())
        client.settimeout(None)
        return [str(word) for word in asked] if isinstance(asked, list) else None
    return None


def _run(warm: WarmSession, client: socket.socket, lines: IO[str], arguments: Sequence[str]) -> bool:
    """One job; returns whether the session does for the next. The answer is the last line; whoever hangs up before it
    wants the job to end.
    """
    answered = threading.Event()
    threading.Thread(target=_end_with, args=(client, answered), daemon=True).start()

    def say(**record: Any) -> None:
        try:
            print(json.dumps(record), file=lines, flush=True)
        except OSError:  # nobody listens any more: this can be noticed here before it is in the thread
            os._exit(HUNG_UP)

    def progress(stage: str, share: float, rows: int) -> None:
        say(stage=stage, share=share, rows=rows)

    answer: dict[str, Any] = {"status": 2}
    try:
        charges.run(charges.parser().parse_args(arguments), warm.compute, progress)
        answer = {"status": 0}
    except NotSuitable as reason:
        answer = {"cold": str(reason)}
    except PipelineError as error:
        say(error=str(error))
    except Exception as error:  # whatever happened to Spark: this job and the next ones get another session
        answer = {"cold": charges.spark_error(error) or f"{type(error).__name__}: {error}"}
    answered.set()
    say(**answer)
    return "cold" not in answer


def _end_with(client: socket.socket, answered: threading.Event) -> None:
    with suppress(OSError):
        while client.recv(1024):
            pass
    if not answered.is_set():
        os._exit(HUNG_UP)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m pipeline.jobs.warm", description="Keep a Spark session for jobs.")
    options.add_argument("--socket", type=int, required=True, help="file descriptor of a listening Unix socket")
    options.add_argument("--idle-s", type=float, required=True, help="seconds without a job after which it ends")
    given = options.parse_args(arguments)
    end_with_stdin()
    with socket.socket(fileno=given.socket) as listener:
        serve(listener, given.idle_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
