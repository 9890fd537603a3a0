"""Programs made of SDKs for other languages walk their numbered steps through a gateway, with a key of the gateway."""

import re

import pytest

from tests.administration import administration_of
from tests.emulator.clients.programs import command
from tests.emulator.clients.test_programs import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
JMS_STEPS = 45


def walked(served, plain, name):
    administered = served.namespace.connection_string
    printed = served.run(command(name), plain.connection_string, ADMINISTRATION_CONNECTION_STRING=administered)
    return int(re.search(r"^# pass (\d+)$", printed, re.MULTILINE)[1])


@pytest.mark.parametrize("name", ["Go", "Java"])
def test_an_sdk_of_another_language(served, plain, name):
    assert walked(served, plain, name) == STEPS[name]


def test_qpid_jms(served, plain):
    prepare_jms(served)
    assert walked(served, plain, "JMS") == JMS_STEPS


def prepare_jms(served):
    """Its entities: it has no administration."""
    with administration_of(served.namespace.connection_string) as administration:
        administration.create_queue("jms", max_delivery_count=3, lock_duration="PT5S")
        administration.create_queue("jms-other")
        administration.create_queue("jms-sessions", requires_session=True)
        administration.create_topic("jms-topic")
        administration.create_subscription("jms-topic", "all")
