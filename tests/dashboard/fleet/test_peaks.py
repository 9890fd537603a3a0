"""Depth over days: what is rolled up tells the same as the samples do."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.fleet.depth import peaks
from dashboard.fleet.depth.peaks import COARSE_S, FINE_S, SPANS, over, points_of, roll_up, steps
from dashboard.models import DepthPeak, EntityHealth, PairDepth, WaitingSample
from tests.dashboard.conftest import NOW

DAY, WEEK = SPANS["1d"], SPANS["7d"]


@pytest.fixture
def measured(pair, orders):
    """Two days of a pair, sampled every minute: a backlog of 9,000 for ten minutes, 30 hours ago."""
    depths = {minute: 9_000 if 1_800 <= minute < 1_810 else 0 for minute in range(2 * 24 * 60)}
    times = {minute: NOW - timedelta(minutes=minute) for minute in depths}
    PairDepth.objects.bulk_create(PairDepth(pair=pair, at=times[each], messages=depths[each]) for each in depths)
    for minute, depth in depths.items():
        if depth:
            WaitingSample.objects.create(entity=orders, at=times[minute], waiting=depth)
    WaitingSample.objects.create(entity=orders, at=NOW - timedelta(minutes=1_799), waiting=0)
    return pair


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 10**9)), unique_by=lambda one: one[0]), st.just(300))
def test_no_peak_is_lost_and_the_last_depth_stays_the_last(reported, step_s):
    points = [(NOW + timedelta(seconds=at), value) for at, value in sorted(reported)]

    drawn = points_of(steps(points, step_s), step_s)

    assert max((value for _, value in drawn), default=0) == max((value for _, value in points), default=0)
    assert [at for at, _ in drawn] == sorted(at for at, _ in drawn)
    assert not points or drawn[-1][1] == points[-1][1]


def test_rolled_up_twice_or_sample_by_sample_it_is_the_same(measured):
    assert roll_up(measured) > 500
    once = list(DepthPeak.objects.values_list("path", "step_s", "at", "peak", "last"))
    assert roll_up(measured) < 10, "a second look reads what is new"

    assert list(DepthPeak.objects.values_list("path", "step_s", "at", "peak", "last")) == once
    assert {row[1] for row in once} == {FINE_S, COARSE_S}


def test_a_late_sample_still_raises_its_step(measured, orders):
    roll_up(measured)
    WaitingSample.objects.create(entity=orders, at=NOW - timedelta(minutes=1, seconds=1), waiting=77)
    roll_up(measured)

    assert DepthPeak.objects.filter(path="orders", peak=77).count() == 2


def test_a_week_shows_the_peak_and_that_it_is_gone(measured):
    roll_up(measured)

    found = over(measured, ["*", "orders"], WEEK, NOW)

    assert max(value for _, value in found["*"]) == 9_000
    assert found["orders"][-1][1] == 0
    assert peaks.largest(measured, WEEK, NOW, 5) == ["orders"]
    assert peaks.largest(measured, DAY, NOW, 5) == []

    EntityHealth.objects.filter(pair=measured).delete()
    measured.delete()
    assert not DepthPeak.objects.exists(), "peaks go with their pair"


def test_what_nobody_has_rolled_up_yet_is_drawn_for_its_last_hour(measured):
    found = over(measured, ["*"], DAY, NOW)["*"]

    assert found[0][0] >= NOW - timedelta(hours=1)
    assert found[-1][0] == NOW


SHOWN = {"": "1 h", "6h": "6 h", "1d": "1 d", "7d": "7 d", "30d": "30 d"}


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("page", ["/pairs/contoso/", "/pairs/contoso/entities/orders/"])
def test_pages_show_every_span_in_as_many_queries_as_an_hour(
    pair, orders, redis_here, as_role, django_assert_max_num_queries, page, span
):
    roll_up(pair)
    viewer = as_role("viewer")

    with django_assert_max_num_queries(22):
        answer = viewer.get(page, {"span": span})

    assert answer.status_code == 200
    assert f"in the backlog</b>, last {SHOWN[span]}" in answer.text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_span_nobody_knows_is_the_last_hour(pair, redis_here, as_role):
    assert "backlog</b>, last 1\N{NO-BREAK SPACE}h" in as_role("viewer").get("/pairs/contoso/?span=century").text


def test_the_links_to_other_spans_keep_the_filters(pair, redis_here, as_role):
    assert 'href="?q=ord&amp;span=7d"' in as_role("viewer").get("/pairs/contoso/?q=ord&span=1d").text
