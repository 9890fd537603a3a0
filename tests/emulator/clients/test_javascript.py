"""@azure/service-bus and rhea, as npm installs them: programs of our own that do all that they can do."""

import re

import pytest

from tests.administration import administration_of
from tests.emulator.clients.installed import JAVASCRIPT, node_packages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(served):
    """Runs a program of ours; returns the number of steps that passed."""
    packages = node_packages()

    def run(program, connection_string=None, steps=".", **environment):
        command = ["node", "--test-reporter=tap", f"--test-name-pattern={steps}", str(JAVASCRIPT / program)]
        printed = served.run(command, connection_string, CLIENT_PACKAGES=str(packages), **environment)
        return int(re.search(r"^# pass (\d+)$", printed, re.MULTILINE)[1])

    return run


def test_service_bus_for_javascript_does_one_step_of_each_kind(node):
    assert node("service_bus.mjs", steps="^(1|5|8|13|19|20|23|29|30|31) ") == 10


@pytest.mark.nightly
def test_service_bus_for_javascript_does_all_its_steps(node):
    assert node("service_bus.mjs") == 42


@pytest.mark.nightly
@pytest.mark.parametrize("way", [{}, {"OVER_WEBSOCKETS": "1"}], ids=["TCP", "WebSockets"])
def test_service_bus_for_javascript_does_all_its_steps_over_tls(node, served, way):
    assert node("service_bus.mjs", served.over_tls, **way) == 42


def test_rhea_does_all_its_steps(node, served):
    with administration_of(served.namespace.connection_string) as administration:
        administration.create_queue("sessions", requires_session=True)
    assert node("rhea.mjs") == 12
