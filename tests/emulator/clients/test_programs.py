"""Programs made of SDKs for other languages walk their numbered steps."""

import re

import pytest

from tests.administration import administration_of
from tests.emulator.clients.programs import command

pytestmark = pytest.mark.slow
STEPS = {"Go": 48, "Java": 56, "Java of 2024": 56}


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
    """Without the hint that this is an emulator the SDKs use TLS; the name has to be that of the certificate."""
    text = served.namespace.connection_string.replace("UseDevelopmentEmulator=true;", "")
    assert walked(name, text.replace("127.0.0.1", "localhost"), **way) == STEPS[name]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "prefix", "steps"), [("JMS", "jms", 45), ("Rust", "rust", 41)])
def test_a_general_client_of_amqp_walks_all_its_steps(walked, served, name, prefix, steps):
    with administration_of(served.namespace.connection_string) as administration:
        administration.create_queue(prefix, max_delivery_count=3, lock_duration="PT5S")
        administration.create_queue(f"{prefix}-other")
        administration.create_queue(f"{prefix}-sessions", requires_session=True)
        administration.create_topic(f"{prefix}-topic")
        administration.create_subscription(f"{prefix}-topic", "all")
    assert walked(name) == steps
