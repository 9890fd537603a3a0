"""Each safeguard of the library, and what removes it from a copy: a campaign without it has to find that something is
broken. None of this is code of the product; a change whose text is not there exactly once fails loudly.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COPY = "CAMPAIGN_COPY"
ROOMS = ("pairing", "emulator", "dashboard", "workers", "pipeline", "tests", "templates", "tools")
FILES = ("manage.py", "pyproject.toml")


class SafeguardError(Exception):
    """The code has changed: the text that a safeguard consists of is not there exactly once."""


@dataclass(frozen=True, slots=True)
class Change:
    """A text of a file that is replaced by another one."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Replace it. Raises SafeguardError."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.count(self.old) != 1:
            raise SafeguardError(f"{self.file} has {text.count(self.old)} times, instead of once: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Safeguard:
    """What protects against what, how it is removed, and what holds it beside the campaign."""

    protects: str
    changes: tuple[Change, ...]
    checks: tuple[str, ...]
    """The checks of the judge that notice it."""
    tests: tuple[str, ...]
    """Tests that fail without it."""


SAFEGUARDS: dict[str, Safeguard] = {}


def make_copy(name: str, root: Path) -> None:
    """A copy of this checkout without the safeguard. Raises SafeguardError."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for room in ROOMS:
        shutil.copytree(ROOT / room, root / room, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, root / file)
    for change in SAFEGUARDS[name].changes:
        change.apply(root)


def run_copy(name: str, folder: Path) -> int:
    """The campaign of a folder, run by a copy without the safeguard; its exit code."""
    root = folder / "copy"
    make_copy(name, root)
    environment = {**os.environ, COPY: "1", "PYTHONPATH": str(root)}
    argv = [sys.executable, "-m", "tests.campaign", "--resume", str(folder)]
    return subprocess.run(argv, cwd=root, env=environment, check=False).returncode
