"""The tests of azure-servicebus for Python itself, from its source archive, against the emulator (sdk_suite.py).

They run in an environment of their own with the version of the SDK that the project uses. Nothing of them is stored.
"""

import importlib.metadata
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.emulator.clients.installed import downloaded_source, python_with

SUITE_TIMEOUT_S = 2400
WORKERS = 12
"""The tests wait for most of their time, some for five minutes."""
PARTS = ("mgmt_tests", "unittests", "async_tests", ".")
HURRIED = "test_queue_receive_handler_with_autolockrenew_many_msgs"
"""One thread has to renew 300 locks within ten seconds, and log each frame: it runs alone."""
REQUIREMENTS = ("aiohttp", "websocket-client", "pytest", "pytest-asyncio", "pytest-xdist", "trustme")
TRACING = ("azure-core-tracing-opentelemetry", "opentelemetry-sdk")
OF_THEIR_REPOSITORY = "not copies_are_byte_identical"
"""Compares files with those of another package in Microsoft's repository."""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(SUITE_TIMEOUT_S + 600)]


def of_the_sdk(part, report, *, only="", workers=WORKERS):
    """Runs a part of the SDK's tests; returns the process and writes a report."""
    version = importlib.metadata.version("azure-servicebus")
    tests = downloaded_source(f"azure-servicebus=={version}") / "tests"
    files = [part] if part != "." else [file.name for file in sorted(tests.glob("test_*.py"))]
    options = ["-c", os.devnull, "--rootdir", str(tests), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    options += ["-p", "tests.emulator.clients.sdk_suite", "-n", str(workers), "--dist", "worksteal"]
    options += ["-q", "--tb=short", "-k", only or f"{OF_THEIR_REPOSITORY} and not {HURRIED}", "--junitxml", str(report)]
    return subprocess.run(
        [python_with(f"azure-servicebus=={version}", *REQUIREMENTS, *TRACING), "-m", "pytest", *options, *files],
        cwd=tests,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )


def outcomes(report):
    """The names of the tests that passed, and the reasons of those that did not, by their names."""
    passed, others = [], {}
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None:
            passed.append(case.get("name"))
        else:
            others[case.get("name")] = skipped.get("message")
    return passed, others


@pytest.mark.parametrize("part", PARTS)
def test_the_sdks_own_tests_pass(part, tmp_path):
    outcome = of_the_sdk(part, tmp_path / "report.xml")
    assert outcome.returncode == 0, outcome.stdout[-6000:] + outcome.stderr[-2000:]
    passed, others = outcomes(tmp_path / "report.xml")
    print(f"{part}: {len(passed)} passed", *(f"{name}: {reason}" for name, reason in others.items()), sep="\n")
    assert passed


def test_the_sdk_renews_many_locks_in_time(tmp_path):
    outcome = of_the_sdk("test_queues.py", tmp_path / "report.xml", only=HURRIED, workers=0)
    assert outcome.returncode == 0, outcome.stdout[-6000:] + outcome.stderr[-2000:]
    assert len(outcomes(tmp_path / "report.xml")[0]) == 1
