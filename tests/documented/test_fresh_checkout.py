"""`make demo` in a fresh checkout without any cache: it serves before Spark is there, and says what it does meanwhile.

What the host's package manager installs is not taken away: redis-server and Java are as this machine has them.
"""

import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.documented.terminal import checkout, terminal
from tests.pace import GUARD
from tests.ports import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
MOST_S = 60
"""The promise, on a quiet machine with a package index nearby."""
STEP = re.compile(r"^ *(\d+\.\d) s  \S.*$", re.MULTILINE)


def has_spark(folder: Path) -> bool:
    """Whether the environment of the checkout can compute charges."""
    found = subprocess.run([folder / ".venv/bin/python", "-c", "import pyspark"], cwd=folder, capture_output=True)
    return found.returncode == 0


def test_the_demo_is_ready_within_a_minute_without_any_cache_and_installs_spark_afterwards(room: Path) -> None:
    port, folder = free_port(), checkout(room / "checkout")
    none = str(room / "caches")
    caches = {"XDG_CACHE_HOME": none, "UV_CACHE_DIR": f"{none}/uv", "PIP_CACHE_DIR": f"{none}/pip"}
    began = time.monotonic()
    with terminal(folder, {}, {**caches, "DEMO_PORT": str(port)}) as here:
        demo = here.serve("make demo")
        demo.until(lambda text: re.search(r"^ready http", text, re.MULTILINE), "the demo is ready")
        took = time.monotonic() - began
        assert not has_spark(folder)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=60) as page:
            assert page.status == 200

        before, _, _ = demo.text.partition("\nready http")
        seconds = [float(found) for found in STEP.findall(before)]
        assert len(seconds) > 5
        assert seconds == sorted(seconds)
        assert "messages arrive in every queue" in before
        assert "Spark" in before
        print(f"ready after {took:.1f} s:", before, sep="\n")
        assert took < GUARD * MOST_S
