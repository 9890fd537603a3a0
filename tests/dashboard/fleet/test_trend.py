"""When a backlog is drained or full: from the depths of the last two minutes, on a made-up clock."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.fleet.depth.trend import Trend, drain_rate, trend

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


def test_a_turn_counts_after_half_a_minute():
    assert trend(depths(0, 100, 200, 150, 100, every_s=10), 1000, NOW, is_paused=False).full_in is not None
    assert trend(depths(0, 100, 200, 150, 100, 50, every_s=10), 1000, NOW, is_paused=False).drained_in is not None


@pytest.mark.parametrize("every_s", [15, 30])
def test_only_the_latest_turn_counts(every_s):
    grows = depths(500, 900, 0, 100, 200, every_s=every_s)
    shrinks = depths(500, 0, 900, 800, 700, every_s=every_s)

    assert trend(grows, 1000, NOW, is_paused=False) == Trend(full_in=timedelta(seconds=10 * every_s))
    assert trend(shrinks, 1000, NOW, is_paused=False) == Trend(drained_in=timedelta(seconds=7 * every_s))


@pytest.mark.parametrize("every_s", [5, 30])
def test_a_step_back_is_no_turn(every_s):
    grows = trend(depths(1000, 2000, 3000, 4000, 3999, every_s=every_s), 10_000, NOW, is_paused=False)
    shrinks = trend(depths(4000, 3000, 2000, 1000, 1001, every_s=every_s), 10_000, NOW, is_paused=False)

    assert grows.full_in is not None
    assert shrinks.drained_in is not None


def test_a_backlog_that_is_filled_faster_than_it_is_drained_keeps_its_direction():
    steps = [50, -20, -20] * 20
    levels = [sum(steps[:count], 1000) for count in range(len(steps) + 1)]

    for end in range(24, len(levels)):
        assert trend(depths(*levels[: end + 1], every_s=5), 10_000, NOW, is_paused=False).full_in is not None
    for end in range(24, len(levels)):
        falling = [2000 - level for level in levels[: end + 1]]
        assert trend(depths(*falling, every_s=5), 10_000, NOW, is_paused=False).drained_in is not None


def test_a_backlog_that_goes_up_and_down_has_no_trend():
    assert trend(depths(500, 400, 500, 400, 500, 400, 500, every_s=10), 1000, NOW, is_paused=False) == Trend()


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
