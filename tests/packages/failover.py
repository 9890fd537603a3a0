"""A program of a user who has the library and the local namespace from their wheels: it sends through a failover."""

import sys
from datetime import timedelta

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

import emulator
import pairing
from emulator.running import running
from pairing import PairedServiceBusClient, SendAvailabilityOptions

assert all(sys.prefix in str(module.__file__) for module in (pairing, emulator)), "the checkout was imported"
options = SendAvailabilityOptions(
    primary_namespace="contoso",
    failover_interval=timedelta(0),
    backlog_queue_count=2,
    send_timeout=timedelta(seconds=5),
)
with running("contoso", "contoso-dr", entities=["contoso/orders"]) as namespaces:
    primary, secondary = namespaces["contoso"], namespaces["contoso-dr"]
    with (
        PairedServiceBusClient.from_connection_string(
            primary.connection_string, secondary.connection_string, options=options
        ) as client,
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage("to the primary"))
        primary.fault("send", "reject", entity="orders")
        for _ in range(20):
            try:
                sender.send_messages(ServiceBusMessage("to the secondary"))
                break
            except ServiceBusError as error:
                print("refused:", type(error).__name__)
    stored = [counters["active"] for path, counters in secondary.stats().items() if "x-servicebus-transfer" in path]
    print("primary", primary.stats()["orders"]["active"], "backlog", sum(stored))
