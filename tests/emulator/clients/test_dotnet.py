"""Azure.Messaging.ServiceBus for .NET: a program made of it, which is not built here, walks its own steps."""

import pytest

from tests.emulator.clients.programs import NET_CLIENT
from tests.selection import nightly

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NET_CLIENT is None, reason="The steps of .NET need NET_CLIENT, a program made of its SDK."),
]


@pytest.mark.parametrize("way", [None, *nightly([], ["--websockets"])], ids=["plain", "TLS", "TLS, WebSockets"])
def test_service_bus_for_dotnet_does_all_its_steps(served, way):
    """Without the hint that this is an emulator the SDK uses TLS, and only an endpoint of its own may have a port."""
    named = served.namespace.connection_string
    place = served.over_tls.partition(";")[0].removeprefix("Endpoint=")
    options = [] if way is None else ["--endpoint", place, *way]
    printed = served.run([NET_CLIENT, "steps", named, *options])
    assert printed.splitlines()[-1] == "NET 36 ok, 0 failed"
