"""The steps of the set-up: progress in words and seconds, and programs that are shown only when they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
STARTED = "PAIRED_NAMESPACES_SETUP_STARTED"
"""The variable with the time at which the set-up began, for the progress lines of the command that follows."""


class SetUpError(Exception):
    """Something that cannot be set up here; the text is one sentence that says what to do."""


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    started = float(os.environ.setdefault(STARTED, repr(time.time())))
    # In one piece: threads report side by side.
    sys.stdout.write(f"{time.time() - started:5.1f} s  {text}\n")
    sys.stdout.flush()


def run(command: Sequence[object], failure: str, **environment: str) -> None:
    """Run one step quietly; its output is shown only when it fails, and then `failure` says what to do."""
    try:
        outcome = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            check=False,
        )
    except OSError as error:
        raise SetUpError(f"{failure} ({error.strerror})") from None
    if outcome.returncode:
        sys.stderr.write(outcome.stdout.decode(errors="replace")[-4000:])
        raise SetUpError(failure)


def search_path() -> str:
    """The PATH of everything started from here: programs that only this checkout has come last."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(VENV / "fallback")])


def which(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def link_fallback(name: str, target: Path) -> None:
    link = VENV / "fallback" / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
