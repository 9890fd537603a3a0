"""Clients of others, installed by their own installers into a cache folder: npm packages, Python environments.

The folder is `~/.cache/clients-of-the-local-namespace` or CLIENT_CACHE. What is there already is used again.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

JAVASCRIPT = Path(__file__).parent / "javascript"
CACHE = Path(os.environ.get("CLIENT_CACHE") or Path.home() / ".cache" / "clients-of-the-local-namespace")
INSTALL_TIMEOUT_S = 900


def missing(problem: str, *, is_required: bool) -> None:
    """Skips the test with this sentence, or fails it where what is missing is required."""
    (pytest.fail if is_required else pytest.skip)(problem)


def node_packages() -> Path:
    """The folder with the packages of package.json. Without Node the test is skipped, or fails with REQUIRE_NODE=1."""
    is_required = os.environ.get("REQUIRE_NODE") == "1"
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("The clients for JavaScript need node and npm on the PATH.", is_required=is_required)
    wanted = (JAVASCRIPT / "package.json").read_bytes()
    folder = CACHE / f"npm-{hashlib.sha256(wanted).hexdigest()[:12]}"
    with made_once(folder) as fresh:
        if fresh is not None:
            (fresh / "package.json").write_bytes(wanted)
            install(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], fresh, is_required=is_required)
    return folder


def python_with(*requirements: str) -> str:
    """The interpreter of an environment with these packages and nothing else."""
    folder = CACHE / ("python-" + hashlib.sha256("\n".join((sys.version, *requirements)).encode()).hexdigest()[:12])
    with made_once(folder) as fresh:
        if fresh is not None:
            python = str(fresh / "bin" / "python")
            uv = [sys.executable, "-m", "uv"]
            install([*uv, "venv", "-q", "--relocatable", "--python", sys.executable, "--clear", "."], fresh)
            install([*uv, "pip", "install", "-q", "--python", python, *requirements], fresh)
    return str(folder / "bin" / "python")


def install(command: Sequence[str], folder: Path, *, is_required: bool = True) -> None:
    outcome = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
    )
    if outcome.returncode:
        missing(f"{command[0]} could not install a client: {outcome.stderr[-2000:]}", is_required=is_required)


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """A fresh folder to fill, which becomes `folder` once it is whole; None if it is there already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        yield fresh
        fresh.rename(folder)
