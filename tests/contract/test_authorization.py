"""What the keys of an entity's authorization rules open, as the unmodified SDK's user meets it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.servicebus import ServiceBusMessage
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError
from azure.servicebus.management import AccessRights, AuthorizationRule

pytestmark = pytest.mark.contract

KEY = "a2V5IG9mIGEgcnVsZSwgdGhpcnR5LXR3byBieXRlcyE="
RIGHTS = {"reader": [AccessRights.LISTEN], "writer": [AccessRights.SEND]}


def rule(name: str, **keys: str) -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=RIGHTS[name],
        key_name=name,
        **keys,
    )


@pytest.fixture(scope="module")
def queue(administration: Any) -> Iterator[str]:
    """A queue with a rule to read and one to write, and another queue below its name."""
    name = f"contract/{uuid4().hex}"
    rules = [rule(each, primary_key=KEY, secondary_key=KEY[::-1][1:] + "=") for each in RIGHTS]
    administration.create_queue(name, authorization_rules=rules)
    administration.create_queue(f"{name}/below")
    yield name
    administration.delete_queue(name)
    administration.delete_queue(f"{name}/below")


@pytest.fixture(scope="session")
def as_key(connection_string: str) -> Callable[..., str]:
    """The connection string with another key."""
    parts = [part for part in connection_string.strip(";").split(";") if not part.startswith("SharedAccess")]

    def make(name: str, key: str = KEY) -> str:
        return ";".join([*parts, f"SharedAccessKeyName={name}", f"SharedAccessKey={key}"])

    return make


@pytest.fixture
def connected(as_key, connect) -> Iterator[Callable[..., Any]]:
    clients: list[Any] = []

    def make(name: str, key: str = KEY) -> Any:
        clients.append(connect(as_key(name, key)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def send(client: Any, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def test_a_key_to_listen_receives_and_does_not_send(connected, client, queue):
    send(client, queue)
    reader = connected("reader")
    with reader.get_queue_receiver(queue) as receiver:
        assert receiver.peek_messages()
        [message] = receiver.receive_messages(max_wait_time=60)
        receiver.complete_message(message)
    with pytest.raises(ServiceBusAuthorizationError):
        send(reader, queue)


def test_a_key_to_send_sends_and_does_not_receive(connected, queue):
    writer = connected("writer")
    send(writer, queue)
    with writer.get_queue_sender(queue) as sender:
        numbers = sender.schedule_messages(ServiceBusMessage("x"), datetime.now(UTC) + timedelta(hours=1))
        sender.cancel_scheduled_messages(numbers)
    with pytest.raises(ServiceBusAuthorizationError), writer.get_queue_receiver(queue) as receiver:
        receiver.receive_messages(max_wait_time=1)


def test_the_second_key_of_a_rule_is_as_good_as_the_first(connected, queue):
    send(connected("writer", KEY[::-1][1:] + "="), queue)


@pytest.mark.parametrize(("name", "key"), [("writer", "d3Jvbmc="), ("nobody", KEY)], ids=["key", "name"])
def test_a_wrong_key_of_a_rule_opens_nothing(connected, queue, name, key):
    with pytest.raises(ServiceBusAuthenticationError):
        send(connected(name, key), queue)


def test_a_rule_opens_its_own_entity_only(connected, queue):
    with pytest.raises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
        send(connected("writer"), f"{queue}/below")


def test_a_rule_of_a_topic_is_for_its_subscriptions_too(administration, connected, client):
    topic = f"contract/{uuid4().hex}"
    administration.create_topic(topic, authorization_rules=[rule("reader", primary_key=KEY, secondary_key=KEY)])
    administration.create_subscription(topic, "audit")
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("x"))

    with connected("reader").get_subscription_receiver(topic, "audit") as receiver:
        received = receiver.receive_messages(max_wait_time=5)

    administration.delete_topic(topic)
    assert len(received) == 1


def test_a_rule_without_keys_gets_them(administration):
    name = f"contract/{uuid4().hex}"
    administration.create_queue(name, authorization_rules=[rule("reader")])
    [made] = administration.get_queue(name).authorization_rules
    administration.delete_queue(name)
    assert made.primary_key
    assert made.secondary_key
    assert made.primary_key != made.secondary_key


@pytest.mark.parametrize("prefix", ["", "sb://", "https://"])
def test_a_client_is_opened_again_with_a_key_that_was_changed_and_mended(connection_string, connect, queue, prefix):
    host, name, key, options = parts(connection_string)
    credential = AzureNamedKeyCredential(name, key)
    client = connect(prefix + host, credential, **options)

    def opened() -> None:
        with client:
            send(client, queue)

    opened()
    credential.update("wrong", "wrong")
    with pytest.raises(ServiceBusAuthenticationError):
        opened()
    credential.update(name, key)
    opened()


def test_a_signature_of_an_entity_opens_it(connection_string, connect, queue):
    host, name, key, options = parts(connection_string)
    signature = ServiceBusSharedKeyCredential(name, key).get_token(f"sb://{host}/{queue}").token
    local = ";UseDevelopmentEmulator=true" if options else ""
    with connect(host, AzureSasCredential(signature), **options) as client:
        send(client, queue)
    with connect(f"Endpoint=sb://{host}/;SharedAccessSignature={signature}{local}") as client:
        send(client, queue)


def parts(connection_string: str) -> tuple[str, str, str, dict[str, bool]]:
    """Host, name of the key, key, and the options of a client that is given a credential."""
    values = dict(part.split("=", 1) for part in connection_string.strip(";").split(";"))
    options = {"use_tls": False} if values.get("UseDevelopmentEmulator") == "true" else {}
    host = values["Endpoint"].removeprefix("sb://").strip("/")
    return host, values["SharedAccessKeyName"], values["SharedAccessKey"], options


def test_keys_of_a_rule_do_not_open_the_administration(administration_with, as_key, queue):
    with pytest.raises((ClientAuthenticationError, HttpResponseError)):
        administration_with(text=as_key("reader"), retry_total=0).get_queue(queue)
