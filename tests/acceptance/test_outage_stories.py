"""The main job through whole processes: a primary goes away, applications go on sending, every message comes home.

docs/specification.md, sections 5 to 8 and 11; the demo's failover interval is 5 s, its ping interval 2 s.
"""

import csv
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.demo.stage import FAILOVER_INTERVAL_S, PING_INTERVAL_S, QUEUES
from pairing import emulator_transport
from pairing.backlog.administration import CREATED_WITH
from tests.acceptance.visitor import Demo, Visitor, eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]
OTHERS = tuple(queue for queue in QUEUES if queue != "orders")


@pytest.fixture(autouse=True)
def mended(visitor: Visitor) -> Iterator[None]:
    """Every story begins with a healthy primary and all messages at home."""
    yield
    visitor.demo_button("mend", "*")
    visitor.act("resume_syphon", path="*")
    everything_is_home(visitor)


def now() -> str:
    return datetime.now(UTC).isoformat()


def fails_over(visitor: Visitor, queue: str) -> None:
    eventually(lambda: visitor.state_of(queue) == "failed_over", FAILOVER_INTERVAL_S + 20, f"{queue} fails over")


def recovers(visitor: Visitor, queue: str) -> None:
    eventually(lambda: visitor.state_of(queue) == "healthy", 30, f"{queue} recovers")


def grows(visitor: Visitor, queue: str, book: str, by: int = 3, limit_s: float = 30) -> None:
    account = visitor.accounts[queue]
    before = account.count(book)
    eventually(lambda: account.count(book) >= before + by, limit_s, f"{book} of {queue} grows from {before} by {by}")


def everything_is_home(visitor: Visitor) -> None:
    for queue in QUEUES:
        recovers(visitor, queue)
    for queue, account in visitor.accounts.items():  # traffic flows on: what was accepted up to now has to arrive
        accepted = account.accepted()
        eventually(lambda b=account, a=accepted: not a & ~b.received(), 120, f"all messages of {queue} arrive")
        assert account.count("damaged") == 0


def test_an_entity_breaks_its_messages_take_the_detour_and_all_come_home(visitor: Visitor) -> None:
    begin, orders = now(), visitor.accounts["orders"]
    refused_elsewhere = {queue: visitor.accounts[queue].count("refused") for queue in OTHERS}
    refused = orders.count("refused")
    visitor.demo_button("break", "orders")
    eventually(lambda: visitor.state_of("orders") == "failing", 10, "orders is failing")
    eventually(lambda: orders.count("refused") > refused, 10, "sends raise while it is failing")
    fails_over(visitor, "orders")
    grows(visitor, "orders", "accepted", by=10)
    assert orders.outstanding() >= 5, "they wait in backlog queues"
    for queue in OTHERS:
        grows(visitor, queue, "received")
    one_process_pings(visitor, "orders")
    eventually(lambda: "failed over" in visitor.http.get("").text.lower(), 10, "the page says so")
    visitor.demo_button("mend", "orders")
    recovers(visitor, "orders")
    everything_is_home(visitor)
    reported = eventually(lambda: complete(visitor.kinds_of_events("orders", begin)), 10, "the events are reported")
    assert [reported.index(kind) for kind in ("failing", "failed_over", "recovered")] == sorted(
        reported.index(kind) for kind in ("failing", "failed_over", "recovered")
    )
    assert {queue: visitor.accounts[queue].count("refused") for queue in OTHERS} == refused_elsewhere


def one_process_pings(visitor: Visitor, queue: str) -> None:
    """Two workers and two senders together ping once per interval."""
    begin, before = time.monotonic(), visitor.pings_of(queue)

    def some() -> int | None:
        pings = visitor.pings_of(queue) - before
        return pings if pings >= 3 else None

    pings = eventually(some, 20, "pings are sent")
    assert pings <= (time.monotonic() - begin) / PING_INTERVAL_S + 1


def complete(reported: list[str]) -> list[str] | None:
    return reported if {"failing", "failed_over", "recovered"} <= set(reported) else None


@pytest.mark.parametrize(
    "how", ["silent", pytest.param("resets", marks=pytest.mark.nightly)]
)  # rejecting: see the killed worker
def test_the_whole_primary_goes_away_and_nothing_is_lost(visitor: Visitor, how: str) -> None:
    visitor.demo_button("break", "*", how)
    for queue in QUEUES:
        fails_over(visitor, queue)
    for queue in QUEUES:
        grows(visitor, queue, "accepted", by=5)
    visitor.demo_button("mend", "*")
    everything_is_home(visitor)


def test_an_operator_forces_a_failover_and_releases_it(visitor: Visitor) -> None:
    begin = now()
    visitor.act("fail_over", path="payments", reason="drill")
    eventually(lambda: visitor.state_of("payments") == "failed_over", 20, "the fleet knows")
    grows(visitor, "payments", "accepted", by=5)
    eventually(lambda: visitor.accounts["payments"].outstanding() >= 3, 10, "they wait in the backlog")
    eventually(lambda: "forced" in visitor.kinds_of_events("payments", begin), 10, "the event is reported")
    assert visitor.state_of("payments") == "failed_over", "accepted pings do not bring it back"
    visitor.act("release", path="payments", reason="drill is over")
    recovers(visitor, "payments")
    everything_is_home(visitor)
    assert "payments" in visitor.http.get("audit/").text


@contextmanager
def locks_that_last(running_demo: Demo, duration: timedelta) -> Iterator[None]:
    """What is received from the backlog meanwhile is locked for so long, instead of the minute of a backlog queue."""
    text = running_demo.environment["CONTOSO_SECONDARY"]
    with ServiceBusAdministrationClient.from_connection_string(text, transport=emulator_transport()) as administration:

        def change(to: timedelta) -> None:
            for queue in administration.list_queues():
                queue.lock_duration = to
                administration.update_queue(queue)

        change(duration)
        try:
            yield
        finally:
            change(CREATED_WITH["lock_duration"])


def test_a_worker_is_killed_in_the_middle_of_a_drain(visitor: Visitor, running_demo: Demo) -> None:
    visitor.act("pause_syphon", path="*", reason="let it pile up")
    visitor.demo_button("break", "*")
    for queue in QUEUES:
        fails_over(visitor, queue)
    eventually(lambda: outstanding(visitor) >= 200, 60, "a backlog piles up")
    visitor.demo_button("mend", "*")
    for queue in QUEUES:
        recovers(visitor, queue)
    waiting = outstanding(visitor)
    assert waiting >= 200, "a paused syphon moves nothing"
    with locks_that_last(running_demo, timedelta(seconds=15)):
        bring_home_with_a_death(visitor, waiting)
    eventually(lambda: len(running_demo.processes("celery", "worker-")) == 2, 20, "the worker comes back")


def bring_home_with_a_death(visitor: Visitor, waiting: int) -> None:
    """The drain begins, and whoever is at it is killed."""
    visitor.slow_down(0.5)
    visitor.act("resume_syphon", path="*")
    eventually(lambda: outstanding(visitor) < waiting, 20, "the drain has begun")
    killed = visitor.kill_the_holder_of_the_leases(20)
    assert outstanding(visitor) >= 50, "it was in the middle"
    visitor.demo_button("mend", "*")
    eventually(lambda: visitor.holder_of_the_leases() not in (None, killed), 15, "another worker takes over")
    everything_is_home(visitor)  # what the dead worker held comes back once its locks have lapsed


def outstanding(visitor: Visitor) -> int:
    return sum(account.outstanding() for account in visitor.accounts.values())


def test_the_cost_page_shows_this_month_by_entity_and_kind(visitor: Visitor) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    rows = list(csv.DictReader(io.StringIO(visitor.http.get("costs.csv", params={"month": month}).text)))
    assert {("orders", "send"), ("invoices/eu", "receive"), ("*", "base")} <= {
        (row["entity"], row["kind"]) for row in rows
    }
    page = visitor.http.get("costs/", params={"month": month})
    assert page.status_code == 200
    assert "invoices/eu" in page.text


def test_a_channel_is_tried_and_its_mail_is_a_file_of_the_demo(visitor: Visitor) -> None:
    visitor.try_channel("mail")
    mails = visitor.demo.folder / "state" / "mail"
    eventually(lambda: any("operator tries whether" in mail.read_text() for mail in mails.glob("*")), 60, "a mail")
