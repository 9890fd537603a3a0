"""The local namespace in the place of Microsoft's emulator: its file, its ports, its connection strings, its health."""

import json
import os
import urllib.request

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

from emulator.command_line.arguments import UsageError, parse
from emulator.running import RESETTABLE, running
from tests.administration import administration_of

OWN_LOOPBACK = f"127.78.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
"""An address of this run's own, so that the fixed ports of Microsoft's emulator are free on it."""
CREDENTIAL = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
RULE = {"Name": "red", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "colour = 'red'"}}}
TOPIC = {"Name": "topic.1", "Subscriptions": [{"Name": "red", "Rules": [RULE]}, {"Name": "all"}]}
CONFIG = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "queue.1"}], "Topics": [TOPIC]}]}}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "Config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@pytest.fixture(scope="module")
def address(config):
    """The host of a namespace that was started with the file and nothing else."""
    with running("sbemulatorns:5672", arguments=["--config", config, "--host", OWN_LOOPBACK, "--admin-port", "5300"]):
        yield OWN_LOOPBACK


@pytest.fixture(scope="module")
def sending(address):
    """A client with the connection string that Microsoft documents."""
    with ServiceBusClient.from_connection_string(f"Endpoint=sb://{address};{CREDENTIAL}", retry_total=0) as client:
        yield client


def test_the_documented_connection_string_reaches_the_entities_of_the_file(sending):
    with sending.get_topic_sender("topic.1") as sender:
        sender.send_messages(
            [ServiceBusMessage(colour, application_properties={"colour": colour}) for colour in ("red", "blue")]
        )
    received = {}
    for name, number in (("red", 1), ("all", 2)):
        with sending.get_subscription_receiver("topic.1", name) as receiver:
            received[name] = [str(message) for message in receiver.receive_messages(number, max_wait_time=60)]
    assert received["red"] == ["red"]
    assert set(received["all"]) <= {"red", "blue"}


def test_the_administration_answers_on_its_own_port(address):
    with administration_of(f"Endpoint=sb://{address}:5300;{CREDENTIAL}") as administration:
        assert [queue.name for queue in administration.list_queues()] == ["queue.1"]
        assert [rule.name for rule in administration.list_rules("topic.1", "red")] == ["red"]


@pytest.mark.parametrize("port", [5672, 5300])
def test_its_health_is_answered_without_a_key(address, port):
    with urllib.request.urlopen(f"http://{address}:{port}/health", timeout=60) as answer:
        assert answer.status == 200
        assert json.load(answer)["status"] == "healthy"


def test_a_queue_named_health_is_administered_all_the_same():
    with (
        running("contoso", entities=["contoso/health"]) as namespaces,
        administration_of(namespaces["contoso"].connection_string) as administration,
    ):
        assert administration.get_queue("health").name == "health"


def ports(*arguments):
    """Namespaces with their ports, as arguments ask for them."""
    settings = parse(arguments)
    return [(one.name, one.port, one.administration_port) for one in settings.namespaces]


def test_the_file_alone_takes_the_ports_and_the_key_of_microsofts_emulator(config):
    assert ports("--config", config) == [("sbemulatorns", 5672, 5300)]
    assert parse(["--config", config]).key == "SAS_KEY_VALUE"
    assert parse(["--config", config, "--key", "mine"]).key == "mine"


def test_other_ports_can_be_given(config):
    assert ports("--config", config, "--namespace", "sbemulatorns:0") == [("sbemulatorns", 0, None)]
    assert ports("--config", config, "--admin-port", "0") == [("sbemulatorns", 5672, None)]
    assert ports("--config", config, "--admin-port", "5301") == [("sbemulatorns", 5672, 5301)]
    assert ports("--namespace", "a:0", "--namespace", "b:0", "--admin-port", "5300") == [("a", 0, 5300), ("b", 0, None)]
    assert ports("--namespace", "a:0", "--config", config) == [("a", 0, None), ("sbemulatorns", 5672, 5300)]


@pytest.mark.parametrize(
    ("namespaces", "reason"),
    [
        ([{"Name": "a"}, {"Name": "b"}], "--namespace b:0"),
        ([{"Name": "a"}, {"Name": "a"}], "a name of its own"),
        ([{"Name": "../a"}], "letters, digits and hyphens"),
        ([{"Name": "a", "Queues": [{}]}], "has no Name"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused(tmp_path, namespaces, reason):
    path = tmp_path / "Config.json"
    path.write_text(json.dumps({"UserConfig": {"Namespaces": namespaces}}))
    with pytest.raises(UsageError) as refused:
        parse(["--config", str(path)])
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "reason"), [([], "Nothing to run"), (["--namespace", "a:0", "--admin-port", "-1"], "up to 65535")]
)
def test_arguments_that_cannot_be_followed_are_refused(arguments, reason):
    with pytest.raises(UsageError, match=reason):
        parse(arguments)


@pytest.fixture(scope="module")
def faulty():
    with running("contoso", entities=["contoso/orders"]) as namespaces:
        yield namespaces["contoso"]


@pytest.mark.parametrize(
    ("fault", "active"),
    [
        (lambda namespace: namespace.busy("orders"), [("send", "reject", "orders")]),
        (lambda namespace: namespace.rejecting(), [("send", "reject", None)]),
        (lambda namespace: namespace.silent("orders"), [("send", "silent", "orders")]),
        (lambda namespace: namespace.losing_acknowledgements("orders"), [("send", "lose_ack", "orders")]),
        (lambda namespace: namespace.slow("orders", delay_s=60), [("send", "delay", "orders")]),
        (
            lambda namespace: namespace.unreachable(),
            [("connect", "refuse", None), *((operation, "reset", None) for operation in RESETTABLE)],
        ),
        (lambda namespace: namespace.faulty("send", "close", entity="orders"), [("send", "close", "orders")]),
    ],
    ids=["busy", "rejecting", "silent", "losing acknowledgements", "slow", "unreachable", "faulty"],
)
def test_a_fault_lasts_as_long_as_its_block(faulty, fault, active):
    with fault(faulty):
        assert [(one["operation"], one["effect"], one["entity"]) for one in faulty.faults()] == active
    assert faulty.faults() == []


def test_an_unreachable_namespace_takes_nothing_until_it_is_back(faulty):
    quickly = {"retry_total": 1, "retry_backoff_factor": 0.01}
    with ServiceBusClient.from_connection_string(faulty.connection_string, **quickly) as client:
        sender = client.get_queue_sender("orders")
        with faulty.unreachable(), pytest.raises(ServiceBusConnectionError):
            sender.send_messages(ServiceBusMessage("during"), timeout=60)
        sender.send_messages(ServiceBusMessage("after"))


def test_a_fault_ends_with_its_block_also_if_the_block_fails_or_has_removed_it(faulty):
    with pytest.raises(ZeroDivisionError), faulty.silent("orders"):
        raise ZeroDivisionError
    assert faulty.faults() == []
    with faulty.silent("orders"):
        faulty.mend()
