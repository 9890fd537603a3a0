"""Empty environments of the interpreters of this machine, and programs run there from a folder that is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.build_packages import ROOT

INTERPRETERS = "WHEEL_PYTHONS"
"""Environment variable: further interpreters, separated like those of PATH."""
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OF_MAKE = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "ARGS")
"""`make nightly ARGS=-v` would give its arguments to each `make` that a test starts."""
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DJANGO_SETTINGS_MODULE", *OF_MAKE)


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with packages; `folder` is empty but for what its programs write."""

    home: Path
    folder: Path

    def path(self, program: str) -> str:
        """Where a program of this environment is."""
        return str(self.home / "bin" / program)

    def run(self, program: str, *arguments: str | Path, **variables: str) -> str:
        """Run a program to its end; returns what it prints. Raises AssertionError if it fails."""
        ended = self._ended(program, *arguments, **variables)
        assert ended.returncode == 0, f"{program} {arguments}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}"
        return ended.stdout

    def fails(self, program: str, *arguments: str | Path, **variables: str) -> str:
        """Run a program that fails; returns what it prints. Raises AssertionError if it succeeds."""
        ended = self._ended(program, *arguments, **variables)
        assert ended.returncode != 0, f"{program} {arguments}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}"
        return ended.stdout + ended.stderr

    def _ended(self, program: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path(program), *arguments],
            cwd=self.folder,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @contextmanager
    def running(self, program: str, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """A program that runs until the block ends; its output goes to `output.txt` in the folder."""
        with (
            (self.folder / "output.txt").open("w") as output,
            subprocess.Popen(
                [self.path(program), *arguments],
                cwd=self.folder,
                env=self.variables(**variables),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of a program: nothing in it leads to the checkout."""
        inherited = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        return {**inherited, "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}


def installed(python: str, folder: Path, packages: Sequence[str | Path]) -> Installed:
    """A new environment of this interpreter with these packages, in the versions that the checkout uses."""
    home, work = folder / "environment", folder / "empty"
    work.mkdir(parents=True)
    _uv("venv", "--quiet", "--python", python, home)
    # Versions that are known to work; what the constraints do not name is the newest.
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(_pins(ROOT / "requirements" / "test.txt")), encoding="utf-8")
    _uv("pip", "install", "--quiet", "--python", home / "bin" / "python", "-c", constraints, *packages)
    return Installed(home, work)


def _pins(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            yield line.removesuffix("\\").strip() + "\n"


def _uv(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True)


def interpreter(version: str) -> str | None:
    """A Python of this version: the one of the tests, one that WHEEL_PYTHONS names, or one on the PATH that runs."""
    named = os.environ.get(INTERPRETERS, "").split(os.pathsep)
    candidates = [sys.executable, *filter(None, named), shutil.which(f"python{version}") or ""]
    return next((python for python in candidates if python and _version(python) == version), None)


def _version(python: str) -> str:
    code = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
