"""Each benchmark starts, at a small size, by the command of `make bench`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.__main__ import names
from tests.benchmarks.processes import SMALL

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("overview", "search", "pair_with_charts", "entity_with_chart")
HOLDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "dashboard": lambda found: (
        max(found[page]["queries"] for page in ("overview", "search")) <= 13
        and min(found[page]["median_ms"] for page in PAGES) > 0
    ),
    "dashboard_live": lambda found: (
        0 < found["reported_all_ms"]["median"] <= found["on_the_page_ms"]["worst"] and found["pages"] == 5
    ),
}
"""What is true of the figures of any size."""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", names())
def test_a_benchmark_starts_at_a_small_size(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, SMALL: "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.benchmarks", "--output", tmp_path / "figures.json", name]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))[name]
    assert found
    assert HOLDS.get(name, bool)(found)
