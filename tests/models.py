"""Random models to their full depth: 20,000 lives each, in parts, going on where an earlier run was interrupted.

    python -m tests.models                    all, until each has its 20,000 lives of this code
    python -m tests.models --minutes 30       for so long; the next run goes on
    python -m tests.models --only sessions    one of them
    python -m tests.models --show             what was reached

Each part draws its lives by its own seed, so that a part that fails can be repeated: its command is printed. What was
reached counts for the code it was reached with: a change of the code or of the model begins anew.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.selection import LIVES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".campaign" / "models"
GOAL, PART = 20_000, 1_000
"""To begin a part costs four seconds of a processor, as much as a hundred lives."""
REDIS = "tests/pairing/model_redis.py"


@dataclass(frozen=True, slots=True)
class Model:
    """A test that lives as many lives as it is asked for, and the code that it is about."""

    test: str
    about: tuple[str, ...] = ("pairing",)
    uses: tuple[str, ...] = ()
    """Further files that decide how it lives."""

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


MODELS: Mapping[str, Model] = {
    "forced-states": Model(
        "tests/pairing/test_forced_states_model.py::test_no_report_ends_an_operators_hold_and_all_agree_in_the_end",
        uses=(REDIS,),
    ),
    "sessions": Model(
        "tests/pairing/test_session_order_model.py"
        "::test_a_session_that_one_process_at_a_time_writes_stays_in_order_whoever_dies",
        uses=(REDIS,),
    ),
    "syphons": Model(
        "tests/pairing/test_syphon_model.py::test_every_message_comes_home_or_is_dead_lettered_with_a_reason"
    ),
    "pairs": Model("tests/pairing/test_model.py::TestPairLife"),
    "rotations": Model("tests/pairing/test_model.py::TestRotationLife"),
    "deletions": Model(
        "tests/dashboard/backlog/test_deletion_model.py"
        "::test_a_deletion_ends_once_and_loses_nothing_that_was_not_confirmed",
        ("dashboard/backlog", "dashboard/models"),
    ),
    "syphon-runs": Model(
        "tests/dashboard/fleet/test_syphon_runs_model.py"
        "::test_runs_of_syphons_are_those_of_the_leases_and_count_no_message_twice",
        ("dashboard/fleet", "dashboard/models"),
    ),
}


@dataclass(slots=True)
class Progress:
    """What was reached, on disk after each part."""

    file: Path
    reached: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> "Progress":
        """That of a folder; empty if there is none yet."""
        file = folder / "progress.json"
        return cls(file, json.loads(file.read_text()) if file.exists() else {})

    def lives(self, name: str, code: str) -> int:
        """The lives of a model with this code."""
        found = self.reached.get(name, {})
        return int(found["lives"]) if found.get("code") == code else 0

    def add(self, name: str, code: str, lives: int, took_s: float) -> None:
        """A part has ended without a finding. The file is replaced as a whole: a kill leaves the old or the new one."""
        found = self.reached.get(name, {})
        before = found if found.get("code") == code else {"lives": 0, "took_s": 0.0}
        sums = {"lives": before["lives"] + lives, "took_s": round(before["took_s"] + took_s, 1)}
        self.reached[name] = {"code": code, **sums}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.reached, indent=2) + "\n")
        new.replace(self.file)


def fingerprint(model: Model, root: Path = ROOT) -> str:
    """Changes with every file of the code that the model is about, and with the model itself."""
    digest = hashlib.sha256()
    for file in (root / model.file, *(root / used for used in model.uses), *_sources(model, root)):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _sources(model: Model, root: Path) -> Iterator[Path]:
    for folder in model.about:
        yield from sorted(file for file in (root / folder).rglob("*") if file.suffix in (".py", ".lua"))


Live = Callable[[Model, int, int], bool]
"""Lives a part: the model, how many lives, and the seed; whether nothing was found."""


def live(model: Model, lives: int, seed: int) -> bool:
    """In a process of its own. CI's repeatable draws would be the same ones in each part, so they are switched off."""
    argv = [sys.executable, "-m", "pytest", model.test, "-q", "-x", "--timeout", "0", f"--hypothesis-seed={seed}"]
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment |= {LIVES: str(lives), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{done.stdout}{done.stderr}\nrepeat it with: {LIVES}={lives} {' '.join(argv[1:])}", flush=True)
    return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Asked:
    """How far to go: so many lives each, in parts, until a time of the monotonic clock."""

    names: Sequence[str] = tuple(MODELS)
    goal: int = GOAL
    part: int = PART
    until: float = float("inf")


def reach(asked: Asked, progress: Progress, live: Live = live, clock: Callable[[], float] = time.monotonic) -> str:
    """Go on until all have the lives that are asked for; always with the one that is furthest behind.

    Returns the name of the model that found something, or nothing. Parts are not cut short: the last one may end
    after the time.
    """
    codes = {name: fingerprint(MODELS[name]) for name in asked.names}
    while clock() < asked.until:
        behind = min(asked.names, key=lambda name: progress.lives(name, codes[name]))
        done = progress.lives(behind, codes[behind])
        if done >= asked.goal:
            return ""
        lives, began = min(asked.part, asked.goal - done), clock()
        if not live(MODELS[behind], lives, done):
            return behind
        progress.add(behind, codes[behind], lives, clock() - began)
        print(f"{behind}: {done + lives:,} of {asked.goal:,} lives", flush=True)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=sorted(MODELS), help="this one; may be repeated")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="how long (default: until all are done)")
    parser.add_argument("--lives", type=int, default=GOAL, help=f"of each model (default: {GOAL})")
    parser.add_argument("--part", type=int, default=PART, help=f"lives between two looks (default: {PART})")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the progress is kept")
    parser.add_argument("--show", action="store_true", help="print what was reached, and end")
    given = parser.parse_args()
    progress = Progress.of(given.folder)
    names = tuple(given.only or MODELS)
    until = time.monotonic() + given.minutes * 60
    found = "" if given.show else reach(Asked(names, given.lives, given.part, until), progress)
    for name in names:
        print(f"{name:<16} {progress.lives(name, fingerprint(MODELS[name])):>8,} of {given.lives:,} lives")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
