"""The dependency audit of `make check`: asks pip-audit about the pinned requirements and prints the result.

A known vulnerability fails the check. If the vulnerability service is unavailable, the check prints a warning and does
not fail. The shortest list is asked about first; without an answer the others are skipped.

`npm audit` is asked about the clients in JavaScript, which only tests of the emulator use. They are not pinned and not
delivered, so that what is known about them is printed and fails nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTS = ("setup", "java", "redis-server", "test")  # the last contains what running needs
TIMEOUT_S = 60
"""For each list, and for each question to npm."""
JAVASCRIPT = ROOT / "tests" / "emulator" / "clients" / "javascript"
QUIETLY = ("--fetch-retries=0", "--fetch-timeout=20000", "--no-fund", "--ignore-scripts")


@dataclass(frozen=True, slots=True)
class Findings:
    """Packages that were asked about, unknown ones, and the vulnerabilities with the versions that fix them."""

    asked: int = 0
    unknown: int = 0
    vulnerable: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        return Findings(self.asked + other.asked, self.unknown + other.unknown, (*self.vulnerable, *other.vulnerable))

    @property
    def sentence(self) -> str:
        """The result as text."""
        if self.vulnerable:
            return "\n".join(("known vulnerabilities:", *self.vulnerable))
        if not self.asked:
            return "warning: the vulnerability service could not be asked; nothing is known about the dependencies"
        rest = f"; {self.unknown} could not be asked about" if self.unknown else ""
        return f"no known vulnerability in {self.asked} packages{rest}"


def read(document: Any) -> Findings:
    """The findings in pip-audit's JSON."""
    packages = document["dependencies"]
    known = [package for package in packages if "skip_reason" not in package]
    return Findings(len(known), len(packages) - len(known), tuple(_vulnerabilities(known)))


def _vulnerabilities(packages: Iterable[dict[str, Any]]) -> Iterable[str]:
    for package in packages:
        for one in package["vulns"]:
            mended = ", ".join(one["fix_versions"]) or "nowhere yet"
            yield f"  {package['name']} {package['version']}: {one['id']}, mended in {mended}"


def ask(name: str) -> Findings:
    """The findings of pip-audit for one list. Without an answer of pip-audit, the list counts as unknown."""
    program = Path(sys.executable).parent / "pip-audit"
    words = ("--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json", "-r")
    file = ROOT / "requirements" / f"{name}.txt"
    try:
        ran = subprocess.run(
            (program, *words, file), capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT
        )
        return read(json.loads(ran.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return Findings(unknown=1)


def audit() -> Findings:
    """All lists; only the first if the service does not answer."""
    found = ask(LISTS[0])
    if not found.asked:
        return found
    return sum(map(ask, LISTS[1:]), start=found)


def npm_sentence() -> str:
    """What npm knows about the clients in JavaScript, as text."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed; nothing is known about the packages for JavaScript"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(JAVASCRIPT / "package.json", folder)
        try:
            _npm(npm, folder, "install", "--package-lock-only", "--no-audit")
            counts = json.loads(_npm(npm, folder, "audit", "--json"))["metadata"]["vulnerabilities"]
            found = {name: number for name, number in counts.items() if name != "total" and number}
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError):
            return "warning: npm audit could not be asked; nothing is known about the packages for JavaScript"
    listed = ", ".join(f"{number} {name}" for name, number in found.items())
    return f"npm audit, packages for JavaScript: {listed or 'no known vulnerability'}"


def _npm(npm: str, folder: str, *words: str) -> str:
    """What npm prints. It also exits with 1 where it has found something."""
    command = (npm, *words, *QUIETLY)
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder).stdout


def main() -> int:
    found = audit()
    print(found.sentence, flush=True)
    print(npm_sentence(), flush=True)
    return 1 if found.vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
