"""When a backlog is drained or full: from the depths of the last two minutes, on a made-up clock."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.fleet.trend import Trend, drain_rate, trend

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)


def depths(*values: int, every_s: float = 20) -> list[tuple[datetime, int]]:
    """Depths up to now."""
    last = len(values) - 1
    return [(NOW - timedelta(seconds=every_s * (last - place)), value) for place, value in enumerate(values)]


def test_a_backlog_that_shrinks_is_drained_at_the_rate_of_the_last_minutes():
    assert trend(depths(1000, 900, 800), 0, NOW, is_paused=False) == Trend(drained_in=timedelta(seconds=160))


def test_a_pause_within_the_last_minutes_does_not_slow_the_rate():
    points = depths(1000, 900, 900, 900, 800)

    assert drain_rate(points) == pytest.approx(5)
    assert trend(points, 0, NOW, is_paused=False).drained_in == timedelta(seconds=160)


def test_a_paused_backlog_is_not_drained_at_any_time():
    assert trend(depths(1000, 900, 800), 0, NOW, is_paused=True) == Trend()


def test_a_backlog_that_grows_is_full_when_its_room_is_used_up():
    assert trend(depths(0, 100, 200), 1000, NOW, is_paused=True) == Trend(full_in=timedelta(seconds=200))


def test_the_time_before_it_began_to_grow_does_not_slow_the_rate():
    assert trend(depths(0, 0, 0, 0, 100, 200), 1000, NOW, is_paused=False) == Trend(full_in=timedelta(seconds=200))


def test_a_backlog_that_has_begun_to_shrink_is_not_full_at_any_time():
    points = depths(0, 100, 200, 180, 150)

    assert trend(points, 1000, NOW, is_paused=False) == Trend(drained_in=timedelta(seconds=120))
    assert trend(points, 1000, NOW, is_paused=True) == Trend()


def test_a_backlog_that_grows_again_is_not_drained_at_any_time():
    assert trend(depths(900, 500, 100, 150, 200), 1000, NOW, is_paused=False) == Trend(full_in=timedelta(seconds=400))


def test_one_look_at_a_turn_does_not_count():
    assert trend(depths(0, 100, 200, 190, every_s=5), 1000, NOW, is_paused=False).full_in is not None


def test_ten_seconds_of_growth_are_needed_to_say_when_it_is_full():
    assert trend(depths(0, 0, 0, 0, 100, every_s=5), 1000, NOW, is_paused=False) == Trend()


def test_what_would_take_more_than_ten_years_is_not_said():
    assert trend(depths(0, 10, 20), 10**9, NOW, is_paused=False) == Trend()


def test_without_a_known_room_nobody_knows_when_it_is_full():
    assert trend(depths(0, 100, 200), 0, NOW, is_paused=False) == Trend()


@pytest.mark.parametrize(
    "points", [[], depths(5), depths(9, 1, every_s=5), depths(50, 50, 50), depths(100, 0), depths(9, 8, every_s=500)]
)
def test_what_is_too_short_or_does_not_move_or_is_over_has_no_trend(points):
    assert trend(points, 1000, NOW, is_paused=False) == Trend()
