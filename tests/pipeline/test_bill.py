"""From records of usage to the bill: the command, the job in this process, the stored rows, the file and the report.

docs/specification.md, section 10; docs/costs.md. The job in a process and a JVM of its own is a part of the demo.
"""

import csv
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from django.core.management import call_command
from pyspark.sql import SparkSession

from dashboard.fleet.state import projection
from dashboard.models import Charge, ChargeRun, Invoice, Outage
from emulator.running import RunningNamespace, running
from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.events import Event
from pairing.telemetry.metering import UsageRecord
from pipeline.jobs import charges
from tests.dashboard.costs.test_costs_command import write_usage
from tests.dashboard.markup import costs_of
from tests.pace import eventually
from tests.workers.conftest import close_connections, fleet, without_pauses
from tests.workers.readings import Readings, of_money
from workers import usage

__all__ = ["close_connections", "fleet", "without_pauses"]
pytestmark = [pytest.mark.django_db, pytest.mark.spark]
# What the library calls by purpose, a namespace counts by what it saw.
SEEN_AS = {
    "send_backlog": "send",
    "syphon_send": "send",
    "syphon_receive": "receive",
    "syphon_receive_empty": "receive_empty",
    "syphon_settle": "settle",
}

Namespaces = Mapping[str, RunningNamespace]


@pytest.fixture(autouse=True)
def job_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    """The job runs in this process, on the session of these tests."""

    def run(_: str, arguments: Sequence[str], on_progress: Callable[[dict[str, Any]], None], *_usage: str) -> None:
        def progress(stage: str, share: float, rows: int) -> None:
            on_progress({"stage": stage, "share": share, "rows": rows})

        charges.run(charges.parser().parse_args(arguments), progress)

    monkeypatch.setattr("dashboard.costs.runs.charges.run_job", run)
    monkeypatch.setattr(charges, "_sessions", lambda progress: nullcontext(lambda rows: spark))
    settings.STATE_DIR = tmp_path


def test_a_month_is_computed_stored_and_written_as_csv_although_much_is_unusable_if_that_is_requested(tmp_path, capsys):
    write_usage(tmp_path)
    (tmp_path / "usage" / "date=2026-10-01" / "broken.parquet").touch()
    output = tmp_path / "charges.csv"
    wanted = {"month": "2026-10", "usage": str(tmp_path), "rule": "settlements", "max_quarantined": "1"}
    call_command("compute_charges", **wanted, output=output)
    run = ChargeRun.objects.get()
    assert run.details["counts"]["rejected"]
    assert (run.status, run.details["counts"]["accepted"]) == (ChargeRun.Status.SUCCEEDED, 3)
    # 24,011,160 operations, 13 million of them included: 8.81 and the base charge of 10.00
    assert {(each.rule, each.cents) for each in Invoice.objects.all()} == {("settlements", 1_881)}
    with output.open() as text:
        rows = list(csv.DictReader(text))
    assert sum(round(float(row["charge"]) * 100) for row in rows) == 1_881
    assert {row["kind"]: row["included_units"] for row in rows} == {
        "send": "8003720", "receive": "4996280", "settle": "0", "connections": "0", "base": "0",
    }  # fmt: skip
    said = capsys.readouterr()
    assert "sub: 18.81 USD (settlements)" in said.out
    assert any("3 rows" in line for line in said.err.splitlines())


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
