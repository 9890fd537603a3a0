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

def test_the_short_name_is_the_same_namespace(namespace, servicebus_namespace):
    assert namespace is servicebus_namespace
    with namespace.silent("orders"):
        assert [fault["effect"] for fault in namespace.faults()] == ["silent"]
    namespace.fault("send", "reject")

def test_faults_of_the_test_before_are_gone(servicebus_pair):
    assert [namespace.faults() for namespace in servicebus_pair] == [[], []]
    assert [namespace.name for namespace in servicebus_pair] == ["contoso", "contoso-dr"]
"""


def run_pytest(folder, *arguments):
    """What pytest prints that runs the tests of this folder."""
    root = Path(__file__).parents[2]
    few = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:django")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *few, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return run.stdout + run.stderr


def test_the_fixtures_work_in_a_project_of_ones_own(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(TESTS)
    assert "3 passed" in run_pytest(tmp_path)


INI = """
[pytest]
servicebus_config = Config.json
servicebus_entities =
    payments
    topic:shipments/audit
"""
CONFIG = '{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "queue.1"}]}]}}'
CONFIGURED = """
def test_the_entities_of_file_and_options_are_there(namespace, servicebus_pair):
    assert namespace.name == "sbemulatorns"
    assert "SharedAccessKey=SAS_KEY_VALUE;" in namespace.connection_string
    assert set(namespace.stats()) == {"payments", "queue.1", "shipments", "shipments/Subscriptions/audit"}
    assert [one.name for one in servicebus_pair] == ["sbemulatorns", "contoso-dr"]
"""


def test_options_of_the_ini_file_name_a_configuration_and_entities(tmp_path):
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "Config.json").write_text(CONFIG)
    (tmp_path / "test_mine.py").write_text(CONFIGURED)
    assert "1 passed" in run_pytest(tmp_path, "-p", "emulator.testing")
