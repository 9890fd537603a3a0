"""The one fold of events into outages."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.alerts.watching.failovers import Began, Ended, follow
from dashboard.fleet.state.outages import TURNS, Fold, Turn, outages
from dashboard.incidents.folding import incidents
from dashboard.models import FailoverEvent

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
KINDS = ["failing", "failed_over", "forced", "held", "released", "recovered"]


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def event(second: float, kind: str) -> FailoverEvent:
    return FailoverEvent(event_id=f"{second} {kind}", time=at(second), pair="contoso", entity="orders", kind=kind)


def spans(*reported: tuple[float, str]) -> list[tuple[float, float | None]]:
    found = outages(event(second, kind) for second, kind in reported)
    return [
        ((one.began.time - NOW).total_seconds(), (one.ended.time - NOW).total_seconds() if one.ended else None)
        for one in found
    ]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ([(0, "failed_over"), (9, "recovered")], [(0, 9)]),
        ([(0, "failing"), (1, "forced"), (2, "held")], [(1, None)]),
        ([(0, "failed_over"), (1, "failed_over"), (8, "recovered"), (9, "recovered")], [(0, 8)]),
        ([(0, "recovered"), (1, "failing")], []),
        ([(0, "failed_over"), (5, "recovered"), (5, "failed_over")], [(0, 5), (5, None)]),
    ],
)
def test_an_outage_goes_from_the_first_failover_to_the_first_recovery(reported, expected):
    assert spans(*reported) == expected


def test_an_event_from_before_the_last_end_begins_nothing():
    fold = Fold(ended_at=at(10))

    assert fold.take(event(8, "failed_over")) is None
    assert fold.take(event(12, "failed_over")) is Turn.BEGAN
    assert fold.take(event(11, "recovered")) is None
    assert fold.take(event(15, "recovered")) is Turn.ENDED


@settings(deadline=None)  # the machine may stall
@given(st.lists(st.tuples(st.integers(1, 600), st.sampled_from(KINDS)), max_size=30))
def test_incidents_alerts_and_charges_report_the_same_outages(steps):
    second, events = 0, []
    for gap, kind in steps:
        second += gap
        events.append(event(second, kind))

    charged = [(one.began.time, one.ended.time if one.ended else None) for one in outages(events)]
    shown = [(one.failed_over_at, one.recovered_at) for one in incidents(events, timedelta(seconds=5))]
    turns = [one for one in events if one.kind in TURNS]
    steps_taken = follow(None, None, turns, None, at(second))

    assert charged == shown
    assert [one.at for one in steps_taken if isinstance(one, Began)] == [began for began, _ in charged]
    assert [one.at for one in steps_taken if isinstance(one, Ended)] == [ended for _, ended in charged if ended]
