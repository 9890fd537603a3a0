"""Azure.Messaging.ServiceBus for .NET: a program made of it, which is not built here, walks its own steps."""

import os

import pytest

CLIENT = os.environ.get("NET_CLIENT")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CLIENT is None, reason="The steps of .NET need NET_CLIENT, the path of a program made of its SDK."
    ),
]


def last_line(served, *options):
    return served.run([CLIENT, "steps", served.namespace.connection_string, *options]).splitlines()[-1]


def test_service_bus_for_dotnet_does_all_its_steps(served):
    assert last_line(served) == "NET 36 ok, 0 failed"


@pytest.mark.nightly
@pytest.mark.parametrize("way", [[], ["--websockets"]], ids=["TCP", "WebSockets"])
def test_service_bus_for_dotnet_does_all_its_steps_over_tls(served, way):
    """Without the hint that this is an emulator the SDK uses TLS, and only an endpoint of its own may have a port."""
    address = served.namespace.connection_string.partition("sb://")[2].partition(";")[0]
    assert last_line(served, "--endpoint", f"sb://{address.replace('127.0.0.1', 'localhost')}", *way) == (
        "NET 36 ok, 0 failed"
    )
