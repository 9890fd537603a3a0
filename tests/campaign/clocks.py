"""Processes whose clock differs from the machine's, by libfaketime. Their monotonic clock stays that of all others."""

import glob
import os
from dataclasses import replace
from pathlib import Path

from dashboard.demo.processes import Program

LIBRARY = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1")
SLEEP = Path(__file__).with_name("stepped")
"""A folder with a `sitecustomize` that every interpreter imports which has it on its path."""
SAME = {"LD_PRELOAD": "", "FAKETIME": ""}
"""The variables of a process with the machine's clock."""


def library() -> str | None:
    """The file of libfaketime: CAMPAIGN_FAKETIME, or the system's."""
    named = os.environ.get("CAMPAIGN_FAKETIME")
    return named or next((path for pattern in LIBRARY for path in sorted(glob.glob(pattern))), None)


def stepped(file: str, step_s: int) -> dict[str, str]:
    """The variables of a process whose clock is that much ahead."""
    return {"LD_PRELOAD": file, "FAKETIME": f"{step_s:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def as_started(program: Program) -> Program:
    """The program itself, or with a `time.sleep` that works if its clock is stepped."""
    environment = program.environment
    if not environment.get("LD_PRELOAD"):
        return program
    path = os.pathsep.join(filter(None, (str(SLEEP), environment.get("PYTHONPATH"))))
    return replace(program, environment={**environment, "PYTHONPATH": path})
