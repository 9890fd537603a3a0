"""The wheels in empty environments, used from an empty folder as strangers would.

All of it is nightly: an environment takes half a minute and a package index. What it could find by day, test_wheels
does: files, names, requirements. Python 3.12 to 3.14 are tried where WHEEL_PYTHONS or the PATH has them.
"""

from __future__ import annotations

import re
import shutil
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
    of_both = ("paired-namespaces", "paired-namespaces-control-plane", "paired-namespaces-gateway")
    return install(*of_both, "servicebus-amqp10", "servicebus-emulator")


def test_the_demo_runs_from_the_wheels_with_a_gateway(control_plane: Installed) -> None:
    has_gateway = shutil.which("npm") is not None
    variables = {"DEMO_PORT": str(free_port()), "DEMO_SECONDS": "5", "DEMO_GATEWAY": str(int(has_gateway))}
    printed = control_plane.run("paired-namespaces", "demo", **variables)

    assert re.search(r"^ready http://127", printed, re.MULTILINE), printed
    assert ("a gateway answers on port" in printed) == has_gateway
