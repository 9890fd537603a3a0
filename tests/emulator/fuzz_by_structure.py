"""Fuzzing with well-formed input: `python -m tests.emulator.fuzz_by_structure progress.json --minutes 60`.

The file holds how far each target came. A run goes on from there, so a number of the seed names an input for ever:
`--only TARGET/NUMBER` repeats one. It ends with exit code 1 at the first input that raises what it may not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from tests.emulator.structured_input import GENERATORS

TURN_S = 2.0
"""How long one target is tried before the next has its turn."""
TARGETS = {target.__name__: (target, generator) for target, generator in GENERATORS.items()}


@dataclass(slots=True)
class Reached:
    """What one target was given so far."""

    inputs: int = 0
    bytes: int = 0
    seconds: float = 0.0


def one(seed: int, name: str, number: int) -> int:
    """Give a target its input of this number; returns its size."""
    target, generate = TARGETS[name]
    data = generate(Random(f"{seed}/{name}/{number}"))
    target(data)
    return len(data)


def turn(seed: int, name: str, reached: Reached, until: float) -> None:
    """Try one target until a moment of the monotonic clock."""
    while (began := time.monotonic()) < until:
        try:
            reached.bytes += one(seed, name, reached.inputs)
        except Exception as error:
            error.add_note(f"This is input {name}/{reached.inputs} of seed {seed}.")
            raise
        reached.inputs += 1
        reached.seconds += time.monotonic() - began


def run(seed: int, minutes: float, reached: dict[str, Reached], progress: Path | None = None) -> None:
    """Try all targets in turns for so long, and write down how far each came."""
    end = time.monotonic() + minutes * 60
    share = min(TURN_S, minutes * 60 / len(TARGETS))
    while time.monotonic() < end:
        for name in TARGETS:
            turn(seed, name, reached.setdefault(name, Reached()), time.monotonic() + share)
        if progress is not None:
            kept = {"seed": seed, "reached": {name: asdict(each) for name, each in reached.items()}}
            progress.write_text(json.dumps(kept, indent=1))


def table(reached: dict[str, Reached]) -> str:
    """The figures, a target a line."""
    lines = [f"{name:24}{each.inputs:12,}{each.bytes:16,}{each.seconds / 60:8.1f}" for name, each in reached.items()]
    total = Reached(
        *(sum(getattr(each, field) for each in reached.values()) for field in ("inputs", "bytes", "seconds"))
    )
    last = f"{'all':24}{total.inputs:12,}{total.bytes:16,}{total.seconds / 60:8.1f}"
    return "\n".join([f"{'target':24}{'inputs':>12}{'bytes':>16}{'minutes':>8}", *lines, last])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("progress", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="TARGET/NUMBER")
    arguments = parser.parse_args()
    if arguments.only:
        name, _, number = arguments.only.partition("/")
        print(one(arguments.seed, name, int(number)), "bytes")
        return
    kept = json.loads(arguments.progress.read_text()) if arguments.progress.exists() else {"seed": arguments.seed}
    reached = {name: Reached(**each) for name, each in kept.get("reached", {}).items()}
    try:
        run(kept["seed"], arguments.minutes, reached, arguments.progress)
    finally:
        print(table(reached), file=sys.stderr)


if __name__ == "__main__":
    main()
