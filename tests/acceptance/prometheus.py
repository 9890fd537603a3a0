"""Prometheus and promtool: those of the PATH, or unpacked beside this checkout's Python."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pace import GUARD

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.prefix) / "fallback")])
PROBLEM = "no Prometheus found (apt install prometheus, or run the tests with `make test`, which brings one)"


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is; the test is skipped (or fails, with REQUIRE_PROMETHEUS=1) without."""
    found = shutil.which(name, path=PATH)
    if found is None:
        (pytest.fail if os.environ.get("REQUIRE_PROMETHEUS") == "1" else pytest.skip)(PROBLEM)
    return found


def promtool(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """What promtool says."""
    command = [program("promtool"), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)


class Server:
    """A Prometheus that runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    def api(self, path: str, **query: str) -> Any:
        """The data of an answer; None while it does not answer."""
        url = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, expression: str) -> float | None:
        """The first value of an expression now; None where there is none."""
        data = self.api("query", query=expression)
        return float(data["result"][0]["value"][1]) if data and data["result"] else None

    def await_value(self, expression: str, seconds: float = 60) -> float:
        """The same, once there is one. Raises AssertionError."""
        until = time.monotonic() + GUARD * seconds
        while (found := self.value(expression)) is None:
            assert time.monotonic() < until, f"no value of {expression}"
            time.sleep(0.1)
        return found


@contextmanager
def running(configuration: Path, port: int) -> Iterator[Server]:
    """A server with a folder of its own, which scrapes as the configuration says."""
    listen = f"127.0.0.1:{port}"
    command = [
        program("prometheus"),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={configuration.parent / 'data'}",
        f"--web.listen-address={listen}",
        "--log.level=error",
    ]
    with subprocess.Popen(command, cwd=configuration.parent) as process:
        try:
            yield Server(f"http://{listen}")
        finally:
            process.terminate()
            process.wait(60)
