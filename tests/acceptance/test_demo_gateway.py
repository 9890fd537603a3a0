"""The demo with a gateway: an application in JavaScript sends through it, while the primary fails and is mended."""

import re
import shutil

import pytest

from pairing.fleet.presence import GatewayTraffic, Presences
from pairing.fleet.shared_state import SharedState
from tests.acceptance.demo_client import Demo, DemoClient, eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.acceptance,
    pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here"),
]


@pytest.fixture(scope="module")
def demo_variables() -> dict[str, str]:
    return {"DEMO_GATEWAY": "1"}


def test_an_application_in_javascript_sends_through_an_outage(running_demo: Demo, demo_client: DemoClient) -> None:
    def traffic() -> GatewayTraffic | None:
        living = Presences(SharedState(running_demo.redis(), "contoso")).living().values()
        return next((one.gateway for one in living if one.gateway), None)

    eventually(lambda: re.search(r"1 <small.*MSJSClient/7", demo_client.http.get("workers/").text), 60, "it is shown")
    demo_client.demo_button("break", "orders")
    eventually(lambda: (found := traffic()) and found.redirected > 5, 60, "messages are redirected")
    demo_client.demo_button("mend", "orders")
    eventually(lambda: demo_client.state_of("orders") == "healthy", 60, "the primary is healthy")
    at_mending = demo_client.accounts["orders"].accepted()
    eventually(lambda: not at_mending & ~demo_client.accounts["orders"].received(), 60, "all of them come home")
    assert demo_client.accounts["orders"].count("damaged") == 0
