"""Processes with a stepped clock do everything else as before."""

import json
import os
import subprocess
import sys

import pytest

from dashboard.demo.processes import Program
from tests.campaign import clocks

LOOK = """
import json, time
began = time.monotonic()
time.sleep(0.02)
time.sleep(0.0)
slept = time.monotonic() - began
try:
    time.sleep(-1)
except ValueError:
    times = {"slept": slept, "clock": time.time(), "monotonic": time.monotonic()}
    print(json.dumps(times | {"is_replaced": time.sleep.__module__ == "sitecustomize"}))
"""


def look(environment: dict[str, str]) -> dict[str, float]:
    program = clocks.as_started(Program("it", (sys.executable, "-c", LOOK), {**os.environ, **environment}))
    done = subprocess.run(program.argv, env=dict(program.environment), capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_process_with_a_stepped_clock_sleeps_as_long_as_any_other() -> None:
    ours, stepped = look({}), look({"LD_PRELOAD": " "})  # no library: what replaces `time.sleep` is there all the same
    assert (ours["is_replaced"], stepped["is_replaced"]) == (False, True)
    assert ours["slept"] >= 0.02
    assert stepped["slept"] >= 0.02


@pytest.mark.skipif(clocks.library() is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("step_s", [-3600, 45])
def test_its_clock_is_stepped_and_its_monotonic_clock_is_not(step_s: int) -> None:
    library = clocks.library()
    assert library is not None
    before, stepped, after = look({}), look(clocks.stepped(library, step_s)), look(clocks.SAME)
    assert before["clock"] + step_s <= stepped["clock"] <= after["clock"] + step_s
    assert before["monotonic"] < stepped["monotonic"] < after["monotonic"]
    assert stepped["slept"] >= 0.02
