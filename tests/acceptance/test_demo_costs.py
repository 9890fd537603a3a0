"""The bill of the running demo: an outage is on the report, and its operations are those the namespaces counted.

docs/costs.md. The applications are stopped for it: two counters of traffic that goes on never agree.
"""

import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from dashboard.demo.configuration import secondary_of
from dashboard.demo.stage import PRIMARY, QUEUES
from tests.acceptance.demo_client import ROOT, Demo, DemoClient, eventually
from tests.acceptance.test_outage_stories import everything_is_home, fails_over, grows, recovers
from tests.pace import GUARD

pytestmark = [pytest.mark.acceptance, pytest.mark.spark, pytest.mark.timeout(900)]
# What the library calls by purpose, a namespace counts by what it saw.
SEEN_AS = {
    "send_backlog": "send",
    "syphon_send": "send",
    "syphon_receive": "receive",
    "syphon_receive_empty": "receive_empty",
    "syphon_settle": "settle",
}
FOR_FAILOVER = ("send_backlog", "ping", "syphon_receive", "syphon_receive_empty", "syphon_settle")
SECONDARY = secondary_of(PRIMARY)
NOT_COMPARED = {PRIMARY: ("manage", "receive_empty"), SECONDARY: ("manage",)}
"""Administration goes on: the control plane looks at its queues whatever the applications do. An application's receiver
that is closed while it waits ends a grant of credit that no call of the application saw: the namespace counts a few
empty receives more.
"""


@pytest.fixture(scope="module")
def demo_variables() -> dict[str, str]:
    """One of its own: nobody was killed in it, and nothing else is on its bill."""
    return {"DEMO_SECONDS": "3600"}


@contextmanager
def without_traffic(demo_client: DemoClient) -> Iterator[None]:
    """No application sends or receives any more, and all messages are home; they are started again afterwards."""
    demo = demo_client.demo
    demo.process.send_signal(signal.SIGSTOP)  # or it would start again what ends
    try:
        end(demo, "examples/sender.py")
        everything_is_home(demo_client)
        end(demo, "examples/receiver.py")
        yield
    finally:
        demo.process.send_signal(signal.SIGCONT)


def end(demo: Demo, program: str) -> None:
    """In order, so that each tells what it used."""
    for pid in demo.processes(program):
        assert pid > 1
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: not demo.processes(program), 60, f"{program} ends")


def counted(demo: Demo, namespace: str) -> dict[str, Counter[str]]:
    """What the namespace counted, by entity: billing units by kind."""
    variable = "CONTOSO_PRIMARY" if namespace == PRIMARY else "CONTOSO_SECONDARY"
    address = re.search(r"Endpoint=sb://([^;/]+)", demo.environment[variable])
    assert address
    answer = httpx.get(f"http://{address[1]}/$emulator/meter", trust_env=False).json()
    return {
        entity: Counter(
            {kind: used["billing_units"] for kind, used in kinds.items() if kind not in NOT_COMPARED[namespace]}
        )
        for entity, kinds in answer.items()
        if namespace == PRIMARY or entity.startswith(f"{PRIMARY}/")  # the demo has a queue of nobody's there
    }


def metered(demo: Demo) -> list[dict[str, Any]]:
    """The usage records on the disk, each with its highest seq."""
    newest: dict[str, dict[str, Any]] = {}
    for path in Path(demo.environment["USAGE_DIR"], "usage").rglob("date=*/[!_]*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            if row["seq"] >= newest.get(row["record_id"], row)["seq"]:
                newest[row["record_id"]] = row
    return list(newest.values())


def by_kind(rows: list[dict[str, Any]], namespace: str) -> Counter[str]:
    """Billing units as the namespace would call them."""
    units: Counter[str] = Counter()
    for row in rows:
        if row["namespace"] == namespace and row["kind"] not in NOT_COMPARED[namespace]:
            units[SEEN_AS.get(row["kind"], row["kind"])] += int(row["billing_units"])
    return +units


def agrees_with_the_disk(demo: Demo, namespace: str) -> None:
    """Waits until the last reports have gone through the stream into the files."""
    deadline = time.monotonic() + GUARD * 90
    while by_kind(metered(demo), namespace) != total(counted(demo, namespace)) and time.monotonic() < deadline:
        time.sleep(0.5)
    rows, seen = metered(demo), counted(demo, namespace)
    differing = {
        entity: (by_kind([row for row in rows if row["entity"] == entity], namespace), +kinds)
        for entity, kinds in seen.items()
    }
    reported = {entity: both for entity, both in differing.items() if both[0] != both[1]}
    assert by_kind(rows, namespace) == total(seen), f"{namespace}, metered and counted by entity: {reported}"


def total(entities: dict[str, Counter[str]]) -> Counter[str]:
    return +sum(entities.values(), Counter[str]())


@pytest.mark.nightly
def test_the_report_shows_a_mended_outage_and_its_operations_are_those_the_namespaces_counted(
    demo_client: DemoClient,
) -> None:
    demo = demo_client.demo
    demo_client.demo_button("break", "orders")
    fails_over(demo_client, "orders")
    grows(demo_client, "orders", "accepted")
    demo_client.demo_button("mend", "orders")
    recovers(demo_client, "orders")
    with without_traffic(demo_client):
        for namespace in (PRIMARY, SECONDARY):
            agrees_with_the_disk(demo, namespace)
        month = f"{datetime.now(UTC):%Y-%m}"
        words = [sys.executable, "manage.py", "compute_charges", "--month", month, "--rule", "settlements"]
        computed = subprocess.run(words, cwd=ROOT, env=os.environ | demo.environment, capture_output=True, text=True)
        assert computed.returncode == 0, computed.stderr
        seen = {namespace: counted(demo, namespace) for namespace in (PRIMARY, SECONDARY)}
        page = demo_client.http.get("costs/", params={"month": month}).text
        reported = demo_client.http.get("costs.csv", params={"month": month}).text

    charges = list(csv.DictReader(io.StringIO(reported)))
    for namespace, entities in seen.items():
        assert by_kind(charges, namespace) == total(entities)
    for queue in QUEUES:
        of_queue = [row for row in charges if row["entity"] == queue]
        assert by_kind(of_queue, PRIMARY) == +seen[PRIMARY][queue]

    assert "Outages and availability" in page
    because = sum(int(row["billing_units"]) for row in charges if row["kind"] in FOR_FAILOVER)
    assert because == total(seen[SECONDARY]).total() + total(seen[PRIMARY])["ping"]
    assert f"{because:,} operations caused only by failover" in " ".join(page.split())
    outage = re.search(r'<th scope="row">orders <small>contoso</small></th>.*?</tr>', page, re.DOTALL)
    assert outage
    assert re.search(r"Sent to the backlog: \d+", outage[0])
    assert re.search(r'data-label="Cost, USD">\s*\d+\.\d\d+\s*<', outage[0])
