"""The emulator as a process: its command line, its ports, bad clients, drills, throttling (docs/emulator.md)."""

import contextlib
import json
import socket
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusServerBusyError

from amqp10.frames import SASL_FRAME, frame
from amqp10.performatives import SaslInit, encode_performative
from emulator.running import running
from tests import forked
from tests.contract.worlds import take
from tests.pace import eventually

GREETING = b"AMQP\x03\x01\x00\x00"
SASL_INIT = frame(0, encode_performative(SaslInit("ANONYMOUS", b"", "host")), SASL_FRAME)


def emulator(*arguments):
    return forked.run(("-m", "emulator", *arguments), {})


def port_of(namespace):
    return int(namespace.url.rpartition(":")[2])


@pytest.fixture(scope="module")
def local():
    with running("contoso", entities=["contoso/orders", "contoso/topic:shipments/audit"]) as namespaces:
        yield namespaces["contoso"]


@pytest.fixture
def connect(local):
    """Opens plain sockets to the namespace."""
    opened = []

    def connect():
        opened.append(socket.create_connection(("127.0.0.1", port_of(local)), timeout=60))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def is_ended(connection):
    """Whether the other side ends the connection; waits for it."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def read_until(connection, wanted):
    """What comes on a connection until these bytes are among it."""
    data = b""
    while wanted not in data and (more := connection.recv(4096)):
        data += more
    return data


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--namespace", "contoso"], "--namespace contoso is not understood"),
        (["--namespace", "contoso:99999"], "--namespace contoso:99999 is not understood"),
        (["--namespace", "a:0", "--namespace", "a:0"], "a name of its own"),
        (["--namespace", "a:0", "--entity", "b/orders"], "--entity b/orders is not understood"),
        (["--namespace", "a:0", "--host", "0.0.0.0"], "need a key of your own"),
        (["--namespace", "a:0", "--key-file", "/nowhere/key"], "cannot be read"),
        (["--namespace", "a:0", "--key", "a;b"], "semicolon"),
        (["--namespace", "a:0", "--tls-key", "k.pem"], "--tls-key needs --tls-cert"),
        (["--namespace", "a:0", "--tls-cert", "/nowhere/c.pem"], "cannot be used"),
        (["--namespace", "a:0", "--fault-schedule", "/nowhere/f.json"], "cannot be read"),
        (["--namespace", "a:0", "--throttle", "0"], "above zero"),
        (["--namespace", "a:0", "--host", "256.1.1.1", "--key", "k"], "cannot listen"),
    ],
)
def test_what_cannot_be_followed_is_reported_in_one_sentence(arguments, sentence):
    ended = emulator(*arguments)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_a_port_in_use_is_reported_in_one_sentence(local):
    ended = emulator("--namespace", f"other:{port_of(local)}")
    assert ended.returncode == 2
    assert "cannot listen" in ended.stderr
    assert "choose another port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_key_is_never_in_the_arguments_when_it_comes_from_a_file(tmp_path):
    key = tmp_path / "key"
    key.write_text("secret-of-mine\n")
    with running("contoso", entities=["contoso/orders"], arguments=["--key-file", str(key)]) as namespaces:
        assert ";SharedAccessKey=secret-of-mine;" in namespaces["contoso"].connection_string
        assert "secret-of-mine" not in repr(namespaces)
        with (
            ServiceBusClient.from_connection_string(namespaces["contoso"].connection_string) as client,
            client.get_queue_sender("orders") as sender,
        ):
            sender.send_messages(ServiceBusMessage("x"))


def test_statistics_name_every_entity(local):
    stats = local.stats()
    assert {"orders", "shipments", "shipments/Subscriptions/audit"} <= set(stats)
    assert set(stats["orders"]) >= {
        "enqueued", "delivered", "completed", "dead_lettered", "expired", "pings_swallowed", "active", "operations",
    }  # fmt: skip


def test_billable_operations_are_counted_by_kind(local):
    with running("bill", entities=["bill/orders"]) as namespaces:
        bill = namespaces["bill"]
        with ServiceBusClient.from_connection_string(bill.connection_string) as client:
            with client.get_queue_sender("orders") as sender:
                sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
                sender.send_messages(ServiceBusMessage(b"x" * 70 * 1024))
                sender.send_messages(ServiceBusMessage(b"", content_type="application/vnd.ms-servicebus-ping"))
            with client.get_queue_receiver("orders") as receiver:
                messages = take(receiver, 3)
                receiver.renew_message_lock(messages[0])
                for message in messages:
                    receiver.complete_message(message)
                assert receiver.receive_messages(1, max_wait_time=2) == []
        stats = bill.stats()["orders"]
        assert stats["billable"] == {"send": 4, "ping": 1, "receive": 4, "manage": 1, "settle": 3, "receive_empty": 1}
        assert stats["operations"] == sum(stats["billable"].values())


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/$emulator/nothing", None, 404),
        ("PUT", "/$emulator/faults", None, 405),
        ("DELETE", "/$emulator/faults/nothing", None, 404),
        ("POST", "/$emulator/faults", b"{", 400),
        ("POST", "/$emulator/faults", b"[" * 100_000, 400),
        ("POST", "/$emulator/faults", b"[]", 400),
        ("GET", "/orders", None, 401),
    ],
)
def test_wrong_requests_are_answered_with_their_status(local, method, path, body, status):
    request = urllib.request.Request(local.url + path, body, method=method)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    with caught.value as error:
        assert error.code == status


def test_beyond_the_loopback_the_interface_asks_for_the_key():
    with running("open", entities=["open/orders"], arguments=["--host", "0.0.0.0", "--key", "mine"]) as namespaces:
        namespace = namespaces["open"]
        assert namespace.faults() == []
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{namespace.url}/$emulator/faults", timeout=60)
        with caught.value as error:
            assert error.code == 401


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03",
        b"AMQPxxxx",
        b"\x16\x03\x01\x00\x05hello",
        b"GET / HTTP/9\r\n\r\n",
        b"GET /" + b"x" * 100_000,
        GREETING + b"\x00\x00\x00\x01\x02\x01\x00\x00",
        GREETING + b"\xff\xff\xff\xff\x02\x01\x00\x00",
    ],
    ids=["noise", "another AMQP", "TLS without a certificate", "another HTTP", "endless head",
         "tiny frame", "huge frame"],
)  # fmt: skip
def test_bad_bytes_end_only_their_own_connection(connect, local, data):
    bystander = connect()
    bystander.sendall(GREETING)
    assert bystander.recv(8) == GREETING
    bad = connect()
    bad.sendall(data)
    assert is_ended(bad)
    assert "orders" in local.stats()
    bystander.sendall(SASL_INIT)
    assert b"\x00\x53\x44" in read_until(bystander, b"\x00\x53\x44")


def test_a_thousand_connections_at_once_are_served(connect, local):
    sockets = [connect() for _ in range(300)]
    for each in sockets:
        each.sendall(GREETING)
    assert all(each.recv(8) == GREETING for each in sockets)
    assert "orders" in local.stats()


@contextmanager
def sending(*arguments):
    """A namespace with these arguments and a sender of its queue `orders`."""
    with (
        running("drill", entities=["drill/orders"], arguments=arguments) as namespaces,
        ServiceBusClient.from_connection_string(namespaces["drill"].connection_string, retry_total=0) as client,
        client.get_queue_sender("orders") as sender,
    ):
        yield namespaces["drill"], sender


def test_a_fault_schedule_begins_and_ends_faults_by_itself(tmp_path):
    schedule = tmp_path / "drill.json"
    fault = {"operation": "send", "effect": "reject", "condition": "com.microsoft:server-busy"}
    schedule.write_text(json.dumps([{"at_s": 0, "namespace": "drill", "fault": fault}, {"at_s": 10, "clear": True}]))
    with sending("--fault-schedule", str(schedule)) as (namespace, sender):
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("x"))
        eventually(lambda: not namespace.faults(), every_s=0.1)
        sender.send_messages(ServiceBusMessage("x"))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("{}", "no list"),
        ("[{}]", "at_s"),
        ('[{"at_s": 1}]', "either a fault"),
        ('[{"at_s": 1, "clear": true, "namespace": "x"}]', "no namespace"),
        ('[{"at_s": 1, "fault": {"operation": "send", "effect": "refuse"}}]', "no meaning"),
        ('[{"at_s": NaN, "clear": true}]', "at_s"),
        ("[", "no JSON"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_reported_before_the_start(tmp_path, steps, reason):
    schedule = tmp_path / "drill.json"
    schedule.write_text(steps)
    ended = emulator("--namespace", "a:0", "--fault-schedule", str(schedule))
    assert (ended.returncode, reason in ended.stderr) == (2, True), ended.stderr


def test_a_throttled_namespace_is_busy_for_senders_and_receivers_and_recovers():
    with sending("--throttle", "10") as (namespace, sender):
        sender.send_messages([ServiceBusMessage("x") for _ in range(80)])  # eight seconds' worth is owed from now on
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("x"))
        with ServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0) as client:
            with client.get_queue_receiver("orders") as receiver, pytest.raises(ServiceBusError):
                receiver.receive_messages(40, max_wait_time=2)
            received = []

            def taken():
                with contextlib.suppress(ServiceBusError), client.get_queue_receiver("orders") as receiver:
                    for message in receiver.receive_messages(40, max_wait_time=1):
                        receiver.complete_message(message)
                        received.append(message)
                return len(received) >= 40

            eventually(taken, every_s=0.5)


def test_a_call_to_the_administration_costs_a_throttled_namespace_ten_credits():
    with sending("--throttle", "1") as (namespace, _):
        answers = []
        for _call in range(2):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(namespace.url + "/orders", timeout=60)
            with refused.value as answer:
                answers.append(answer.code)
    assert answers == [401, 503]  # the first, unsigned as it is, has used up ten seconds' worth
