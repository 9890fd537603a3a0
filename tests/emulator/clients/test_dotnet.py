"""Azure.Messaging.ServiceBus for .NET: a program made of it, which is not built here, walks its own steps."""

import os

import pytest

pytestmark = pytest.mark.slow
CLIENT = os.environ.get("NET_CLIENT")


@pytest.mark.skipif(CLIENT is None, reason="The steps of .NET need NET_CLIENT, the path of a program made of its SDK.")
def test_service_bus_for_dotnet_does_all_its_steps_but_transactions(served):
    printed = served.run([CLIENT, "steps", served.namespace.connection_string], status=1).splitlines()
    failed = [line.split(" ", 2)[1] for line in printed if line.startswith("FAIL")]
    assert (failed, printed[-1]) == (["transaction:", "transaction:", "transaction"], "NET 33 ok, 3 failed")
