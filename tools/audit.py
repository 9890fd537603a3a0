"""The dependency audit of `make check`: asks pip-audit about the pinned requirements and prints the result.

A known vulnerability fails the check. If the vulnerability service is unavailable, the check prints a warning and does
not fail. The shortest list is asked about first; without an answer the others are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTS = ("setup", "java", "redis-server", "test")  # the last contains what running needs
TIMEOUT_S = 300


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


def main() -> int:
    found = audit()
    print(found.sentence, flush=True)
    return 1 if found.vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
