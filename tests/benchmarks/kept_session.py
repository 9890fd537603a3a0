"""The process that keeps a Spark session (`pipeline.jobs.warm`), asked for jobs as a worker asks it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.benchmarks.processes import Timed, Watched

ANSWERS = ("status", "cold")
"""One of them ends a job."""


class KeptSession:
    """Runs jobs of charges, one after another, in the same session."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        self.process, self.path = process, path

    def run(self, arguments: Sequence[str]) -> Timed:
        """One job. The memory is the most that the process has taken so far."""
        begun, before = time.monotonic(), self._watched()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.path)
            with client.makefile("rw", encoding="utf-8") as lines:
                print(json.dumps(list(arguments)), file=lines, flush=True)
                answer = next(said for said in map(json.loads, lines) if not said.keys().isdisjoint(ANSWERS))
        assert answer == {"status": 0}, answer
        return Timed(time.monotonic() - begun, self._watched().since(before), "")

    def _watched(self) -> Watched:
        watched = Watched()
        watched.look(self.process.pid)
        return watched


@contextmanager
def kept_session(**environment: str) -> Iterator[KeptSession]:
    with TemporaryDirectory(prefix="bench-session-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/socket"
        listener.bind(path)
        listener.listen()
        command = [sys.executable, "-m", "pipeline.jobs.warm", "--socket", str(listener.fileno()), "--idle-s", "600"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**os.environ, **environment},
        ) as process:
            yield KeptSession(process, path)
            assert process.stdin is not None
            process.stdin.close()
