"""Processor time by file, child processes included: `make test ARGS="-p tests.cpu"` prints it at the end.

Children that outlive their test are counted where they compute. What detaches from its parent, as Spark's JVM does when
a job starts it, is counted no further once its parent has ended; nor is what is forked in a parallel run (forked.py).
"""

import os
from collections import defaultdict
from collections.abc import Generator

import pytest

NAME = "cpu_s"
_TICKS = os.sysconf("SC_CLK_TCK")
_by_file: defaultdict[str, float] = defaultdict(float)


def spent() -> float:
    """Seconds of processor time of this process, of its descendants and of those that have ended."""
    found, waiting = 0, [os.getpid()]
    while waiting:
        process = f"/proc/{waiting.pop()}"
        found += sum(map(int, _read(f"{process}/stat").rpartition(")")[2].split()[11:15]))
        for thread in _threads(process):
            waiting += _read(f"{process}/task/{thread}/children").split()
    return found / _TICKS


def _read(name: str) -> str:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # it has ended
        return ""


def _threads(process: str) -> list[str]:
    try:
        return os.listdir(f"{process}/task")
    except OSError:
        return []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEFORE] = spent()
    return (yield)


_BEFORE = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown":
        report.user_properties.append((NAME, spent() - item.stash[_BEFORE]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == NAME:
            _by_file[report.nodeid.partition("::")[0]] += float(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"{sum(_by_file.values()):.0f} s of processor time")
    for file, seconds in sorted(_by_file.items(), key=lambda one: -one[1])[:40]:
        terminalreporter.line(f"{seconds:8.1f} s  {file}")
