"""The same figure is the same on every page, in the API and on the command line, at each step of an outage.

Everything is real: two local namespaces, Redis, an application, and the workers' tasks.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
import redis
from azure.servicebus import ServiceBusMessage
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db.models import F
from django.test import Client

from dashboard.alerts.rounds import look as look_for_alerts
from dashboard.fleet.depth import censuses, sampling, trend
from dashboard.fleet.depth import trend as trends
from dashboard.fleet.state import projection, status
from dashboard.fleet.usage import metered
from dashboard.incidents import moved
from dashboard.models import AlertRule, DeadLetterJob, EntityHealth, FailoverEvent, PairDepth
from dashboard.readiness import gathering
from pairing import PairedServiceBusClient
from pairing.telemetry.metering import UsageRecord
from tests.dashboard.secondary import Secondary
from tests.workers.known_month import compute_the_month, traffic_before
from tests.workers.readings import Readings, of_ledger, of_money, of_trend
from tests.workers.test_on_local_namespaces import application, bring_home, eventually, fleet_of_one, namespaces
from workers import collectors, connections, errands, watchers
from workers.streams import Reader

__all__ = ["application", "fleet_of_one", "namespaces"]
pytestmark = pytest.mark.django_db(transaction=True)
PAIR, ENTITY = "/pairs/contoso/", "/pairs/contoso/entities/orders/"


@pytest.fixture
def browser(fleet_of_one: object, settings: Any, tmp_path: Path) -> Client:
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    person = User.objects.create_user("ada", password="a-password-for-this-test")
    person.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def secondary(namespaces: Mapping[str, str], application: PairedServiceBusClient) -> Iterator[Secondary]:
    strings = {f"CONTOSO_{role}": namespaces[f"WORKERS_{role}"] for role in ("PRIMARY", "SECONDARY")}
    here = Secondary(strings)
    yield here
    for client in (here.primary, here.client, here.administration, here.primary_administration):
        client.close()


def work(fleet: redis.Redis, application: PairedServiceBusClient) -> None:
    """What workers do all the time: health, events, usage, a sample, checks of readiness, alerts."""
    projection.record_heartbeat("host:1:aaaa", "pings", datetime.now(UTC))
    watchers.refresh()
    reader = Reader(fleet, "pairing:events", "event")
    reader._join()
    for _, entries in fleet.xreadgroup("control-plane", "tests", {"pairing:events": ">"}, count=1000) or ():
        collectors.save_events(reader, [(identity, fields["event"]) for identity, fields in entries])
    report_usage(fleet, application)
    watchers.sample("contoso")
    watchers.check_readiness("contoso")
    look_for_alerts(datetime.now(UTC))


def report_usage(fleet: redis.Redis, application: PairedServiceBusClient) -> None:
    """What the application and the worker have metered so far, without waiting for the end of the minute."""
    for client in (application, connections.client("contoso")):
        metered.store(client.meter.drain(client.clock.now(), everything=True), datetime.now(UTC))
    reported = [fields["record"] for _, fields in fleet.xrange("pairing:usage")]  # of minutes that ended meanwhile
    metered.store(map(UsageRecord.from_json, reported), datetime.now(UTC))


def metered_so_far(fleet: redis.Redis, application: PairedServiceBusClient, kind: str) -> int:
    """Messages for orders. What a client reports at the end of a minute arrives a moment later."""
    report_usage(fleet, application)
    now = datetime.now(UTC)
    rows = metered.since(now - timedelta(hours=1), now, pair="contoso", entity="orders", kind=kind)
    return sum(row["messages"] for row in rows)


def later(seconds: float) -> None:
    """So much time passes for the trend."""
    PairDepth.objects.update(at=F("at") - timedelta(seconds=seconds))


def read(browser: Client) -> Readings:
    """Every figure of every place that shows it."""
    seen = Readings(browser)
    for place in (of_the_pair, of_the_backlog, of_the_entity, of_incidents, of_costs, of_readiness, of_trend, of_money):
        place(seen)
    of_the_command_line(seen)
    return seen


def of_the_pair(seen: Readings) -> None:
    health, pair = seen.json("/api/v1/health"), seen.json("/api/v1/pairs/contoso")
    seen.see("backlog", "API health", health["pairs"][0]["backlog_messages"])
    seen.see("backlog", "API pair", pair["backlog_messages"])
    seen.see("dead letters", "API pair", pair["dead_letters"])
    seen.see("headline", "API", health["headline"])
    seen.see("detail", "API", health["detail"])
    for name, address in (("overview", "/"), ("pair", PAIR)):
        page = seen.page(address)
        seen.found("backlog", name, r"In backlog</dt> <dd> (?:<a [^>]*>)?([\d,]+)", page)
        seen.found("backlog", f"chart of {name}", CHART, page)
        seen.found("dead letters", name, r"Dead-lettered</dt> <dd> (?:<a [^>]*>)?([\d,]+)", page)
        seen.found("headline", name, r"<h1 data-news>([^<]*)</h1>", page)
        seen.found("detail", name, r"((?:[\d,]+ messages? in the backlog|The backlog is empty)) ?</p>", page)
        rows = re.findall(r'data-label="In backlog" class="num"> (?:<b>|<span[^>]*>)([\d,]+|—)', page)
        seen.see("backlog", f"rows of {name}", sum(int(row.replace(",", "")) for row in rows if row != "—"))
        seen.found("state of orders", name, r'data-entity="orders" data-status="([^"]*)"', page)
        seen.found("waiting for orders", name, _row_of("orders"), page)


CHART = r'(?:UTC, now |<p class="flat">)([\d,]+)'
"""The present value of a chart, in the name of its drawing or in the sentence that stands instead of one."""


def _row_of(entity: str) -> str:
    return rf'data-entity="{entity}".*?data-label="In backlog" class="num"> (?:<b>|<span[^>]*>)([\d,]+|—)'


def of_the_backlog(seen: Readings) -> None:
    page, queues = seen.page("/backlog/"), seen.json("/api/v1/backlog")["items"]
    seen.found("backlog", "backlog", r"<b>([\d,]+)</b> waiting", page)
    seen.found("dead letters", "backlog", r"<b>([\d,]+)</b> dead-lettered", page)
    seen.see("backlog", "API queues", sum(one["active"] + one["scheduled"] for one in queues))
    seen.see("dead letters", "API queues", sum(one["dead_lettered"] for one in queues))
    active = re.findall(r'data-label="(?:Active|Scheduled)"> ?(?:<a [^>]*>)?([\d,]+)', page)
    seen.see("backlog", "rows of backlog", sum(int(one.replace(",", "")) for one in active))
    seen.found(
        "counted now", "messages", r"([\d,]+) inspected", seen.page("/backlog/contoso/messages/") + " 0 inspected"
    )
    alerts = {one["kind"]: one for one in seen.json("/api/v1/alerts?state=open")["items"]}
    if "backlog" in alerts:
        seen.found("backlog", "alert", r"([\d,]+) now", alerts["backlog"]["detail"])
    if "dead_letters" in alerts:
        seen.found("dead letters", "alert", r"([\d,]+) message", alerts["dead_letters"]["detail"])


def of_the_entity(seen: Readings) -> None:
    page, (row,) = seen.page(ENTITY), seen.json("/api/v1/entities?path=orders")["items"]
    seen.found("waiting for orders", "entity", r"<dt>Waiting</dt> <dd>([\d,]+|—)", page)
    seen.found("waiting for orders", "chart of entity", CHART, page)
    seen.see("waiting for orders", "API entity", row["backlog_messages"])
    seen.see("state of orders", "API entity", row["status"])
    seen.found("state of orders", "entity", r'class="headline is-([^"]*)"', page)


def of_incidents(seen: Readings) -> None:
    began = FailoverEvent.objects.filter(kind="forced", entity="orders").order_by("time").last()
    if began is None:
        return
    address = f"/pairs/contoso/incidents/{began.event_id}"
    page, story = seen.page(f"{address}/"), seen.json(f"{address}.json")
    api = seen.json(f"/api/v1/incidents/contoso/{began.event_id}")
    if api["moved"]:
        of_ledger(seen, address, api)
    for place, said in (("file", story), ("API incident", api)):
        seen.see("waiting for orders", place, said["waiting_messages"])
        seen.see("most waiting", place, said["peak_messages"])
        seen.see("drained at", place, (said["drained_at"] or "not yet")[:19].replace("T", " "))
        seen.see("pings", place, said["pings"]["count"])
    seen.found("waiting for orders", "incident", r"Waiting now</dt> <dd>([\d,]+)", page)
    seen.found("most waiting", "incident", r"Most waiting</dt> <dd>([\d,]+)", page)
    seen.found("pings", "incident", r"Pings</dt> <dd> ([\d,]+)", page)
    drained = r"<b>Drained(?: <small>UTC</small></b> <time[^>]*>([^<]*)<|()</b>)"
    match = re.search(drained, page)
    seen.see("drained at", "incident", (match and match.group(1)) or "not yet")


def of_costs(seen: Readings) -> None:
    page = seen.page("/costs/")
    seen.found("backlog", "costs", r"the backlog \(([\d,]+) now\)", page)
    seen.see("outages", "incidents", seen.page("/incidents/").count('data-incident="'))
    seen.see("outages", "API incidents", len(seen.json("/api/v1/incidents")["items"]))
    seen.see("outages", "costs", seen.page("/costs/?tab=outages").count('<tr data-outage="'))


def of_readiness(seen: Readings) -> None:
    page, overview, entity = seen.page("/readiness/"), seen.page("/"), seen.page(ENTITY)
    score = r"(?:Ready|Weak|Endangered|Not known)(?: (\d+))?</span>"
    seen.found("readiness of the pair", "readiness", rf'data-pair="contoso">.*?{score}', page)
    seen.found("readiness of the pair", "overview", rf"Readiness of the pair</dt> <dd>.*?{score}", overview)
    seen.see("readiness of the pair", "API", seen.json("/api/v1/pairs/contoso/readiness")["score"])
    seen.found("readiness of orders", "readiness", rf'data-entity="orders">.*?{score}', page)
    seen.found("readiness of orders", "entity", rf"<dt>Readiness</dt> <dd>.*?{score}", entity)
    rows = seen.json("/api/v1/readiness?q=orders")["items"]
    seen.see("readiness of orders", "API", rows[0]["score"])


def of_the_command_line(seen: Readings) -> None:
    out = StringIO()
    call_command("pairing", "entities", "--json", stdout=out)
    (row,) = [one for one in json.loads(out.getvalue())["items"] if one["path"] == "orders"]
    seen.see("waiting for orders", "command line", row["backlog_messages"] or 0)
    seen.see("state of orders", "command line", row["status"])
    metrics = seen.browser.get("/metrics").text
    counts = re.findall(r'^paired_backlog_messages\{[^}]*state="(active|scheduled)"[^}]*\} ([\d.]+)', metrics, re.M)
    seen.see("backlog", "metrics", round(sum(float(count) for _, count in counts)))


def agree(fleet: redis.Redis, application: PairedServiceBusClient, browser: Client) -> Readings:
    work(fleet, application)
    seen = read(browser)
    assert not seen.differing, pformat(seen.differing)
    return seen


def operate(action: str, *target: str) -> None:
    call_command("pairing", action, "contoso", *target, "--user", "ada", "--reason", "a drill", stdout=StringIO())


def send(application: PairedServiceBusClient, count: int) -> None:
    with application.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(f"order {number}") for number in range(count)])


def while_counting(monkeypatch: pytest.MonkeyPatch, happening: Callable[[], None]) -> None:
    """Something happens between the namespace's counts and the peeks, once."""
    whole, left = censuses.count, [happening]

    def count(*args: Any) -> censuses.Counted:
        if left:
            left.pop()()
        return whole(*args)

    monkeypatch.setattr(sampling, "count", count)


def test_every_figure_of_an_outage_is_the_same_wherever_it_is_shown(
    fleet, application, secondary, browser, namespaces, monkeypatch
):
    AlertRule.objects.create(
        name="backlog", kinds=[], pair="*", entity="*", threshold=1, channels=[], changed_at=datetime.now(UTC)
    )
    for module in (status, gathering):  # a slow machine takes longer to look at everything than workers are silent
        monkeypatch.setattr(module, "HEARTBEAT_LIMIT", timedelta(hours=1))
    compute_the_month()
    traffic_before()
    send(application, 1)
    watchers.list_entities("contoso")
    assert agree(fleet, application, browser).figures["headline"]["overview"] == "Healthy"

    for module in (trend, trends):  # instead of two minutes, which a slow machine takes to look at everything
        monkeypatch.setattr(module, "OVER", timedelta(hours=1))
    later(20)
    operate("fail-over", "orders")
    eventually(lambda: application.entity_health("orders").state == "failed_over")
    send(application, 7)
    eventually(lambda: metered_so_far(fleet, application, "send_backlog") == 7)
    figures = agree(fleet, application, browser).figures
    assert (figures["backlog"]["overview"], figures["ledger: to_backlog"]["page"]) == ("7", "7")
    assert all("about" in figures[name]["overview"] for name in ("full in", "room"))

    later(3610)
    queue = max(secondary.administration.list_queues_runtime_properties(), key=lambda one: one.active_message_count)
    while_counting(monkeypatch, lambda: secondary.fill(queue.name, *"abcde"))
    assert agree(fleet, application, browser).figures["backlog"]["overview"] == "12"

    later(20)
    operate("pause-syphon", "--target", "*")
    while_counting(monkeypatch, lambda: secondary.dead_letter(queue.name, 2))
    figures = agree(fleet, application, browser).figures
    assert (figures["backlog"]["overview"], figures["counted now"]["messages"]) == ("10", "10")

    operate("mark-healthy", "orders")
    eventually(lambda: application.entity_health("orders").state == "healthy")
    assert "paused" in agree(fleet, application, browser).figures["headline"]["API"]

    later(20)
    operate("resume-syphon", "--target", "*")
    assert agree(fleet, application, browser).figures["drained in"]["overview"] != "not known"

    bring_home(dict(namespaces), fleet, expected=11)
    eventually(lambda: not EntityHealth.objects.filter(waiting__gt=0).exists() or watchers.sample("contoso"))
    eventually(lambda: metered_so_far(fleet, application, "syphon_send") == 10)
    monkeypatch.setattr(moved, "REPORTED", -2 * moved.MINUTE)  # as if two minutes had passed
    operate("resubmit", queue.name)
    errands.carry_out(DeadLetterJob.objects.get().pk)
    after = agree(fleet, application, browser).figures
    assert (after["backlog"]["overview"], after["state of orders"]["entity"]) == ("0", "healthy")
    assert after["drained at"]["incident"] != "not yet"
    # Nobody has reported the five that were put into the backlog beside the fleet, nor the two dead letters.
    ledger = {name.removeprefix("ledger: "): shown["page"] for name, shown in after.items() if "ledger" in name}
    assert (ledger["to_backlog"], ledger["to_primary"], ledger["unexplained"]) == ("7", "10", "-3")
    assert (ledger["dead_lettered"], ledger["resubmitted"]) == ("0", "2")
