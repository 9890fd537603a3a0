"""An outage from the first failed send to its row on the report: what is billed is what the namespaces counted.

docs/specification.md, section 10; docs/costs.md.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from django.core.management import call_command

from dashboard.fleet.state import projection
from dashboard.models import Charge, Outage
from emulator.running import RunningNamespace, running
from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.events import Event
from pairing.telemetry.metering import UsageRecord
from tests.dashboard.markup import costs_of
from tests.pace import eventually
from tests.workers.readings import Readings, of_money
from workers import usage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spark]
# What the library calls by purpose, a namespace counts by what it saw.
SEEN_AS = {
    "send_backlog": "send",
    "syphon_send": "send",
    "syphon_receive": "receive",
    "syphon_receive_empty": "receive_empty",
    "syphon_settle": "settle",
}


Namespaces = Mapping[str, RunningNamespace]


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    """A primary with the queue `orders`, and a secondary."""
    with running("contoso", "contoso-dr", entities=["contoso/orders"]) as both:
        yield both


def billed(namespace: RunningNamespace) -> Counter[str]:
    """Billing units by kind, of all entities."""
    units: Counter[str] = Counter()
    for kinds in namespace._call("GET", "meter").values():
        units.update({kind: used["billing_units"] for kind, used in kinds.items() if used["billing_units"]})
    return units


def an_outage(namespaces: Namespaces, redis_url: str) -> list[Event]:
    """Three messages, an outage with five, its end, and all eight received; what was reported meanwhile."""
    reported: list[Event] = []
    options = SendAvailabilityOptions(
        backlog_queue_count=2,
        primary_namespace="contoso",
        coordination=redis_url,
        failover_interval=timedelta(0),
        ping_primary_interval=timedelta(seconds=1),
    )
    strings = (namespace.connection_string for namespace in namespaces.values())
    with PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        client.on_event(reported.append)
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
            with namespaces["contoso"].faulty("send", "reject", entity="orders"):
                for _ in range(5):
                    send(sender)
        eventually(lambda: client.entity_health("orders").state == "healthy")
        stop = threading.Event()
        syphon = threading.Thread(target=Syphon(client).run, args=(stop,))
        syphon.start()
        try:
            receive(client, 8)
        finally:
            stop.set()
            syphon.join(60)
    return reported


def send(sender: Any) -> None:
    """One message of 70 KB, once more where the first failure was still the primary's."""
    try:
        sender.send_messages(ServiceBusMessage(b"x" * 71_680))
    except ServiceBusError:
        sender.send_messages(ServiceBusMessage(b"x" * 71_680))


def receive(client: PairedServiceBusClient, count: int) -> None:
    with client.get_queue_receiver("orders", max_wait_time=120) as receiver:
        for number, message in enumerate(receiver, start=1):
            receiver.complete_message(message)
            if number == count:
                return
    pytest.fail("not all messages came home")


def collected(fleet: redis.Redis, folder: Path) -> None:
    """What the client has reported, as the collector writes it."""
    entries = fleet.xrange("pairing:usage")
    usage.write([UsageRecord.from_json(fields["record"]) for _, fields in entries], str(folder))


def test_a_mended_outage_is_on_the_report_and_its_operations_are_those_the_namespaces_counted(
    fleet, redis_url, namespaces, tmp_path, settings, admin_client
):
    settings.PAIRS_FILE = tmp_path / "none.toml"
    reported = an_outage(namespaces, redis_url)
    counted = {name: billed(namespace) for name, namespace in namespaces.items()}
    projection.record_events(reported)
    collected(fleet, tmp_path)
    month = f"{datetime.now(UTC):%Y-%m}"
    call_command("compute_charges", month=month, usage=str(tmp_path), rule="settlements")

    charged: dict[str, Counter[str]] = {name: Counter() for name in counted}
    for charge in Charge.objects.filter(invoice__rule="settlements", namespace__in=counted):
        if charge.billing_units:
            charged[charge.namespace][SEEN_AS.get(charge.kind, charge.kind)] += charge.billing_units
    assert charged == counted

    outage = Outage.objects.get(entity="orders")
    assert outage.ended_at is not None
    assert {kind: units for kind, units in outage.units.items() if kind not in ("ping", "syphon_receive_empty")} == {
        "send_backlog": 10, "syphon_receive": 10, "syphon_send": 10, "syphon_settle": 5,
    }  # fmt: skip
    page = costs_of(admin_client, month=month)
    assert f"{outage.extra['settlements']:,}" in page
    assert "Outages and availability" in page

    pictures = Readings(admin_client)
    of_money(pictures)
    assert pictures.figures["operations of the month"]
    assert not pictures.differing
