"""What the pages say (docs/contract.md, section 6)."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from dashboard.fleet.depth.outlook import Outlook
from dashboard.fleet.state import message_counts, projection
from dashboard.fleet.usage import metered
from dashboard.fleet.views import overview
from dashboard.models import AuditEntry, EntityHealth, Pair
from dashboard.templatetags.dashboard import verb
from pairing.events import Event
from pairing.fleet.shared_health import PingRecord
from tests.dashboard.conftest import NOW, health
from tests.dashboard.fleet.test_projection import Queue, event
from tests.dashboard.markup import one_line
from tests.dashboard.sample_outage import sent

pytestmark = pytest.mark.postgres_nightly

HTMX = {"HX-Request": "true"}
ROOM = Outlook(expected=None, full_in=None, room=100_000)


@pytest.fixture
def viewer(pair, redis_here, as_role):
    return as_role("viewer")


def row(page: str, path: str) -> str:
    found = re.search(rf'<tr [^>]*data-entity="{re.escape(path)}".*?</tr>', page, re.S)
    assert found, f"no row for {path}"
    return found[0]


@pytest.mark.parametrize("reason", ["no answer for 5 s", "amqp:internal-error for 5 s"])
def test_a_primary_that_is_down_is_one_sentence_with_its_evidence(viewer, alive, pair, reason):
    now = timezone.now()
    for path in ("created", "cancelled"):
        EntityHealth.objects.create(pair=pair, path=path, state="healthy", since=NOW)
    away = {"state": "failed_over", "since": now - timedelta(minutes=5), "reason": reason}
    pair.entities.filter(path__in=("orders", "payments")).update(**away)
    EntityHealth.objects.create(pair=pair, path="gone", **away | {"reason": "the entity does not exist"})
    metered.store([sent(now - timedelta(minutes=2), "orders", "send_backlog", 1)], now)
    sentence = "The primary of contoso is down: 2 of 5 entities proven, 2 have no traffic"
    pages = [one_line(viewer.get(address).text) for address in ("/", "/pairs/contoso/")]
    for page in pages:
        assert sentence in page
        assert page.count("not known: no sends since the primary failed") == 2
        assert "Nothing is lost" in page
    assert viewer.get("/api/v1/health").json()["headline"] == sentence
    assert "the primary failed for others" in viewer.get("/pairs/contoso/entities/created/").text

    metered.store([sent(now, "created", "send", 1)], now)
    for page in (viewer.get(address).text for address in ("/", "/pairs/contoso/")):
        assert ("3 of 5 entities failed over" in page, "not known" in page) == (True, False)


def test_the_overview_of_several_pairs_names_the_pair_of_an_entity(viewer, alive):
    projection.apply_all_health("contoso", [health(reason="no answer")])
    projection.record_events([event()])
    alone = one_line(viewer.get("/").text)
    Pair.objects.create(name="fabrikam", primary_namespace="f", secondary_namespace="f-dr", synced_at=NOW)

    page = one_line(viewer.get("/").text)

    for named in ("contoso / orders</a>", '<span class="quiet">in contoso</span>'):
        assert (named in alone, named in page) == (False, True)


def test_of_a_table_of_pairs_only_what_has_changed_is_fetched(viewer, alive, pair, monkeypatch):
    monkeypatch.setattr(overview, "MANY", 0)
    projection.apply_all_health("contoso", [health(reason="no answer")])
    Pair.objects.create(name="fabrikam", primary_namespace="f", secondary_namespace="f-dr", synced_at=NOW)
    whole = one_line(viewer.get("/").text)
    ids = "row-contoso,row-fabrikam,card-contoso"
    part = one_line(viewer.get(f"/?&only={ids}", headers=HTMX).text)

    assert 'data-only="?&amp;only="' in whole
    for where, mark in ((whole, ""), (part, ' hx-swap-oob="true"')):
        assert sorted(re.findall(rf'id="((?:row|card)-[a-z]+)"[^>]*?{mark}>', where)) == sorted(ids.split(","))
    assert ("<h1" in part, 'data-entity="orders"' in part) == (False, True)
    assert "row-contoso" not in viewer.get("/?only=row-fabrikam", headers=HTMX).text


def test_a_pair_without_entities_offers_no_action_on_all_of_them(pair, redis_here, as_role):
    operator = as_role("operator")
    before = operator.get("/pairs/contoso/").text
    pair.entities.all().delete()

    assert ("Fail over all" in before, "Fail over all" in operator.get("/pairs/contoso/").text) == (True, False)


def test_a_hold_is_shown_with_who_and_until_when(viewer, alive):
    end = timezone.now() + timedelta(hours=1, seconds=30)
    projection.apply_all_health("contoso", [health(held_by="ada", origin="forced", expires=end)])

    page = viewer.get("/").text
    said = row(page, "orders")

    assert 'data-status="held"' in said
    assert "ada" in said
    assert "in 1 h" in said
    assert "<b>Held by ada: no answer</b>:" in page


def test_silent_workers_are_said_on_top(viewer):
    assert "No worker has ever sent a heartbeat" in viewer.get("/").text

    projection.record_heartbeat("host:1:aaaa", "pings", timezone.now() - timedelta(minutes=2))
    page = viewer.get("/").text
    assert "No worker has sent a heartbeat since" in page
    assert "2 min ago" in page
    assert 'data-status="unknown"' in page


@pytest.mark.parametrize("age", [timedelta(hours=1), timedelta()], ids=["silent", "alive"])
def test_each_page_of_what_workers_report_says_since_when_none_does(orders, viewer, age):
    projection.record_heartbeat("host:1:aaaa", "pings", timezone.now() - age)
    entity = "/pairs/contoso/entities/orders/"
    for page in ("/pairs/contoso/", entity, "/incidents/", "/events/", "/readiness/", "/drills/"):
        assert (page, "No worker has sent a heartbeat since" in viewer.get(page).text) == (page, bool(age))


def test_htmx_gets_the_live_part_alone(viewer):
    answer = viewer.get("/", headers=HTMX)

    assert answer.text.lstrip().startswith('<div id="live"')
    assert "<html" not in answer.text
    assert "HX-Request" in answer["Vary"]
    assert answer["Cache-Control"] == "no-store"


FOUND = {
    "q=pay": {"payments"},
    "q=CONTOSO": {"orders", "payments"},
    "state=failed-over": {"orders"},
    "state=healthy": {"payments"},
    "state=held": set(),
    "state=nonsense": {"orders", "payments"},
}


def test_entities_are_searched_and_filtered(viewer):
    projection.apply_all_health("contoso", [health()])

    pages = {query: viewer.get(f"/?{query}").text for query in FOUND}

    assert {query: set(re.findall('data-entity="([^"]+)"', page)) for query, page in pages.items()} == FOUND


@pytest.mark.parametrize("pages", [("/", "/pairs/contoso/", "/backlog/", "/events/", "/audit/")])
def test_every_empty_page_says_what_will_be_there(redis_here, people, as_role, pages):
    Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=NOW)

    for page in pages:
        assert 'class="empty"' in as_role("viewer").get(page).text, page


def test_without_a_pair_the_overview_says_how_to_get_one(redis_here, people, as_role):
    page = as_role("viewer").get("/").text

    assert "No pair yet" in page
    assert "sync_pairs" in page


GOING = [(900, 300, "healthy", "drained"), (300, 900, "failed_over", "full"), (300, 900, "healthy", "")]
"""The first and the last depth, the state of an entity, and what the backlog comes to."""


@pytest.mark.parametrize(("first", "last", "state", "word"), GOING)
def test_the_headline_says_when_the_backlog_is_drained_or_full(viewer, alive, monkeypatch, first, last, state, word):
    now = timezone.now()
    EntityHealth.objects.update(state=state, since=now)
    monkeypatch.setattr("dashboard.fleet.boards.outlooks", lambda pairs, at: {one.pk: ROOM for one in pairs})
    for ago_s, depth in ((60, first), (30, (first + last) // 2), (0, last)):
        message_counts.record_depths("contoso", [Queue(active=depth)], now - timedelta(seconds=ago_s))

    said = " ".join(viewer.get("/").text.split())

    assert re.findall(r"<b>(\w+) in about [^<]+</b> at the present rate", said) == ([word] if word else [])


def test_the_plain_cause_stands_before_the_sentence_of_the_sdk(viewer, alive):
    reason = "ServiceBusError: Fault 0a6a: reject. Error condition: amqp:internal-error."
    for path in ("orders", "payments"):
        projection.apply_all_health("contoso", [health(path, reason=reason)])

    page = viewer.get("/").text

    headline = " ".join(page[page.index("<header") : page.index('class="columns"')].split())
    assert "<b>Rejects sends: internal error</b>:" in headline
    assert headline.index("orders") < headline.index("payments") < headline.index("since")
    assert "ServiceBusError" not in headline
    assert row(page, "orders").index("rejects sends: internal error") < row(page, "orders").index("ServiceBusError")


def test_many_healthy_entities_are_folded_until_somebody_looks_for_one(viewer, pair, alive):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"entity-{n:02}") for n in range(38))
    projection.apply_all_health("contoso", [health()])

    page, found = viewer.get("/").text, viewer.get("/?q=entity").text

    fold = page[page.index('<details class="calm"') :]
    assert "39 healthy entities" in fold
    assert 'data-entity="entity-00"' in fold
    assert 'data-entity="orders"' not in fold
    assert 'class="calm"' not in found
    assert 'data-entity="entity-00"' in found


def test_a_fold_that_goes_on_on_the_next_page_says_how_many_it_holds(viewer, pair, alive):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"entity-{n:02}") for n in range(60))
    projection.apply_all_health("contoso", [health()])

    assert "61 healthy entities, 49 on this page" in viewer.get("/").text


def test_an_entity_s_page_shows_its_pings_and_its_past(viewer, alive):
    projection.apply_all_health("contoso", [health(reason="no answer for 5 s", process="web-3:77:abcd")])
    projection.record_pings("contoso", {"orders": PingRecord(NOW, False, "the link was refused", 41, None)})
    projection.record_events([event(), event("b" * 32, kind="failing", time=NOW - timedelta(seconds=5))])

    page = viewer.get("/pairs/contoso/entities/orders/").text

    for said in ("no answer for 5 s", "web-3:77:abcd", "the link was refused", "Not accepted", "organic"):
        assert said in page
    assert page.index("Failed over</span>") < page.index("Failing</span>")


@pytest.mark.parametrize("address", ["/pairs/unheard-of/", "/pairs/contoso/entities/unheard-of/", "/nowhere/"])
def test_what_is_not_there_is_a_page_that_says_so(viewer, address):
    answer = viewer.get(address)

    assert answer.status_code == 404
    assert "Not found" in answer.text


def events_at(*minutes: int) -> list[Event]:
    return [event(f"{minute:032x}", time=NOW + timedelta(minutes=minute), reason=f"at {minute}") for minute in minutes]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"at 0", "at 5", "at 9", "other"}),
        ("entity=pay", {"other"}),
        ("kind=recovered", {"other"}),
        ("pair=contoso", {"at 0", "at 5", "at 9", "other"}),
        ("pair=fabrikam", set()),
        ("since=2026-11-02T03:05&until=2026-11-02T03:09", {"at 5"}),
    ],
)
def test_events_are_filtered_on_the_page_and_in_the_csv(viewer, query, found):
    projection.record_events([*events_at(0, 5, 9), event("f" * 32, "recovered", entity="payments", reason="other")])

    page = viewer.get(f"/events/?{query}").text
    answer = viewer.get(f"/events.csv?{query}")
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))

    assert {reason for reason in ("at 0", "at 5", "at 9", "other") if reason in page} == found
    assert {one["reason"] for one in rows} == found


def test_the_csv_has_the_contract_s_columns_and_utc_times(viewer):
    projection.record_events([event(operator="ada")])

    answer = viewer.get("/events.csv")
    header, line = csv.reader(io.StringIO(answer.getvalue().decode()))

    assert header == ["time", "pair", "entity", "kind", "reason", "process", "operator"]
    assert datetime.fromisoformat(line[0]) == NOW
    assert line[1:] == ["contoso", "orders", "failed_over", "no answer", "host:1:aaaa", "ada"]


def test_the_backlog_page_shows_deviations_orphans_and_dead_letters(viewer):
    now = datetime.now(UTC)
    message_counts.record_depths(
        "contoso",
        [
            Queue(active=7, dead_lettered=3, deviations={"LockDuration": ("PT1M", "PT30S")}),
            Queue("contoso/x-servicebus-transfer/12", 12, status="SendDisabled"),
        ],
        now,
    )

    page = viewer.get("/backlog/").text

    for said in ("Lock<wbr>Duration is PT30S, expected PT1M", "Orphan", "SendDisabled", "<b>3</b> dead-lettered"):
        assert said in page


def test_empty_backlog_queues_are_one_line_below_those_that_hold_or_lack_something(viewer):
    paths = [f"contoso/x-servicebus-transfer/{index}" for index in range(4)]
    queues = [Queue(paths[0], 0), Queue(paths[1], 1, active=7), Queue(paths[2], 2), Queue(paths[3], 3, dead_lettered=1)]
    message_counts.record_depths("contoso", queues, datetime.now(UTC))

    shown, folded = viewer.get("/backlog/").text.split('<details class="calm"')

    assert "2 empty queues" in folded
    for path in (paths[1], paths[3]):
        assert f"{path.replace('/', '/<wbr>')}</th>" in shown
    for path in (paths[0], paths[2]):
        assert f"{path.replace('/', '/<wbr>')}</th>" in folded


def test_the_backlog_queues_of_many_pairs_are_pages_and_the_first_has_what_is_wrong(viewer):
    names = [f"pair-{number:02}" for number in range(30)]
    Pair.objects.bulk_create(
        Pair(name=name, primary_namespace=name, secondary_namespace=f"{name}-dr", synced_at=NOW) for name in names
    )
    last = Pair.objects.get(name=names[-1])
    last.backlog_queues.create(path=f"{names[-1]}/x-servicebus-transfer/9", index=9, is_orphan=True, seen_at=NOW)

    first, second = (viewer.get("/backlog/", {"page": page}).text for page in (1, 2))

    assert first.index(f"/pairs/{names[-1]}/") < first.index("/pairs/contoso/") < first.index(f"/pairs/{names[0]}/")
    assert [f"/pairs/{names[-2]}/" in page for page in (first, second)] == [False, True]
    assert "Page 1 of 2" in first


def test_a_paused_syphon_is_reported_wherever_its_backlog_is_shown(viewer, alive, pair):
    projection.apply_all_health("contoso", [health(state="healthy")])
    message_counts.record_waiting("contoso", {"orders": 3}, timezone.now())
    pair.pauses.create(queue="*", by="ada", reason="look first", at=timezone.now())

    page = viewer.get("/backlog/").text
    assert "paused by <b>ada</b>" in page
    assert "Resume syphon" not in page
    assert "backlog waits: the syphon is paused" in row(viewer.get("/").text, "orders")


def test_the_audit_page_reports_actions_whose_end_nobody_saw(viewer):
    AuditEntry(
        request_id="1", at=NOW, operator="ada", verb="hold", pair="contoso", target="orders", reason="why"
    ).save()

    page = viewer.get("/audit/").text

    assert "ada" in page
    assert "Outcome unknown" in page


def test_readiness_names_what_is_away(pair, redis_away, client):
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "database": "ok", "redis": "does not answer", "workers": "never heard of"}


def test_charts_hold_all_that_was_measured_and_hardly_more(viewer, alive):
    now = timezone.now()
    for minutes in (19, 1):
        message_counts.record_depths("contoso", [Queue(active=4)], now - timedelta(minutes=minutes))

    page = viewer.get("/").text

    assert "−20 min" in page
    assert "−60 min" not in page


@pytest.mark.parametrize("address", ["/", "/pairs/contoso/"])
def test_a_long_table_is_paged_with_its_filter_kept(viewer, pair, alive, address):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"entity-{n:04}") for n in range(250))
    projection.apply_all_health("contoso", [health("entity-0249")])

    page = viewer.get(f"{address}?q=entity").text

    assert page.count("data-entity=") == 50
    assert 'data-entity="entity-0249"' in page
    assert "?q=entity&amp;page=2" in page
    assert viewer.get(f"{address}?q=entity&page=5").text.count("data-entity=") == 50


def test_an_action_without_a_button_of_its_own_is_written_as_the_others_are():
    assert verb("resubmit_dead_letters") == "Resubmit dead letters"
