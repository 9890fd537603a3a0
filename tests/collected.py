"""The tests of a parallel run are collected once: its workers are forked from the process that has collected them.

Each worker of pytest-xdist else imports everything and collects all tests by itself, which takes 5 s of a processor. A
forked worker begins where an ordinary one is after its collection, and talks to the controller as that one does. Where
nothing can be collected, or no process forked, ordinary workers are started: they say why.
"""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

import pytest
from _pytest.config import _prepareconfig
from _pytest.main import ExitCode
from execnet import Channel, gateway_io
from execnet.gateway_base import ExecModel, Popen2IO

MAIN = "import sys; sys.path[:] = {}; from tests.collected import main; main()"

# -- the controller ---------------------------------------------------------------------------------------------------


class Collector:
    """The process that collects, as the controller sees it."""

    def __init__(self, arguments: list[str]) -> None:
        self._requests, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-c", MAIN.format(sys.path), str(its_end.fileno()), *arguments]
        with its_end:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its_end.fileno()]
            )
        self.forks = self._requests.recv(1) == b"1"

    def fork(self, stdin: int, stdout: int) -> int:
        """The process id of a new worker."""
        socket.send_fds(self._requests, [b"1"], [stdin, stdout])
        return int(self._requests.recv(64))

    def end(self) -> None:
        """Once its workers have ended: their time counts as its time."""
        self._requests.close()
        self._process.wait(60)


class ForkedWorker(Popen2IO):
    """What execnet has of the process that it talks to."""

    def __init__(self, collector: Collector, execmodel: ExecModel) -> None:
        stdin, ours_to_write = os.pipe()
        ours_to_read, stdout = os.pipe()
        self._ended = os.pidfd_open(collector.fork(stdin, stdout))
        os.close(stdin)
        os.close(stdout)
        super().__init__(os.fdopen(ours_to_write, "wb"), os.fdopen(ours_to_read, "rb"), execmodel)

    def wait(self) -> None:
        select.select([self._ended], [], [])

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)


def collect_once(config: pytest.Config) -> None:
    """From now on the workers of this run are forked, if that is possible."""
    collector = Collector([str(argument) for argument in config.invocation_params.args])
    config.add_cleanup(collector.end)
    if collector.forks:
        make = gateway_io.create_io
        config.add_cleanup(lambda: setattr(gateway_io, "create_io", make))
        gateway_io.create_io = lambda _, execmodel: ForkedWorker(collector, execmodel)
        config.pluginmanager.register(_RemoteModule())


class _RemoteModule:
    @pytest.hookimpl
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        """What execnet runs in the worker."""
        return sys.modules[__name__]


# -- the process that collects ----------------------------------------------------------------------------------------


class Forking:
    """Instead of running the tests, the process forks those who do."""

    def __init__(self, config: pytest.Config, requests: socket.socket) -> None:
        self._config = config
        self._requests = requests
        self._reports: list[pytest.CollectReport] = []

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self._capture().stop_global_capturing()  # each worker begins its own
        if threading.active_count() > 1:
            return True  # they would be missing in the workers
        self._requests.send(b"1")
        while descriptors := socket.recv_fds(self._requests, 1, 2)[1]:
            worker = os.fork()
            if not worker:
                self._requests.close()
                self._become_worker(*descriptors)
            self._requests.send(str(worker).encode())
            for descriptor in descriptors:
                os.close(descriptor)
        with suppress(ChildProcessError):
            while True:
                os.wait()
        return True

    def _capture(self) -> Any:
        return self._config.pluginmanager.getplugin("capturemanager")

    def _become_worker(self, stdin: int, stdout: int) -> NoReturn:
        """What `python -c` does with the line that execnet gives it."""
        _forked.append(self)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(stdin)
        os.close(stdout)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
        atexit._run_exitfuncs()
        os._exit(0)

    def work(self, channel: Channel) -> None:
        """What a worker of pytest-xdist does after its collection."""
        from xdist import remote

        config, session = self._config, self._session
        given, _, options, _ = channel.receive()
        os.environ["PYTEST_XDIST_TESTRUNUID"] = given["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = given["workerid"]
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(given["workercount"])
        config.workerinput = given
        config.option.basetemp = options.get("basetemp")
        config._tmp_path_factory = pytest.TempPathFactory.from_config(config, _ispytest=True)
        self._capture().start_global_capturing()
        config.pluginmanager.unregister(self)
        interactor = remote.interactor = remote.WorkerInteractor(config, channel)
        interactor.pytest_sessionstart(session)
        for report in self._reports:  # warnings are reported again to whoever registers
            interactor.pytest_collectreport(report)
        interactor.pytest_collection_finish(session)
        status = ExitCode.INTERRUPTED
        try:
            interactor.pytest_runtestloop(session)
            status = ExitCode.TESTS_FAILED if session.testsfailed else ExitCode.OK
        finally:
            os.chdir(session.startpath)
            config.hook.pytest_sessionfinish(session=session, exitstatus=status)
            config._ensure_unconfigure()


_forked: list[Forking] = []


def work(channel: Channel) -> None:
    """In a forked worker."""
    _forked[0].work(channel)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(requests.fileno(), False)
    config = _prepareconfig(sys.argv[2:])
    from xdist import remote  # only now: pytest complains about plugins that are imported before it looks at them

    remote.setup_config(config, None)
    config.workerinput, config.workeroutput = {}, {}
    config.pluginmanager.register(Forking(config, requests))
    config.hook.pytest_cmdline_main(config=config)


if __name__ == "__channelexec__":
    from tests import collected

    collected.work(channel)  # noqa: F821  # execnet defines it
