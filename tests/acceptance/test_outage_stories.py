"""The main job through whole processes: a primary goes away, applications go on sending, every message comes home.

docs/specification.md, sections 5 to 8 and 11; the demo's failover interval is 5 s, its ping interval 2 s.
With SCREENSHOTS=folder the overview's four moments are kept as pictures (tests/pictures.py).
"""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient
from playwright.sync_api import Locator, Page, expect

from dashboard.demo.configuration import FAILOVER_INTERVAL_S, PING_INTERVAL_S
from dashboard.demo.stage import QUEUES
from pairing import emulator_transport
from pairing.backlog.administration import CREATED_WITH
from pairing.fleet.presence import Presences
from pairing.fleet.shared_state import SharedState
from tests.acceptance.demo_client import NO_JAVA, Demo, DemoClient, eventually
from tests.acceptance.test_drill_in_demo import Opened
from tests.pictures import keep_picture

pytestmark = [pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]
OTHERS = tuple(queue for queue in QUEUES if queue != "orders")
IN_TIME_MS = 120_000
WIDE = {"width": 1280, "height": 1000}


@pytest.fixture(autouse=True)
def mended(demo_client: DemoClient) -> Iterator[None]:
    """Every story begins with a healthy primary and all messages at home."""
    yield
    demo_client.demo_button("mend", "*")
    demo_client.act("resume_syphon", path="*")
    everything_is_home(demo_client)


def row_of(page: Page, entity: str) -> Locator:
    return page.locator(f'tr[data-entity="{entity}"]')


def in_state(page: Page, entity: str, state: str) -> None:
    expect(row_of(page, entity)).to_have_attribute("data-status", state, timeout=IN_TIME_MS)


def now() -> str:
    return datetime.now(UTC).isoformat()


def fails_over(demo_client: DemoClient, queue: str) -> None:
    eventually(lambda: demo_client.state_of(queue) == "failed_over", FAILOVER_INTERVAL_S + 20, f"{queue} fails over")


def recovers(demo_client: DemoClient, queue: str) -> None:
    eventually(lambda: demo_client.state_of(queue) == "healthy", 30, f"{queue} recovers")


def grows(demo_client: DemoClient, queue: str, book: str, by: int = 3, limit_s: float = 30) -> None:
    account = demo_client.accounts[queue]
    before = account.count(book)
    eventually(lambda: account.count(book) >= before + by, limit_s, f"{book} of {queue} grows from {before} by {by}")


def everything_is_home(demo_client: DemoClient) -> None:
    for queue in QUEUES:
        recovers(demo_client, queue)
    for queue, account in demo_client.accounts.items():  # traffic flows on: what was accepted up to now has to arrive
        accepted = account.accepted()
        eventually(lambda b=account, a=accepted: not a & ~b.received(), 120, f"all messages of {queue} arrive")
        assert account.count("damaged") == 0


def test_an_entity_breaks_its_messages_take_the_detour_and_all_come_home_seen_without_a_reload(
    demo_client: DemoClient, open_page: Opened
) -> None:
    page = open_page(viewport=WIDE)
    page.evaluate("window.neverReloaded = true")
    for queue in QUEUES:
        in_state(page, queue, "healthy")
    page.get_by_text("Demo: break contoso").click()
    expect(page.get_by_text("failover interval of 5 s")).to_be_visible()
    keep_picture(page, "overview-healthy")
    begin, orders = now(), demo_client.accounts["orders"]
    refused_elsewhere = {queue: demo_client.accounts[queue].count("refused") for queue in OTHERS}
    refused = orders.count("refused")
    page.get_by_role("button", name="Break orders").click()
    in_state(page, "orders", "failing")
    keep_picture(page, "overview-failing")
    eventually(lambda: orders.count("refused") > refused, 10, "sends raise while it is failing")
    fails_over(demo_client, "orders")
    in_state(page, "orders", "failed-over")
    expect(row_of(page, "orders").locator(".reason")).to_contain_text("amqp:internal-error")
    grows(demo_client, "orders", "accepted", by=10)
    assert orders.outstanding() >= 5, "they wait in backlog queues"
    expect(row_of(page, "orders").locator("td.num b")).to_have_text(re.compile("[1-9]"), timeout=IN_TIME_MS)
    keep_picture(page, "overview-failed-over")
    if shutil.which("npm"):
        an_application_in_javascript_sends_through_the_gateway(demo_client)
    for queue in OTHERS:
        grows(demo_client, queue, "received")
        in_state(page, queue, "healthy")
    one_process_pings(demo_client, "orders")
    page.get_by_role("button", name="Mend orders").click()
    in_state(page, "orders", "draining")
    keep_picture(page, "overview-draining")
    in_state(page, "orders", "healthy")
    expect(page.locator('tr[data-queue="orders"] td.num').nth(3)).to_have_text("0")  # missing
    assert page.evaluate("window.neverReloaded") is True
    everything_is_home(demo_client)
    reported = eventually(lambda: complete(demo_client.kinds_of_events("orders", begin)), 10, "the events are reported")
    assert [reported.index(kind) for kind in ("failing", "failed_over", "recovered")] == sorted(
        reported.index(kind) for kind in ("failing", "failed_over", "recovered")
    )
    assert {queue: demo_client.accounts[queue].count("refused") for queue in OTHERS} == refused_elsewhere


def an_application_in_javascript_sends_through_the_gateway(demo_client: DemoClient) -> None:
    presences = Presences(SharedState(demo_client.demo.redis(), "contoso"))

    def redirected() -> int:
        return sum(one.gateway.redirected for one in presences.living().values() if one.gateway)

    eventually(redirected, 60, "the gateway redirects messages")
    assert re.search(r"1 <small.*MSJSClient/7", demo_client.http.get("workers/").text)


def one_process_pings(demo_client: DemoClient, queue: str) -> None:
    """Two workers and two senders together ping once per interval."""
    begin, before = time.monotonic(), demo_client.pings_of(queue)

    def some() -> int | None:
        pings = demo_client.pings_of(queue) - before
        return pings if pings >= 3 else None

    pings = eventually(some, 20, "pings are sent")
    assert pings <= (time.monotonic() - begin) / PING_INTERVAL_S + 1


def complete(reported: list[str]) -> list[str] | None:
    return reported if {"failing", "failed_over", "recovered"} <= set(reported) else None


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["rejects", "resets"])  # silent: see the killed worker
def test_the_whole_primary_goes_away_and_nothing_is_lost(demo_client: DemoClient, how: str) -> None:
    demo_client.demo_button("break", "*", how)
    for queue in QUEUES:
        fails_over(demo_client, queue)
    for queue in QUEUES:
        grows(demo_client, queue, "accepted", by=5)
    demo_client.demo_button("mend", "*")
    everything_is_home(demo_client)


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


def test_a_worker_is_killed_in_the_middle_of_a_drain(demo_client: DemoClient, running_demo: Demo) -> None:
    demo_client.act("pause_syphon", path="*", reason="let it pile up")
    demo_client.demo_button("break", "*", "silent")
    for queue in QUEUES:
        fails_over(demo_client, queue)
    for queue in QUEUES:
        grows(demo_client, queue, "accepted", by=5)
    eventually(lambda: outstanding(demo_client) >= 200, 60, "a backlog piles up")
    demo_client.demo_button("mend", "*")
    for queue in QUEUES:
        recovers(demo_client, queue)
    waiting = outstanding(demo_client)
    assert waiting >= 200, "a paused syphon moves nothing"
    with locks_that_last(running_demo, timedelta(seconds=15)):
        bring_home_with_a_death(demo_client, waiting)
    eventually(lambda: len(running_demo.processes("celery", "worker-")) == 2, 20, "the worker comes back")


def bring_home_with_a_death(demo_client: DemoClient, waiting: int) -> None:
    """The drain begins, and whoever is at it is killed."""
    demo_client.slow_down(0.5)
    demo_client.act("resume_syphon", path="*")
    eventually(lambda: outstanding(demo_client) < waiting, 20, "the drain has begun")
    killed = demo_client.kill_the_holder_of_the_leases(20)
    assert outstanding(demo_client) >= 50, "it was in the middle"
    demo_client.demo_button("mend", "*")
    eventually(lambda: demo_client.holder_of_the_leases() not in (None, killed), 15, "another worker takes over")
    everything_is_home(demo_client)  # what the dead worker held comes back once its locks have lapsed


def outstanding(demo_client: DemoClient) -> int:
    return sum(account.outstanding() for account in demo_client.accounts.values())


def test_charges_that_cannot_be_computed_are_reported_by_the_page_and_the_demo(demo_client: DemoClient) -> None:
    """They are computed while the demo serves; this demo has no Java (see test_demo_history for one that has)."""
    why = f"could not be computed: JAVA_HOME is {NO_JAVA['JAVA_HOME']}"
    eventually(lambda: any(why in line for line in demo_client.demo.said), 60, why)
    assert why.partition(": ")[2] in demo_client.http.get("costs/", params={"month": f"{datetime.now(UTC):%Y-%m}"}).text


def test_a_channel_is_tried_and_its_mail_is_a_file_of_the_demo(demo_client: DemoClient) -> None:
    demo_client.try_channel("mail")
    mails = demo_client.demo.folder / "state" / "mail"
    eventually(lambda: any("operator is testing" in mail.read_text() for mail in mails.glob("*")), 60, "a mail")
