"""Charts: what is drawn, and what is said to those who do not see it."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from dashboard.fleet.depth.charts import spark
from dashboard.fleet.depth.marks import with_drained
from dashboard.models import EntityHealth
from dashboard.site.charts import Chart, Mark, Series, Window, ceiling, chart, thin
from dashboard.site.plots import TOTAL, drawing, hue, looks, short_number, sparkline, value_axis

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
HOUR = Window.last(timedelta(hours=1), NOW)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def of(*points: tuple[datetime, int], name: str = "total", tone: str = TOTAL) -> Series:
    return Series(name, points, tone)


def messages(*series: Series, marks: tuple[Mark, ...] = (), window: Window = HOUR) -> Chart:
    return chart(series, window, "Messages in the backlog", "messages", marks)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("text")]


def test_a_peak_survives_thinning_which_keeps_the_order_and_the_last_value():
    points = [(ago(minute / 10), 900 if minute == 311 else 1) for minute in range(600, 0, -1)]

    thinned = thin(points, HOUR, 60)

    assert len(thinned) <= 61
    assert max(value for _, value in thinned) == 900
    assert thinned == sorted(thinned, key=lambda one: one[0])
    assert thin([(ago(0.3), 900), (ago(0.1), 0)], HOUR, 60)[-1] == (ago(0.1), 0), "the last is no peak just before"


@pytest.mark.parametrize(
    ("value", "top"), [(0, 10), (1, 10), (10, 10), (11, 12), (99, 100), (2093, 2400), (1_000_001, 1_200_000)]
)
def test_the_axis_ends_at_a_round_number_above(value, top):
    assert ceiling(value) == top


def test_the_axis_of_a_scale_is_the_whole_scale_so_that_a_low_value_looks_low():
    score = of((ago(30), 20))

    assert chart([score], HOUR, "Readiness", "points of 100", least_top=100).top == 100
    assert chart([], HOUR, "Readiness", "points of 100", least_top=100).top == 100
    low, high = (sparkline([(ago(30), value)], HOUR, "", least_top=100) for value in (20, 100))
    assert low != high


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (12_345, "12.3k"), (4_500_000, "4.5M")]
)
def test_large_numbers_are_said_shortly(value, said):
    assert short_number(value) == said


def test_the_axis_has_round_values_and_their_unit():
    assert texts(value_axis(2400, "messages")) == ["messages", "2,400", "1,200", "0"]


def test_the_values_of_all_lines_are_of_the_same_moments():
    total = of(*((ago(minute), 100 - minute) for minute in range(60, 0, -1)))
    orders = of((ago(30.5), 60), (ago(20), 5), name="orders", tone=hue("orders"))

    shown = messages(total, orders)

    assert [len(line.values) for line in shown.lines] == [len(shown.stops)] * 2
    at = dict(zip(shown.stops, zip(*(line.values for line in shown.lines), strict=True), strict=True))
    assert at[ago(60)] == (40, None)
    assert at[ago(30.5)] == (69, 60)  # the other line's peak is a moment, too
    assert at[ago(30)] == (70, 60)
    assert at[ago(1)] == (99, 5)


def test_an_entity_has_one_colour_in_all_charts_and_lines_that_share_it_have_different_dashes():
    names = [f"entity-{number}" for number in range(12)]

    together = looks(names)

    assert [look.split()[0] for look in together] == [hue(name) for name in names]
    assert len(set(together)) == len(names)
    assert hue("Orders") == hue("orders") == "hue-3"  # as in the version before


def test_events_are_numbered_marks_and_those_at_about_one_time_have_one():
    points = of((ago(50), 5), (ago(1), 7))
    marks = (
        Mark(ago(20), "Recovered", "healthy", "orders", is_end=True),
        Mark(ago(40), "Failed over", "failed-over", "orders"),
        Mark(ago(39.5), "Failed over", "failed-over", "payments"),
        Mark(ago(38.5), "Held", "held", "orders"),
        Mark(ago(90), "Failed over", "failed-over", "long ago"),
    )

    shown = messages(points, marks=marks)

    assert [(mark.number, mark.at, list(mark.words)) for mark in shown.marks] == [
        (1, ago(40), ["Failed over: orders, payments", "02:21:30 Held: orders"]),
        (2, ago(20), ["Recovered: orders"]),
    ]
    assert {ago(40), ago(20)} <= set(shown.stops)  # so that the keyboard stops there
    assert 'class="happening is-failed-over"' in drawing(shown)
    assert "02:20:00 UTC, Failed over: orders, payments" in drawing(shown)


def test_a_backlog_counts_as_drained_when_it_is_first_empty_after_a_recovery():
    points = [(ago(40), 0), (ago(30), 9), (ago(10), 4), (ago(5), 0), (ago(3), 0)]
    recovered = Mark(ago(20), "Recovered", "healthy", is_end=True)

    assert [(mark.at, mark.words) for mark in with_drained([recovered], points)] == [
        (ago(20), "Recovered"),
        (ago(5), "Drained"),
    ]
    assert with_drained([], points) == []
    assert with_drained([recovered], points[:3]) == [recovered]  # not yet
    assert with_drained([recovered], [(ago(25), 0), (ago(15), 0)]) == [recovered]  # nothing had to be drained


def test_a_chart_is_an_image_with_a_label_and_no_inline_style():
    svg = drawing(messages(of((ago(10), 8), (ago(1), 5))))

    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert (
        root.get("aria-label") == "Messages in the backlog, last 1\N{NO-BREAK SPACE}h: highest 8 at 02:50:00 UTC, now 5"
    )
    assert "style" not in svg


def test_words_keep_their_size_whatever_the_width():
    root = ElementTree.fromstring(
        drawing(messages(of((ago(1), 5)), marks=(Mark(ago(9), "Failed over", "failed-over"),)))
    )

    assert (root.get("width"), root.get("viewBox")) == ("100%", None)
    stretched = [node for node in root.iter("svg") if node.get("viewBox")]
    assert [node.get("preserveAspectRatio") for node in stretched] == ["none"]
    assert [list(node.iter("text")) for node in stretched] == [[]]
    assert all(node.get("x").endswith("%") for node in root.iter("text"))


def test_names_from_outside_are_escaped():
    hostile = Mark(ago(5), "<script>alert(1)</script>", "failed-over")

    svg = drawing(chart([of((ago(10), 5))], HOUR, '<b>"', "messages", [hostile]))

    assert "<script" not in svg
    assert ElementTree.fromstring(svg).get("aria-label", "").startswith('<b>"')


def test_a_chart_says_what_it_shows():
    day = Window.last(timedelta(days=2), NOW)

    assert (HOUR.words, HOUR.bounds) == ("last 1\N{NO-BREAK SPACE}h", "02:00 to 03:00 UTC")
    assert (day.words, day.bounds) == ("last 2\N{NO-BREAK SPACE}d", "2026-10-31 03:00 to 2026-11-02 03:00 UTC")
    assert Window(ago(30), NOW, is_past=True).words == "30\N{NO-BREAK SPACE}min"


def test_a_chart_begins_with_the_value_at_the_start_of_its_window():
    shown = messages(of((ago(70), 3), (ago(65), 4), (ago(10), 9)))

    assert (shown.stops[0], shown.lines[0].values) == (ago(60), [4, 9])


def test_a_chart_without_points_still_has_its_axes():
    shown = messages(of())

    assert shown.is_empty
    assert shown.label.endswith("nothing measured")
    assert "now" in texts(drawing(shown))


def test_a_line_of_nothing_is_a_sentence_unless_something_happened():
    assert messages(of((ago(9), 0), (ago(1), 0))).is_flat
    assert not messages(of((ago(9), 0), (ago(1), 1))).is_flat
    assert not messages(of((ago(9), 0)), marks=(Mark(ago(5), "Failed over", "failed-over"),)).is_flat


def test_the_numbers_are_a_few_moments_with_the_values_of_all_lines():
    total = of(*((ago(minute), 900 if minute == 31 else minute) for minute in range(60, 0, -1)))
    orders = of(*((ago(minute), minute // 2) for minute in range(60, 0, -1)), name="orders", tone=hue("orders"))

    rows = messages(total, orders).rows

    assert 10 <= len(rows) <= 14
    assert (ago(31), [900, 15]) in rows
    assert rows[-1] == (ago(1), [1, 0])


def test_a_sparkline_is_flat_without_anything_waiting_and_its_area_begins_where_its_line_does():
    assert "spark-flat" in sparkline([(ago(5), 0)], HOUR, "orders: nothing waiting")
    drawn = sparkline([(ago(30), 3), (ago(5), 4)], HOUR, "orders: 4 waiting", width=120, height=28)

    assert ("spark-flat" in drawn, 'points="60.0,26 60.0,' in drawn) == (False, True)


def test_a_backlog_that_emptied_in_the_moment_of_its_peak_is_not_drawn_as_a_plateau():
    points = [(ago(40.2), 0), (ago(40.1), 900), (ago(40.05), 0), (ago(2), 0)]

    values = [value for _, value in thin(points, HOUR, 60)]

    assert values == [900, 0, 0]


def test_an_entity_s_small_line_has_its_colour_and_begins_with_nothing_waiting_where_nothing_was_measured():
    drawn = spark(EntityHealth(path="orders"), [(ago(30), 7), (ago(10), 0)], HOUR)

    assert f'class="spark {hue("orders")}"' in drawn
    assert 'points="0.0,26.0 60.0,26.0 60.0,2.0' in drawn
    assert "at most 7 waiting in the last 1\N{NO-BREAK SPACE}h" in drawn


def test_a_long_axis_is_reported_in_days_and_a_past_one_in_dates():
    week = timedelta(days=7)

    assert "−7 d" in texts(drawing(messages(of(), window=Window.last(week, NOW))))
    assert "10-26 03:00" in texts(drawing(messages(of(), window=Window(NOW - week, NOW, is_past=True))))


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (timedelta(minutes=20), ["−20 min", "−15 min", "−10 min", "−5 min", "now"]),
        (timedelta(minutes=30), ["−30 min", "−25 min", "−20 min", "−15 min", "−10 min", "−5 min", "now"]),
        (timedelta(minutes=10), ["−10 min", "−5 min", "now"]),
        (timedelta(days=7), ["−7 d", "−6 d", "−5 d", "−4 d", "−3 d", "−2 d", "−1 d", "now"]),
    ],
)
def test_the_axis_of_time_has_round_labels_and_a_phone_shows_the_last(length: timedelta, labels: list[str]) -> None:
    drawn = drawing(messages(of(), window=Window.last(length, NOW)))
    found = re.findall(r'<text class="tick( between)?"[^>]*>([^<]+)<', drawn)
    assert [text for _, text in found] == labels
    assert [text for between, text in found if not between] == labels[::-2][::-1]


def test_a_drawing_s_line_is_a_staircase():
    svg = drawing(messages(of((ago(30), 10), (ago(15), 0))))

    assert re.search(r'class="line total" d="M500 0H750V1000H1000"', svg)
