"""The API keeps what its document promises, whatever is sent (docs/api.md)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.routes import api

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(3600)
def test_every_operation_keeps_its_promises():
    """In a process of its own: what is tried is worked out while tests are collected, by each that collects them."""
    operations = sum(len(methods) for methods in api.get_openapi_schema(path_prefix="/api/v1/")["paths"].values())
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "schemathesis"]

    done = subprocess.run([*command, "tests/dashboard/api_promises.py"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    [passed] = re.findall(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert int(passed) == operations > 50
