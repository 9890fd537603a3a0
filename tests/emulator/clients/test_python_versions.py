"""azure-servicebus for Python in versions other than the project's, each in an environment of its own."""

import os
from pathlib import Path

import pytest

from tests.emulator.clients.conftest import serving
from tests.emulator.clients.installed import python_with

pytestmark = pytest.mark.nightly
PROGRAM = Path(__file__).parent / "python" / "walk.py"
VERSIONS = ("7.11.4", "7.12.3", "7.13.0", "7.14.3", "7.15.0")
AMQPS = 5671
"""The only port at which these versions speak TLS; older ones speak nothing else."""
OWN_LOOPBACK = f"127.76.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"


@pytest.fixture
def served_at_amqps(tmp_path):
    with serving(tmp_path, f"contoso:{AMQPS}", OWN_LOOPBACK) as served:
        yield served


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_of_the_sdk_does_all_its_steps(served_at_amqps, version):
    python = python_with(f"azure-servicebus=={version}", "azure-core<2", "aiohttp")
    text = served_at_amqps.namespace.connection_string.replace("UseDevelopmentEmulator=true;", "")
    printed = served_at_amqps.run([python, str(PROGRAM)], text.replace(f":{AMQPS}", ""), SERVICEBUS_PORT=str(AMQPS))
    assert printed.splitlines()[-1] == "passed 16"
