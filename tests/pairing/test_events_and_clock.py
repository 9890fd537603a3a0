"""Events are the same wherever they are reported; time never jumps, whatever the wall clock does."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from pairing.clock import SystemClock
from pairing.events import KINDS


def test_the_kinds_are_the_contracts():
    assert len(KINDS) == 17


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
