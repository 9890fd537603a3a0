"""The wheels in empty environments, used from an empty folder as strangers would.

All of it is nightly: an environment takes half a minute and a package index. What it could find by day, test_wheels
does: files, names, requirements. Python 3.12 to 3.14 are tried where WHEEL_PYTHONS or the PATH has them.
"""

from __future__ import annotations

import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packages.environments import HERE, VERSIONS, Installed, installed, interpreter
from tests.ports import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
Install = Callable[..., Installed]


@pytest.fixture(scope="module", params=VERSIONS)
def install(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]
) -> Install:
    """Installs wheels by name, `name[extra]`, and packages of the index, with one interpreter."""
    python = interpreter(request.param)
    if python is None:
        assert request.param != HERE
        pytest.skip(f"there is no Python {request.param} here: name one in WHEEL_PYTHONS")

    def install(*names: str) -> Installed:
        found = []
        for name in names:
            package = name.partition("[")[0]
            found.append(f"{name} @ {wheels[package].as_uri()}" if package in wheels else name)
        return installed(python, tmp_path_factory.mktemp("installed"), found)

    return install


def test_the_library_alone_sends_through_a_failover_against_the_local_namespace(install: Install) -> None:
    environment = install("paired-namespaces", "servicebus-amqp10", "servicebus-emulator")

    printed = environment.run("python", Path(__file__).with_name("failover.py"))

    assert printed.splitlines()[-1] == "primary 1 backlog 1"
    code = "import sys, pairing; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = environment.run("python", "-c", code).split()
    assert not {"django", "celery", "redis", "emulator", "dashboard", "workers", "pipeline"} & set(loaded)


TESTS = """
def test_the_namespace_is_there(namespace):
    with namespace.silent("orders"):
        assert [fault["effect"] for fault in namespace.faults()] == ["silent"]
    assert set(namespace.stats()) == {"orders"}
"""


def test_the_local_namespace_alone_brings_its_command_and_its_fixtures(install: Install) -> None:
    environment = install("servicebus-amqp10", "servicebus-emulator", "pytest")

    assert environment.run("servicebus-emulator", "--help").startswith("usage: servicebus-emulator")
    (environment.folder / "test_mine.py").write_text(TESTS)
    assert "1 passed" in environment.run("pytest", "-q")
    # A project that named the plugin before the package brought it by itself.
    (environment.folder / "conftest.py").write_text('pytest_plugins = ["emulator.testing"]')
    assert "1 passed" in environment.run("pytest", "-q")
    assert "fixture 'namespace' not found" in environment.fails(
        "pytest", "-q", "-p", "no:emulator.testing", "-c", "/dev/null", "--noconftest"
    )


@pytest.fixture(scope="module")
def control_plane(install: Install) -> Installed:
    return install("paired-namespaces", "servicebus-amqp10", "servicebus-emulator", "paired-namespaces-control-plane")


def page(address: str, web: subprocess.Popen[str]) -> str:
    """What an address answers, redirections followed; waits until the process answers at all."""
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError:
            raise
        except OSError:
            assert web.poll() is None
            assert time.monotonic() < deadline


def test_the_control_plane_serves_its_pages_from_its_wheel(control_plane: Installed, redis_url: str) -> None:
    environment = {"REDIS_URL": redis_url}
    control_plane.run("paired-namespaces", "migrate", "-v0", **environment)
    assert "no issues" in control_plane.run("paired-namespaces", "check", **environment)
    assert (control_plane.folder / ".state" / "control-plane.sqlite3").exists()

    port = str(free_port())
    address = f"http://127.0.0.1:{port}"
    with control_plane.running("paired-namespaces", "web", "--port", port, **environment) as web:
        signing_in = page(f"{address}/", web)
        assert "Sign in" in signing_in
        static = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', signing_in))
        assert {Path(path).suffix.partition("?")[0] for path in static} >= {".css", ".js"}
        for path in static:
            assert page(f"{address}{path}", web)
        assert "csrfmiddlewaretoken" in page(f"{address}/admin/login/", web)


def test_worker_and_beat_are_commands_of_the_control_plane(control_plane: Installed, redis_url: str) -> None:
    assert "celery worker" in control_plane.run("paired-namespaces", "worker", "--help", REDIS_URL=redis_url)
    assert "celery beat" in control_plane.run("paired-namespaces", "beat", "--help", REDIS_URL=redis_url)


def test_the_demo_runs_from_the_wheel(control_plane: Installed) -> None:
    printed = control_plane.run("paired-namespaces", "demo", DEMO_PORT=str(free_port()), DEMO_SECONDS="5")

    assert re.search(r"^ready http://127", printed, re.MULTILINE), printed
