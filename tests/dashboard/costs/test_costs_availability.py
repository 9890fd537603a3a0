"""How available a pair was as a whole: the time of all of its entities together."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.costs.reporting.availability import by_pair
from dashboard.models import Availability, Outage

START = datetime(2026, 10, 14, 9, tzinfo=UTC)
MONTH_S = 744 * 3600.0


def entity(name: str, down_s: float, pair: str = "contoso") -> Availability:
    return Availability(pair=pair, entity=name, episodes=bool(down_s), down_s=down_s, period_s=MONTH_S)


def outage(lasted_s: float | None, pair: str = "contoso") -> Outage:
    ended = None if lasted_s is None else START + timedelta(seconds=lasted_s)
    return Outage(month="2026-10", pair=pair, entity="orders", started_at=START, ended_at=ended, down_s=0)


def test_a_pairs_share_is_of_the_time_of_all_its_entities() -> None:
    known = [entity("orders", 7_200), entity("payments", 3_600), entity("audit", 0), entity("x", 0, "fabrikam")]
    contoso, fabrikam = by_pair(known, [outage(7_200), outage(3_600), outage(None)])
    assert (contoso.entities, contoso.touched, contoso.episodes) == (3, 2, 2)
    assert (contoso.down_s, contoso.worst_s, contoso.repair_s) == (10_800, 7_200, 5_400)
    assert contoso.percent == pytest.approx(100 * (1 - 3 / (3 * 744)))
    assert (fabrikam.percent_shown, fabrikam.repair_s) == (100.0, None)


def test_a_pair_that_was_down_for_a_moment_is_not_reported_as_never_down() -> None:
    (contoso,) = by_pair([entity("orders", 1), *(entity(str(n), 0) for n in range(99))], [outage(1)])
    assert contoso.percent_shown == 99.999


def test_a_month_that_has_just_begun_is_fully_available() -> None:
    (contoso,) = by_pair([Availability(pair="contoso", entity="orders", episodes=0, down_s=0, period_s=0)], [])
    assert contoso.percent == 100


def test_an_outage_of_the_month_before_takes_no_part_in_the_time_to_repair() -> None:
    earlier = Outage(
        month="2026-10", pair="contoso", entity="orders", started_at=datetime(2026, 9, 20, tzinfo=UTC),
        ended_at=datetime(2026, 9, 21, tzinfo=UTC), down_s=0,
    )  # fmt: skip
    (contoso,) = by_pair([entity("orders", 3_600)], [outage(3_600), earlier])
    assert contoso.repair_s == 3_600
