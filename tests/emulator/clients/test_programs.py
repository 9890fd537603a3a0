"""Programs made of SDKs for other languages walk their numbered steps."""

import re

import pytest
from azure.servicebus.management import AuthorizationRule

from tests.administration import administration_of
from tests.emulator.clients.programs import command

pytestmark = pytest.mark.slow
STEPS = {"Go": 48, "Java": 56, "Java of 2024": 56}
GENERAL = {"JMS": 45, "Rust": 41, "qpid-proton": 7}
LIVE_IN_GO = 230
DIFFERENT_FOR_GO = {
    "TestAMQPLinksCBSLinkStillOpen",
    *(f"TestAdminClient_{name}" for name in ("CreateQueue_Standard", "QueueWithMaxValues", "UpdateQueue")),
    *(f"TestAdminClient_{name}" for name in ("TopicAndSubscription_Standard", "UpdateTopic")),
    *(f"TestAdminClient_{name}" for name in ("Forwarding", "Queue_Forwarding")),
    *(f"TestAdminClient_LackPermissions_{name}" for name in ("Queue", "Subscription", "Topic")),
    "TestNewClientUsingSharedAccessSignature",
    "TestSender_SendAMQPMessageWithMultipleByteSlicesInData",
}
"""Tests of azservicebus that the namespace does not pass, for reasons in docs/emulator-compared.md."""


@pytest.fixture
def walked(served):
    """Runs a program; returns the number of steps that passed."""

    def walk(name, connection_string=None, **environment):
        printed = served.run(command(name), connection_string, **environment)
        return int(re.search(r"^# pass (\d+)$", printed, re.MULTILINE)[1])

    return walk


@pytest.mark.parametrize("name", ["Go", "Java"])
def test_an_sdk_of_another_language_walks_one_step_of_each_kind(walked, name):
    assert walked(name, STEPS="10") == 10


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["Go", "Java"])
def test_an_sdk_of_another_language_walks_all_its_steps(walked, name):
    assert walked(name) == STEPS[name]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "way"), [("Go", {}), ("Java", {}), ("Java", {"OVER_WEBSOCKETS": "1"}), ("Java of 2024", {})]
)
def test_an_sdk_of_another_language_walks_all_its_steps_over_tls(walked, served, name, way):
    assert walked(name, served.over_tls, **way) == STEPS[name]


@pytest.mark.nightly
def test_the_live_tests_of_go_pass_but_for_known_differences(served):
    text = served.namespace.connection_string
    keys = {"": "RootManageSharedAccessKey", "_NO_MANAGE": "SendOnly", "_SEND_ONLY": "SendOnly"}
    keys |= {"_LISTEN_ONLY": "ListenOnly", "_PREMIUM": "RootManageSharedAccessKey"}
    key = "Endpoint=sb://localhost/;SharedAccessKeyName={};SharedAccessKey=local"
    environment = {f"SERVICEBUS_CONNECTION_STRING{suffix}": key.format(name) for suffix, name in keys.items()}
    port = re.search(r":(\d+)", text)[1]
    environment |= {"SERVICEBUS_PORT": port, "SERVICEBUS_ENDPOINT": "localhost", "SERVICEBUS_ENDPOINT_PREMIUM": ""}
    with administration_of(text) as administration:
        rules = [rule(right) for right in ("Send", "Listen")]
        administration.create_queue("testQueue", authorization_rules=rules, lock_duration="PT5M")
        administration.create_queue("testQueueWithSessions", requires_session=True, lock_duration="PT5M")
    printed = served.run([*command("live tests of Go"), "Premium", "Test"], **environment)
    ends = re.findall(r"^--- (\w+): (\w+)", printed, re.MULTILINE)
    assert {name for end, name in ends if end == "FAIL"} == DIFFERENT_FOR_GO
    assert sum(end == "PASS" for end, _ in ends) >= LIVE_IN_GO


def rule(right):
    keys = {"primary_key": "local", "secondary_key": "local"}
    kind = {"type": "SharedAccessAuthorizationRule", "claim_type": "SharedAccessKey", "claim_value": "None"}
    return AuthorizationRule(**kind, **keys, rights=[right], key_name=f"{right}Only")


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "steps"), GENERAL.items())
def test_a_general_client_of_amqp_walks_all_its_steps_plain_and_over_tls(walked, served, name, steps):
    prepare(name, served)
    assert [walked(name), walked(name, served.over_tls)] == [steps, steps]


def prepare(name, served):
    """The entities of a client that has no administration."""
    with administration_of(served.namespace.connection_string) as administration:
        administration.create_queue(name, max_delivery_count=3, lock_duration="PT5S")
        administration.create_queue(f"{name}-other")
        administration.create_queue(f"{name}-sessions", requires_session=True)
        administration.create_topic(f"{name}-topic")
        administration.create_subscription(f"{name}-topic", "all")
