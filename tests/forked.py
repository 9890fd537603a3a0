"""Commands of the control plane in processes that are forked where the libraries of others are imported already.

Most of the processor time of a short command goes into importing Django, the SDK and the client of Redis, and the tests
start hundreds. A forked process reads its arguments, environment and settings and imports all of our code itself. What
a process imports, and what it does before, is for tests that start an interpreter.

The workers of a parallel run are forked of one process in which pytest has imported all tests: to collect them takes
a third then. execnet starts `python tests/forked.py NAME -u -c COMMAND` instead of an interpreter.
"""

import atexit
import gc
import json
import os
import runpy
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMPORTED = (
    "authlib.integrations.requests_client",
    "azure.servicebus.aio.management",
    "azure.servicebus.management",
    "celery.apps.worker",
    "celery.bin.celery",
    "django.contrib.admin",
    "django.core.management",
    "django.core.serializers.json",
    "django.db.backends.sqlite3.base",
    "django.db.models",
    "django.template",
    "django.test",
    "environ",
    "kombu.transport.redis",
    "prometheus_client",
    "psycopg",
    "pyarrow.parquet",
    "pydantic.json_schema",
    "pydantic.networks",
    "redis.asyncio",
    "structlog",
    "uvicorn.protocols.http.h11_impl",
)
"""None of them reads the settings of Django, or what a test sets in the environment, when it is imported."""
LARGEST = 1 << 20
SHARED = "FORKED_PROCESSES_AT"
"""The environment variable with the name of the process that forks for all workers of a parallel run."""
TESTS = "-tests"
"""What its name ends with in which the tests are imported."""


class Process:
    """A forked process, with what `subprocess.Popen` has of the same names."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], files: Sequence[int], at: str, *, own_session: bool
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.connect(f"\0{at}")  # abstract: nothing is left in a folder
        request = {"words": self.args, "env": dict(env), "own_session": own_session}
        socket.send_fds(self._server, [json.dumps(request).encode()], files)
        self.pid = int(self._server.recv(64))

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._server.settimeout(timeout)
            try:
                self.returncode = int(self._server.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(words: Sequence[str], env: Mapping[str, str], out: int, err: int, *, own_session: bool = False) -> Process:
    """What `subprocess.Popen` does for `python WORDS` in the checkout. Its output goes to these descriptors."""
    return Process(words, env, (out, err), _started(), own_session=own_session)


def run(words: Sequence[str], env: Mapping[str, str], *, check: bool = False) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` returns for `python WORDS` in the checkout, with its output as text."""
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:
        status = start(words, env, out.fileno(), err.fileno()).wait(600)
        out.seek(0)
        err.seek(0)
        ran = subprocess.CompletedProcess(list(words), status, out.read(), err.read())
    if check:
        ran.check_returncode()
    return ran


def share(*arguments: str) -> None:
    """Let the processes that this one starts use its process that forks: each takes a second to import.

    Another one imports the tests that pytest finds with these arguments, and forks the workers.
    """
    os.environ[SHARED] = _started(os.getcwd(), *arguments)


def worker() -> str:
    """The command that execnet starts a worker with."""
    return shlex.join([sys.executable, "-IS", __file__, os.environ[SHARED] + TESTS])


@cache
def _started(*collecting: str) -> str:
    """The name of the process that forks; it ends with this one, because its standard input does."""
    if shared := os.environ.get(SHARED):
        return shared
    name = f"forked-{secrets.token_hex(8)}"
    env = {name: value for name, value in os.environ.items() if collecting or name == "PATH"}
    with _listening(name) as listener, _listening(name + TESTS) as collected:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), str(collected.fileno()), *collecting],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,  # what is written there is buffered as in any program that is captured
            pass_fds=[listener.fileno(), collected.fileno()],
        )
    atexit.register(process.stdin.close)
    return name


def _listening(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{name}")
    listener.listen()
    return listener


def _import() -> None:
    gc.disable()
    for name in IMPORTED:
        import_module(name)


class _OnlyModules:
    """A plugin of pytest that makes no test of what a module holds: a mark that has named its tests once is changed."""

    def pytest_pycollect_makeitem(self) -> list[object]:
        return []


def _collect(folder: str, *arguments: str) -> None:
    """Import all that pytest imports before the first test. What it captures, log handlers would write to for ever."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads what it prints: workers report what is wrong
    os.chdir(folder)
    import_module("pytest").main([*arguments, "-n0", "-s", "--collect-only", "-qq"], [_OnlyModules()])


def serve(listener: socket.socket) -> None:
    gc.freeze()  # a forked process neither looks at what is imported already nor copies its pages for that
    gc.enable()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            _answer(connection, listener)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # their time counts as this process's
                pass


def _answer(connection: socket.socket, listener: socket.socket) -> None:
    """One command: it runs in a process of its own, and this one reports how it ended."""
    request, files, _, _ = socket.recv_fds(connection, LARGEST, 3)
    if child := os.fork():
        for file in files:
            os.close(file)
        connection.send(str(child).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(OSError):  # nobody may wait for it any more
            connection.send(str(status).encode())
        os._exit(0)
    connection.close()
    listener.close()
    if len(files) < 3:  # only a worker is sent anything
        files.insert(0, os.open(os.devnull, os.O_RDONLY))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    _become(**json.loads(request))


def _become(words: Sequence[str], env: Mapping[str, str], own_session: bool) -> None:
    """What the interpreter does with these words; never returns."""
    if own_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(env)
    status: Any = 0
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        elif words[0] == "-m":
            sys.argv = list(words[1:])
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(words)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _end_with_stdin() -> None:
    os.read(0, 1)  # sys.stdin is locked by nobody: a worker reads it
    os._exit(0)


def main(listening: str, collected: str, *collecting: str) -> None:
    """Fork commands, and the workers if there is something to collect."""
    _import()
    listener, other = socket.socket(fileno=int(listening)), socket.socket(fileno=int(collected))
    if collecting and os.fork() == 0:
        listener, other = other, listener
        _collect(*collecting)
    other.close()
    serve(listener)


if __name__ == "__main__":
    if __spec__:
        main(*sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the worker, which is interrupted too
    sys.exit(Process(sys.argv[3:], os.environ, (0, 1, 2), sys.argv[1], own_session=False).wait())
