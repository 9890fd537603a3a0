"""azure-servicebus for Python in versions before the project's, each in an environment of its own: `tests/contract`."""

import os
from pathlib import Path

import pytest

from tests.emulator.clients.conftest import serving
from tests.emulator.clients.installed import python_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]
CONTRACT = ROOT / "tests" / "contract"
VERSIONS = ("7.11.4", "7.12.3", "7.13.0", "7.14.3")
AMQPS = 5671
"""The only port at which these versions speak TLS; older ones speak nothing else."""
OWN_LOOPBACK = f"127.76.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
FILES = ("queue_messages", "queue_properties", "queue_schedules", "queue_settlement", "sessions", "topics")
FILES += ("administration_queues", "administration_topics")
LEFT_OUT = (
    "whatever_the_page",  # other files make queues meanwhile; these versions do not list sessions
    "receiving_and_deleting_in_a_session",  # they do not list sessions
    "counts_its_subscriptions",  # they do not read the counts of filters
    "prefetched",  # they do not give back what was prefetched
    "could_not_be_opened or receivers_at_work_together",  # they wait a minute for a session that there is not
)


@pytest.fixture
def served_at_amqps(tmp_path):
    with serving(tmp_path, f"contoso:{AMQPS}", OWN_LOOPBACK) as served:
        yield served


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_of_the_sdk_gets_what_the_contract_promises(served_at_amqps, version):
    python = python_with(f"azure-servicebus=={version}", "azure-core<2", "aiohttp", "pytest", "pytest-xdist")
    text = served_at_amqps.namespace.connection_string.replace("UseDevelopmentEmulator=true;", "")
    options = ["-c", os.devnull, "--rootdir", str(ROOT), "--confcutdir", str(CONTRACT), "-p", "no:cacheprovider"]
    options += ["-p", "tests.emulator.clients.older_sdk", "-n", str(len(FILES)), "--dist", "loadfile"]
    options += ["-q", "-k", f"not ({' or '.join(LEFT_OUT)})"]
    printed = served_at_amqps.run(
        [python, "-m", "pytest", *options, *(str(CONTRACT / f"test_{file}.py") for file in FILES)],
        text.replace(f":{AMQPS}", ""),
        SERVICEBUS_HOST=OWN_LOOPBACK,
        SERVICEBUS_PORT=str(AMQPS),
        PYTHONPATH=str(ROOT),
    )
    assert " passed" in printed.splitlines()[-1]
