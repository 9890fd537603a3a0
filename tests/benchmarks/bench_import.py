"""What importing the library costs an application that imports the SDK: processor time, in fresh interpreters in turns.

Modules are compiled beforehand, as in an installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from tests.benchmarks.processes import size

ROUNDS = size(41, 1)
WORLDS = {
    "blocking": ("azure.servicebus", "pairing"),
    "asyncio": ("azure.servicebus.aio, azure.servicebus.aio.management", "pairing.aio"),
}
_TIMED = "import sys, time; at = time.process_time(); import {}; print(time.process_time() - at, len(sys.modules))"


ROWS = [
    (
        "`pairing`, beside `azure.servicebus` and its administration",
        "at most 1.2",
        "{blocking_ratio:.2f}: {blocking[library_ms]:.0f} ms, {blocking[sdk_ms]:.0f} ms",
    ),
    (
        "`pairing.aio`, beside `azure.servicebus.aio` and its administration",
        "at most 1.2",
        "{asyncio_ratio:.2f}: {asyncio[library_ms]:.0f} ms, {asyncio[sdk_ms]:.0f} ms",
    ),
]


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, with the milliseconds and the numbers of modules that they were made of."""
    measured = {world: _measured(*names) for world, names in WORLDS.items()}
    ratios: dict[str, float | dict[str, float]] = {f"{world}_ratio": one["ratio"] for world, one in measured.items()}
    return ratios | measured


def _measured(sdk: str, library: str) -> dict[str, float]:
    for name in (sdk, library):
        _imported(name)  # compiles
    rounds = [(_imported(sdk), _imported(library)) for _ in range(ROUNDS)]
    sdk_ms, library_ms = (median(one[side][0] for one in rounds) for side in (0, 1))
    return {
        "ratio": library_ms / sdk_ms,
        "sdk_ms": sdk_ms,
        "library_ms": library_ms,
        "least_sdk_ms": min(one[0][0] for one in rounds),
        "least_library_ms": min(one[1][0] for one in rounds),
        "sdk_modules": rounds[0][0][1],
        "library_modules": rounds[0][1][1],
    }


def _imported(names: str) -> tuple[float, int]:
    """The milliseconds that importing takes a fresh interpreter, and the number of modules it has then."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _TIMED.format(names)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, modules = ended.stdout.split()
    return 1000 * float(seconds), int(modules)
