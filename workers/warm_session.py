"""The Spark session that this worker keeps between two computations of charges (`SPARK_SESSION_IDLE_S`)."""

import atexit
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import structlog
from django.conf import settings

from dashboard.costs.jobs import job_environment
from dashboard.costs.warm_session import SOCKET
from dashboard.site.places import BASE_DIR

log = structlog.get_logger(__name__)
NONE: Mapping[str, str] = {}


class SessionKeeper:
    """Starts the process that keeps the session when it is first needed, and again after it has ended.

    The process ends with this one, because its standard input does.
    """

    def __init__(self, idle_s: float) -> None:
        self.idle_s = idle_s
        self._one_job = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @contextmanager
    def session(self) -> Iterator[Mapping[str, str]]:
        """The variables by which a command finds the session; none while another job uses it."""
        if not self.idle_s or not self._one_job.acquire(blocking=False):
            yield NONE
            return
        try:
            yield self._variables()
        finally:
            self._one_job.release()

    def _variables(self) -> Mapping[str, str]:
        try:
            return {SOCKET: str(self._running())}
        except OSError as error:  # the job runs without it
            log.warning("no Spark session can be kept", problem=str(error))
            return NONE

    def _running(self) -> Path:
        if self._folder is None:
            self._folder = Path(mkdtemp(prefix="spark-session-"))
            atexit.register(self.close)
        path = self._folder / "socket"
        if self._process is None or self._process.poll() is not None:
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                listener.listen()
                self._process = self._start(listener.fileno())
        return path

    def _start(self, listener: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "pipeline.jobs.warm", "--socket", str(listener), "--idle-s", str(self.idle_s)]
        return subprocess.Popen(
            command,
            cwd=BASE_DIR,
            env=job_environment(settings.USAGE_DIR),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener],
        )

    def close(self) -> None:
        """End the process, and a job that it runs."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            atexit.unregister(self.close)
        self._process = self._folder = None
