"""When a backlog is drained or full: from the depths of the last two minutes, on a made-up clock."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.fleet.depth.trend import Trend, trend

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)


def depths(*values: int, every_s: float = 20) -> list[tuple[datetime, int]]:
    """Depths up to now."""
    last = len(values) - 1
    return [(NOW - timedelta(seconds=every_s * (last - place)), value) for place, value in enumerate(values)]


def drained(seconds: float) -> Trend:
    return Trend(drained_in=timedelta(seconds=seconds))


def full(seconds: float) -> Trend:
    return Trend(full_in=timedelta(seconds=seconds))


TURNED = depths(0, 100, 200, 180, 150)
CASES = {
    "it shrinks at the rate of the last minutes": (depths(1000, 900, 800), 0, False, drained(160)),
    "a pause does not slow the rate": (depths(1000, 900, 900, 900, 800), 0, False, drained(160)),
    "while it is paused it is drained at no time": (depths(1000, 900, 800), 0, True, Trend()),
    "it grows until its room is used up": (depths(0, 100, 200), 1000, True, full(200)),
    "the time before it began to grow does not slow the rate": (depths(0, 0, 0, 0, 100, 200), 1000, False, full(200)),
    "it has begun to shrink": (TURNED, 1000, False, drained(120)),
    "it has begun to shrink and is paused": (TURNED, 1000, True, Trend()),
    "it grows again": (depths(900, 500, 100, 150, 200), 1000, False, full(400)),
    "of quick turns the latest counts, up": (depths(500, 900, 0, 100, 200, every_s=15), 1000, False, full(150)),
    "of slow turns the latest counts, up": (depths(500, 900, 0, 100, 200, every_s=30), 1000, False, full(300)),
    "of quick turns the latest counts, down": (depths(500, 0, 900, 800, 700, every_s=15), 1000, False, drained(105)),
    "of slow turns the latest counts, down": (depths(500, 0, 900, 800, 700, every_s=30), 1000, False, drained(210)),
    "it goes up and down": (depths(500, 400, 500, 400, 500, 400, 500, every_s=10), 1000, False, Trend()),
    "ten seconds of growth are needed": (depths(0, 0, 0, 0, 100, every_s=5), 1000, False, Trend()),
    "more than ten years are not said": (depths(0, 10, 20), 10**9, False, Trend()),
    "its room is not known": (depths(0, 100, 200), 0, False, Trend()),
    "nobody has looked": ([], 1000, False, Trend()),
    "one look is too few": (depths(5), 1000, False, Trend()),
    "five seconds are too short": (depths(9, 1, every_s=5), 1000, False, Trend()),
    "it does not move": (depths(50, 50, 50), 1000, False, Trend()),
    "it is empty": (depths(100, 0), 1000, False, Trend()),
    "the look before is long ago": (depths(9, 8, every_s=500), 1000, False, Trend()),
}


@pytest.mark.parametrize(("points", "room", "is_paused", "expected"), CASES.values(), ids=CASES.keys())
def test_the_last_minutes_say_when_a_backlog_is_drained_or_full(points, room, is_paused, expected):
    assert trend(points, room, NOW, is_held=is_paused) == expected


def test_a_turn_counts_after_half_a_minute():
    assert trend(depths(0, 100, 200, 150, 100, every_s=10), 1000, NOW, is_held=False).full_in is not None
    assert trend(depths(0, 100, 200, 150, 100, 50, every_s=10), 1000, NOW, is_held=False).drained_in is not None


@pytest.mark.parametrize("every_s", [5, 30])
def test_a_step_back_is_no_turn(every_s):
    grows = trend(depths(1000, 2000, 3000, 4000, 3999, every_s=every_s), 10_000, NOW, is_held=False)
    shrinks = trend(depths(4000, 3000, 2000, 1000, 1001, every_s=every_s), 10_000, NOW, is_held=False)

    assert grows.full_in is not None
    assert shrinks.drained_in is not None


def test_a_backlog_that_is_filled_faster_than_it_is_drained_keeps_its_direction():
    steps = [50, -20, -20] * 20
    levels = [sum(steps[:count], 1000) for count in range(len(steps) + 1)]

    for end in range(24, len(levels)):
        assert trend(depths(*levels[: end + 1], every_s=5), 10_000, NOW, is_held=False).full_in is not None
    for end in range(24, len(levels)):
        falling = [2000 - level for level in levels[: end + 1]]
        assert trend(depths(*falling, every_s=5), 10_000, NOW, is_held=False).drained_in is not None
