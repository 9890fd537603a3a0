"""Outages in the report: stored whole with the month, priced at the month's own marginal rate."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.costs.reporting import report as cost_report
from dashboard.costs.reporting.availability import by_pair
from dashboard.costs.runs.charges import outages_for
from dashboard.costs.runs.storing import store
from dashboard.models import Availability, ChargeRun, EntityHealth, FailoverEvent, Outage, Pair
from dashboard.models.visibility import seen_as
from dashboard.site.money import cents
from tests.dashboard.costs.test_costs import BASE, RUN, invoice, line
from tests.dashboard.markup import costs_of, one_line
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
MONTH = "2026-10"
START = datetime(2026, 10, 14, 9, tzinfo=UTC)
ORDERS = {"pair": "contoso", "entity": "orders", "down_s": 10_800.0}
COUNTS = {"published": 4_000_000, "settlements": 5_000_000, "crossing_bytes": 0}
EPISODE = ORDERS | {
    "record": "episode",
    "started_at": START.isoformat(),
    "ended_at": (START + timedelta(hours=3)).isoformat(),
    "cause": "failed_over",
    "reason": "timeouts",
    "units": {"send_backlog": 2_000_000},
    "extra": COUNTS | {"places": [{"scope": "sub", "namespace": "contoso", **COUNTS}]},
}
AVAILABILITY = ORDERS | {"record": "availability", "episodes": 1, "period_s": 2_678_400.0, "repair_s": 10_800.0}


OUTAGE = [RUN, EPISODE, AVAILABILITY, invoice("published", 1_560), line("send", 560, units=20_000_000), BASE]


def stored(folder: Path, records: Sequence[Mapping[str, Any]] = OUTAGE) -> None:
    now = timezone.now()
    store(ChargeRun.objects.create(month=MONTH, started_at=now, heard_at=now), result_of(folder, records))


@pytest.fixture
def client(as_role) -> Client:
    return as_role("viewer")


def test_outages_are_replaced_with_the_month(tmp_path):
    for _ in range(2):
        stored(tmp_path)
    assert Outage.objects.count() == 1
    assert Availability.objects.get().percent == pytest.approx(99.5968, abs=1e-4)


def test_the_report_prices_an_outage_at_the_months_marginal_rate(client, tmp_path):
    stored(tmp_path)
    page = costs_of(client, month=MONTH)
    # 20 million operations, 4 million of them because of the outage: all of those at 0.80
    for text in ("4,000,000", "3.20", "failed over: the primary does not answer", "3\N{NO-BREAK SPACE}h", "99.596 %"):
        assert text in one_line(page)


def test_the_page_says_how_long_an_outage_lasted_and_how_long_of_it_in_the_month(client, tmp_path):
    """One began the month before; the other ended in it, and only its backlog was drained in this month."""
    across = EPISODE | {
        "started_at": "2026-09-30T23:00:00+00:00",
        "ended_at": "2026-10-01T04:00:00+00:00",
        "down_s": 14_400,
    }
    earlier = EPISODE | {
        "started_at": "2026-09-20T00:00:00+00:00", "ended_at": "2026-09-20T20:00:00+00:00", "down_s": 0, "entity": "x",
    }  # fmt: skip
    stored(tmp_path, [RUN, across, earlier, invoice("published", 1_560), line("send", 560, units=20_000_000), BASE])
    page = one_line(costs_of(client, month=MONTH))
    assert '5\N{NO-BREAK SPACE}h <small class="quiet">4\N{NO-BREAK SPACE}h in 2026-10</small>' in page
    assert '20\N{NO-BREAK SPACE}h <small class="quiet">0\N{NO-BREAK SPACE}s in 2026-10</small>' in page


def place(scope: str, namespace: str, published: int, crossing_bytes: int = 0) -> dict[str, object]:
    counts = {"published": published, "settlements": published, "crossing_bytes": crossing_bytes}
    return {"scope": scope, "namespace": namespace} | counts


def test_an_outage_is_priced_on_the_bill_of_each_namespace_it_used(client, tmp_path):
    """The primary is 20 million operations into its month, the secondary, another subscription's, 14 million.

    Four million operations of the outage were made in the secondary: three are included there, one costs 0.80. The
    pings, 3,600, cost 0.00288 in the primary. 20 GB left a region at 0.05, half of them because of the outage: 0.50.
    """
    places = [place("sub", "contoso", 3_600), place("sub-dr", "contoso-dr", 4_000_000, 10 * 10**9)]
    extra = {"published": 4_003_600, "settlements": 4_003_600, "crossing_bytes": 10 * 10**9, "places": places}
    egress = line("bandwidth", 100, namespace="contoso-dr") | {"quantity": "20.000000000000"}
    secondary = invoice("published", 1_180, scope="sub-dr") | {
        "units": 14_000_000,
        "tiers": [13_000_000, 1_000_000, 0, 0],
    }
    records = [
        RUN, EPISODE | {"extra": extra}, invoice("published", 1_560), line("send", 560, units=20_000_000), BASE,
        secondary, line("send_backlog", 80, namespace="contoso-dr", units=14_000_000), egress,
    ]  # fmt: skip
    stored(tmp_path, records)

    report = cost_report.report(MONTH)

    (cost,) = report.outages
    assert [(part.scope, part.operations, part.charge, part.egress) for part in cost.parts] == [
        ("sub", 3_600, Fraction("0.00288"), 0),
        ("sub-dr", 4_000_000, Fraction("0.8"), Fraction("0.5")),
    ]
    assert (cost.operations, cents(cost.money)) == (4_003_600, 130)
    assert "4,000,000 on the bill of sub-dr" in costs_of(client, month=MONTH)


@pytest.mark.parametrize(("tier", "charge"), [("basic", Fraction("0.2")), ("premium", Fraction(0))])
def test_an_outage_costs_what_the_tier_of_the_secondary_takes(tmp_path, tier, charge):
    extra = {"published": 4_000_000, "settlements": 4_000_000, "places": [place("sub", "contoso-dr", 4_000_000)]}
    own = line("send_backlog", 0, namespace="contoso-dr", units=4_000_000)
    own |= {"exact": "0.2"} if tier == "basic" else {"exact": "0"}
    hours = line("base", 50_000, entity="*", namespace="contoso-dr") if tier == "premium" else BASE
    run = RUN | {"tiers": {"contoso": "standard", "contoso-dr": tier}}
    sent = line("send", 560, units=20_000_000)
    stored(tmp_path, [run, EPISODE | {"extra": extra}, invoice("published", 1_560), sent, own, hours])

    Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=START)
    for visible in (None, lambda: Pair._base_manager.all()):
        with seen_as(visible):
            assert [part.charge for part in cost_report.report(MONTH).outages[0].parts] == [charge]


def test_a_long_list_of_outages_pages_on(client, tmp_path):
    stored(tmp_path, [*OUTAGE, *(EPISODE | {"entity": f"orders-{number:04}"} for number in range(119))])
    pages = [client.get("/costs/", {"month": MONTH, "tab": "outages", "page": n}).text for n in range(1, 13)]
    assert len({name for page in pages for name in re.findall(r'data-outage="([^"]*)"', page)}) == 120
    assert "Page 1 of 12 · 120 outages in all" in one_line(pages[0])


def test_the_job_gets_the_turns_up_to_the_months_end_and_every_entity(tmp_path):
    pair = Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=timezone.now())
    EntityHealth.objects.create(pair=pair, path="orders")
    times = (START - timedelta(days=90), START, datetime(2026, 11, 1, tzinfo=UTC))
    for number, (kind, time) in enumerate(zip(("failed_over", "queue_pulled", "recovered"), times, strict=True)):
        FailoverEvent.objects.create(event_id=str(number), time=time, pair="contoso", entity="orders", kind=kind)
    FailoverEvent.objects.create(event_id="9", time=START, pair="contoso", entity="orders", kind="recovered")
    _, outages, _, inventory = outages_for(tmp_path, MONTH)
    (reported,) = [json.loads(text) for text in Path(outages).read_text().splitlines()]
    assert (reported["started"], reported["ended"]) == (times[0].isoformat(), START.isoformat())
    assert json.loads(Path(inventory).read_text()) == {"pair": "contoso", "entity": "orders"}


MONTH_S = 744 * 3600.0


def entity(name: str, down_s: float, pair: str = "contoso") -> Availability:
    return Availability(pair=pair, entity=name, episodes=bool(down_s), down_s=down_s, period_s=MONTH_S)


def lasting(lasted_s: float | None, pair: str = "contoso") -> Outage:
    ended = None if lasted_s is None else START + timedelta(seconds=lasted_s)
    return Outage(month="2026-10", pair=pair, entity="orders", started_at=START, ended_at=ended, down_s=0)


def test_a_pairs_share_is_of_the_time_of_all_its_entities():
    known = [entity("orders", 7_200), entity("payments", 3_600), entity("audit", 0), entity("x", 0, "fabrikam")]
    contoso, fabrikam = by_pair(known, [lasting(7_200), lasting(3_600), lasting(None)])
    assert (contoso.entities, contoso.touched, contoso.episodes) == (3, 2, 2)
    assert (contoso.down_s, contoso.worst_s, contoso.repair_s) == (10_800, 7_200, 5_400)
    assert contoso.percent == pytest.approx(100 * (1 - 3 / (3 * 744)))
    assert (fabrikam.percent_shown, fabrikam.repair_s) == (100.0, None)


def test_only_what_was_never_down_is_reported_as_always_available():
    assert Availability(down_s=6.0, period_s=1_750_000.0).percent_shown == 99.999
    assert Availability(down_s=0.0, period_s=1_750_000.0).percent_shown == 100.0
    (moment,) = by_pair([entity("orders", 1), *(entity(str(n), 0) for n in range(99))], [lasting(1)])
    (begun,) = by_pair([Availability(pair="contoso", entity="orders", episodes=0, down_s=0, period_s=0)], [])
    assert (moment.percent_shown, begun.percent) == (99.999, 100)


def test_an_outage_of_the_month_before_takes_no_part_in_the_time_to_repair():
    earlier = Outage(
        month="2026-10", pair="contoso", entity="orders", started_at=datetime(2026, 9, 20, tzinfo=UTC),
        ended_at=datetime(2026, 9, 21, tzinfo=UTC), down_s=0,
    )  # fmt: skip
    (contoso,) = by_pair([entity("orders", 3_600)], [lasting(3_600), earlier])
    assert contoso.repair_s == 3_600
