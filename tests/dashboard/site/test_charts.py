"""Charts: what is drawn, and what is said to those who do not see it."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dashboard.fleet.depth import spark
from dashboard.models import EntityHealth
from dashboard.site.charts import Series, Window, ceiling, depth_chart, short_number, small_chart, sparkline, thin

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
HOUR = Window.last(timedelta(hours=1), NOW)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("text")]


def test_a_peak_survives_thinning():
    points = [(ago(minute / 10), 900 if minute == 311 else 1) for minute in range(600, 0, -1)]

    thinned = thin(points, HOUR, 60)

    assert len(thinned) <= 61
    assert max(value for _, value in thinned) == 900


def test_thinning_keeps_the_order_of_time():
    points = [(ago(minute), minute) for minute in range(60, 0, -1)]

    times = [at for at, _ in thin(points, HOUR, 30)]

    assert times == sorted(times)


def test_the_last_value_is_the_one_of_now_and_not_a_peak_just_before():
    points = [(ago(0.3), 900), (ago(0.1), 0)]

    assert thin(points, HOUR, 60)[-1] == (ago(0.1), 0)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 10), (1, 10), (10, 10), (11, 12), (99, 100), (2093, 2400), (1_000_001, 1_200_000)]
)
def test_the_axis_ends_at_a_round_number_above(value, top):
    assert ceiling(value) == top


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (12_345, "12.3k"), (4_500_000, "4.5M")]
)
def test_large_numbers_are_said_shortly(value, said):
    assert short_number(value) == said


def test_a_chart_names_each_line_at_its_end_without_overlap():
    lines = [Series(f"entity-{n}", [(ago(30), 5), (ago(1), 100 + n)], f"series-{n}") for n in range(1, 6)]

    svg = depth_chart([Series("total", [(ago(1), 500)], "total"), *lines], HOUR, "Messages")

    heights = sorted(float(y) for y in re.findall(r'<text class="name [^"]*" x="[^"]*" y="([^"]*)"', svg))
    assert len(heights) == 6
    assert min(after - before for before, after in pairwise(heights)) >= 15
    assert any(text.startswith("total") for text in texts(svg))


def test_a_chart_is_an_image_with_a_label_and_no_inline_style():
    svg = depth_chart([Series("total", [(ago(1), 5)], "total")], HOUR, 'now "5"')

    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'now "5"'
    assert "style=" not in svg


def test_names_from_outside_are_escaped():
    svg = depth_chart([Series("<script>alert(1)</script>", [(ago(1), 5)], "total")], HOUR, "<b>")

    assert "<script" not in svg
    assert any("<script>" in text for text in texts(svg))


def test_a_long_name_keeps_its_ends():
    svg = depth_chart([Series("customers/europe/west/orders-by-day", [(ago(1), 5)], "total")], HOUR, "Messages")

    assert any(text.startswith("customers/…ders-by-day") for text in texts(svg))


def test_a_chart_without_points_still_has_its_axes():
    assert "now" in texts(depth_chart([Series("total", [], "total")], HOUR, "Messages"))


def test_a_sparkline_without_anything_waiting_is_flat():
    assert "spark-flat" in sparkline([(ago(5), 0)], HOUR, "orders: nothing waiting")
    assert "spark-flat" not in sparkline([(ago(5), 3)], HOUR, "orders: 3 waiting")


def test_a_sparkline_s_area_begins_where_its_line_does():
    drawn = sparkline([(ago(30), 3), (ago(5), 4)], HOUR, "orders: 4 waiting", width=120, height=28)

    assert 'points="60.0,26 60.0,' in drawn


def test_on_a_phone_the_words_are_as_large_as_the_screen_allows_and_do_not_meet():
    svg = small_chart([Series("total", [(ago(1), 500)], "total")], HOUR, "Messages")

    assert 'viewBox="0 0 340 180"' in svg
    assert svg.count('class="tick"') == 6
    assert 'class="name' not in svg


def test_a_backlog_that_emptied_in_the_moment_of_its_peak_is_not_drawn_as_a_plateau():
    points = [(ago(40.2), 0), (ago(40.1), 900), (ago(40.05), 0), (ago(2), 0)]

    values = [value for _, value in thin(points, HOUR, 60)]

    assert values == [900, 0, 0]


def test_an_entity_s_line_begins_with_nothing_waiting_where_nothing_was_measured():
    drawn = spark(EntityHealth(path="orders"), [(ago(30), 7), (ago(10), 0)], HOUR)

    assert 'points="0.0,26.0 60.0,26.0 60.0,2.0' in drawn


def test_a_long_axis_is_reported_in_days():
    week = Window.last(timedelta(days=7), NOW)

    assert "−7 d" in texts(depth_chart([Series("total", [], "total")], week, "Messages"))
