"""The environment `.venv` and the Python packages in it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from debian_packages import apt_install
from steps import PYTHON, REQUIREMENTS, ROOT, VENV, SetUpError, run, say

MINIMUM_PYTHON = (3, 11)
CONTAINS = {"demo": ("run", "test"), "run": ("test",), "test": ()}
"""Which other requirements contain those of a name: `make demo` after `make test` takes nothing away."""
UNREACHABLE = "check that a Python package index can be reached"


def suitable_python() -> str:
    """A Python new enough: this one, else one by its versioned name on the PATH."""
    if sys.version_info >= MINIMUM_PYTHON:
        return sys.executable
    for minor in range(20, MINIMUM_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    raise SetUpError("Python 3.11 or newer is needed: install it, or name one with `make PYTHON=/path/to/python3.11`")


def ensure_venv() -> None:
    """Make `.venv` with uv in it. Raises SetUpError if there is a `.venv` that somebody else has made."""
    if PYTHON.exists() and (VENV / ".complete").exists():
        return
    if VENV.exists() and not (VENV / ".making").exists():
        raise SetUpError(f"{VENV} is not of this project's making: move it away, then try again")
    say("making .venv …")
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir()
    (VENV / ".making").touch()
    python, pip = suitable_python(), [PYTHON, "-m", "pip"]
    if python == sys.executable and importlib.util.find_spec("pip") is not None:
        # The pip of this Python installs into .venv as well: unpacking another one takes as long as all the rest.
        _make_venv(python, "--without-pip")
        pip = [python, "-m", "pip", "--python", PYTHON]
    else:
        _make_venv(python)
    run(
        [*pip, "install", "--quiet", "--require-hashes", "--no-compile", "-r", REQUIREMENTS / "setup.txt"],
        f"pip could not install uv: {UNREACHABLE}",
    )
    (VENV / ".complete").touch()


def _make_venv(python: str, *options: str) -> None:
    command = [python, "-m", "venv", *options, VENV]
    hint = "Python's venv module is missing: install it (apt install python3-venv)"
    try:
        run(command, hint)
    except SetUpError:
        if not apt_install("python3-venv"):
            raise
        run(command, hint)


def uv(*arguments: object) -> None:
    """Run `uv pip` on `.venv`."""
    run(
        [PYTHON, "-m", "uv", "pip", *arguments, "--python", PYTHON],
        f"the packages could not be installed: {UNREACHABLE}",
        UV_LINK_MODE=os.environ.get("UV_LINK_MODE", "copy"),
    )


def pip_install(name: str, failure: str) -> None:
    """Add one of the small requirements files to the environment, beside what is there."""
    say(f"no system package to be had for {name}: taking the one from the Python package index …")
    try:
        uv("install", "--quiet", "--require-hashes", "-r", REQUIREMENTS / f"{name}.txt")
    except SetUpError:
        raise SetUpError(failure) from None


def ensure_packages(name: str) -> None:
    """Install the requirements of `name` (demo, run, test) and this project, unless they are there already."""
    if is_installed(name):
        return
    say(f"installing Python packages{'' if name == 'demo' else ' (Spark is the large one)'} …")
    # Compiled now: else each of the processes that start at the same time compiles all of it by itself.
    uv("sync", "--quiet", "--compile-bytecode", "--require-hashes", REQUIREMENTS / f"{name}.txt")
    uv("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT)
    _write_command("paired-namespaces-gateway", "gateway")
    _stamp(name).write_text(_digest(name))


def _write_command(name: str, module: str) -> None:
    """The command of a package of this repository, which is not installed by itself here."""
    command = VENV / "bin" / name
    command.write_text(f'#!/bin/sh\nexec "{PYTHON}" -m {module} "$@"\n', encoding="utf-8")
    command.chmod(0o755)


def add_packages(name: str) -> None:
    """Install what the requirements of `name` have and the environment has not, while programs in it run."""
    if is_installed(name):
        return
    uv("install", "--quiet", "--require-hashes", "-r", REQUIREMENTS / f"{name}.txt")
    _stamp(name).write_text(_digest(name))


def is_installed(name: str) -> bool:
    """Whether the requirements of `name` are installed, perhaps as a part of larger ones."""
    return any(_stamp(one).exists() and _stamp(one).read_text() == _digest(one) for one in (name, *CONTAINS[name]))


def _stamp(name: str) -> Path:
    return VENV / f".installed-{name}"


def _digest(name: str) -> str:
    files = [ROOT / "pyproject.toml", REQUIREMENTS / f"{name}.txt"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
