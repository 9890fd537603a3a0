"""Events are the same wherever they are reported; time never jumps, whatever the wall clock does."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from pairing import Event
from pairing.clock import SystemClock
from pairing.events import KINDS

EVENT = Event(
    id="0" * 32,
    time=datetime(2026, 11, 21, 2, 3, 4, 567890, tzinfo=UTC),
    pair="contoso",
    entity="orders",
    kind="failed_over",
    reason="no answer: grüße",
    process="host:1:abcdef01",
    operator=None,
)


@pytest.mark.parametrize("operator", [None, "ann"])
def test_an_event_survives_json(operator):
    event = Event(**{name: getattr(EVENT, name) for name in Event.__slots__} | {"operator": operator})
    assert Event.from_json(event.to_json()) == event
    assert Event.from_json(event.to_json().encode()) == event
    assert "\n" not in event.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "x"}'])
def test_what_is_no_event_is_refused(text):
    with pytest.raises(ValueError, match=r"not an? |Expecting|id"):
        Event.from_json(text)


def test_the_kinds_are_the_contracts():
    assert len(KINDS) == 17
    assert EVENT.kind in KINDS


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_the_name_of_a_kind_can_be_stored_and_only_entities_have_outages(name, kind):
    assert re.fullmatch(r"[a-z][a-z_]{1,19}", name)
    assert kind.label
    assert kind.meaning
    assert kind.is_of_entity or kind.outage is None


def test_a_moment_keeps_its_time_from_call_to_call():
    clock = SystemClock()
    at = clock.now()
    assert clock.utc(at) == clock.utc(at)
    before, moment, after = datetime.now(UTC), clock.utc(clock.now()), datetime.now(UTC)
    assert before - timedelta(seconds=1) < moment < after + timedelta(seconds=1)
    assert clock.at(clock.utc(at)) == pytest.approx(at, abs=1e-3)


def test_where_the_wall_clock_is_set_times_follow_and_durations_do_not(monkeypatch):
    clock = SystemClock()
    before = clock.now()
    wall = time.time
    monkeypatch.setattr("pairing.clock.time.time", lambda: wall() + 3600)
    assert clock.now() - before < 60
    assert clock.utc(clock.now()) - datetime.now(UTC) > timedelta(minutes=59)
