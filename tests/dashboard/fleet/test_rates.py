"""The forecast of traffic, compared with what comes afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import pi, sin
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.fleet.usage.rates import DAY, HOUR, LONGEST, MINUTE, Expected, Traffic
from tests.selection import depth

NOW = datetime(2026, 11, 22, 10, 20, 40, tzinfo=UTC)
Rate = Callable[[datetime], float]
"""Messages per minute at a time."""


def constant(per_minute: float) -> Rate:
    return lambda _: per_minute


def daily(per_minute: float, swing: float) -> Rate:
    """More by day than by night."""
    return lambda at: per_minute * (1 + swing * sin(2 * pi * (at.hour * 60 + at.minute) / 1440))


def since(begin: datetime, rate: Rate) -> Rate:
    """An entity that is new."""
    return lambda at: rate(at) if at >= begin else 0.0


def bursts(per_minute: float) -> Rate:
    """All messages of half an hour within three minutes."""
    return lambda at: per_minute * 10 if at.minute % 30 < 3 else 0.0


def simulated(rate: Rate, now: datetime, seed: int, days: int = 7) -> Traffic:
    """What was metered until now, with the chance of independent messages."""
    dice = Random(seed)
    minutes: dict[datetime, int] = {}
    hours: dict[datetime, int] = {}
    at = (now - DAY * days).replace(hour=0, minute=0, second=0, microsecond=0)
    while at < now:
        count = max(0, round(dice.gauss(rate(at), rate(at) ** 0.5)))
        hours[at.replace(minute=0)] = hours.get(at.replace(minute=0), 0) + count
        if at >= now - HOUR * 2:
            minutes[at] = count
        at += MINUTE
    return Traffic(minutes, {hour: count for hour, count in hours.items() if hour < now.replace(minute=0, second=0)})


def outcome(rate: Rate, now: datetime, ahead: timedelta) -> float:
    """Messages per hour that came."""
    minutes = round(ahead / MINUTE)
    return sum(rate(now + MINUTE * minute) for minute in range(minutes)) / (ahead / HOUR)


def forecast(rate: Rate, ahead: timedelta = HOUR, now: datetime = NOW, seed: int = 1) -> Expected:
    found = simulated(rate, now, seed).expected(now, ahead)
    assert found is not None
    return found


@settings(max_examples=depth(200), deadline=None)
@given(
    per_minute=st.floats(60, 5_000),
    swing=st.floats(0, 0.8),
    at=st.integers(0, 1439),
    hours=st.sampled_from([1, 3, 12, 24]),
    seed=st.integers(0, 10**6),
)
def test_steady_traffic_comes_within_a_fifth_of_the_forecast(
    per_minute: float, swing: float, at: int, hours: int, seed: int
) -> None:
    now, rate = NOW + MINUTE * at, daily(per_minute, swing)
    came = outcome(rate, now, HOUR * hours)
    assert forecast(rate, HOUR * hours, now, seed).per_hour == pytest.approx(came, rel=0.2)


@pytest.mark.parametrize("old", [3, 5, 14, 40], ids=lambda minutes: f"{minutes} minutes old")
def test_a_new_entity_is_forecast_from_the_minutes_it_has(old: int) -> None:
    rate = since(NOW.replace(second=0) - MINUTE * old + timedelta(seconds=20), constant(200))
    assert forecast(rate).per_hour == pytest.approx(12_000, rel=0.2)


def test_the_interval_of_bursts_is_wide_and_that_of_steady_traffic_narrow() -> None:
    after_one = NOW.replace(minute=34)
    wide, narrow = forecast(bursts(100), now=after_one), forecast(constant(100))
    assert (wide.high - wide.low) / wide.per_hour > 1
    assert (narrow.high - narrow.low) / narrow.per_hour < 0.2
    assert wide.low <= outcome(bursts(100), NOW, HOUR) <= wide.high


def test_traffic_that_has_grown_counts_more_than_earlier_days() -> None:
    grown = since(NOW - HOUR, constant(228))
    found = forecast(lambda at: grown(at) or 9.0)
    assert found.per_hour == pytest.approx(13_700, rel=0.2)
    assert found.words == "in the last 15 minutes"


def test_without_traffic_the_same_hours_of_earlier_days_are_expected() -> None:
    usual = daily(100, 0.5)
    found = forecast(lambda at: 0.0 if at > NOW - HOUR else usual(at))
    assert found.per_hour == pytest.approx(outcome(usual, NOW, HOUR), rel=0.2)
    assert found.low <= found.per_hour <= found.high
    assert found.words == "at this time of the last 7 days"


def test_nothing_is_expected_where_nothing_is_known() -> None:
    assert Traffic({}, {}).expected(NOW) is None
    assert Traffic({}, {}).lasts(1_000, NOW) is None


@pytest.mark.parametrize(("room_hours", "swing"), [(0.5, 0.0), (5, 0.0), (80 * 24, 0.0), (30, 0.6)])
def test_the_time_until_so_many_messages_came_is_right_within_a_fifth(room_hours: float, swing: float) -> None:
    rate = daily(228, swing)
    room = outcome(rate, NOW, HOUR * room_hours) * room_hours
    found = simulated(rate, NOW, 1).lasts(room, NOW)
    assert found is not None
    assert found / HOUR == pytest.approx(room_hours, rel=0.2)


def test_no_time_is_longer_than_ten_years() -> None:
    assert simulated(constant(30), NOW, 1).lasts(10.0**15, NOW) == LONGEST
