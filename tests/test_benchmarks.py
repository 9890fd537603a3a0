"""Each benchmark starts, at a small size, by the command of `make bench`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import names
from tests.benchmarks.processes import SMALL

ROOT = Path(__file__).resolve().parent.parent


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
