"""The fixtures we ship, as a stranger uses them: in a project of their own (docs/emulator.md)."""

import subprocess
import sys
from pathlib import Path

CONFTEST = """
import pytest

pytest_plugins = ["emulator.testing"]

@pytest.fixture(scope="session")
def emulator_entities():
    return ["contoso/orders", "contoso/topic:shipments/audit"]
"""
TESTS = """
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError
import pytest

def test_a_message_arrives(servicebus_namespace):
    with ServiceBusClient.from_connection_string(servicebus_namespace.connection_string, retry_total=0) as client:
        with client.get_queue_sender("orders") as sender:
            servicebus_namespace.fault("send", "reject", condition="com.microsoft:server-busy", count=1)
            with pytest.raises(ServiceBusServerBusyError):
                sender.send_messages(ServiceBusMessage("x"))
            sender.send_messages(ServiceBusMessage("x"))
    assert servicebus_namespace.stats()["orders"]["enqueued"] == 1

def test_faults_of_the_test_before_are_gone(servicebus_pair):
    assert [namespace.faults() for namespace in servicebus_pair] == [[], []]
    assert [namespace.name for namespace in servicebus_pair] == ["contoso", "contoso-dr"]
"""


def test_the_fixtures_work_in_a_project_of_ones_own(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(TESTS)
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:django"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 passed" in run.stdout, run.stdout + run.stderr
