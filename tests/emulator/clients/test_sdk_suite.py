"""The tests of azure-servicebus for Python itself, from its source archive, against the emulator (sdk_suite.py)."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator.clients.installed import downloaded_source

pytestmark = pytest.mark.nightly
SUITE_TIMEOUT_S = 800
OF_THEIR_REPOSITORY = "not copies_are_byte_identical"
"""Compares files with those of another package in Microsoft's repository."""


@pytest.mark.parametrize("part", ["mgmt_tests", "unittests"])
def test_the_sdks_own_tests_pass(part):
    version = importlib.metadata.version("azure-servicebus")
    tests = downloaded_source(f"azure-servicebus=={version}") / "tests"
    disabled = [word for plugin in ("schemathesis", "django", "cacheprovider") for word in ("-p", f"no:{plugin}")]
    options = ["-c", os.devnull, "--rootdir", str(tests), "-o", "asyncio_mode=auto", *disabled]
    options += ["-p", "tests.emulator.clients.sdk_suite", "-n", "4", "-q", "--tb=short", "-k", OF_THEIR_REPOSITORY]
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", *options, part],
        cwd=tests,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout[-6000:]
