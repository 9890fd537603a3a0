"""Time never jumps, whatever the wall clock does, and is one for a fleet (docs/specification.md, section 11); events
are the same wherever they are reported."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from pairing.clock import SystemClock
from pairing.events import KINDS
from pairing.fleet.clock import FleetClock

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Machine:
    """Its clocks, and a fleet whose answers take a while."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.passed, self.ahead_s = 0.0, ahead_s
        self.clock = FleetClock(lambda: NOON.timestamp() + self.passed + self.ahead_s, lambda: self.passed)

    def looks(self, there_s: float = 0.001, back_s: float = 0.001) -> None:
        def ask() -> datetime:
            self.passed += there_s
            reported = self.fleet_time()
            self.passed += back_s
            return reported

        self.clock.look(ask)

    def fleet_time(self) -> datetime:
        return NOON + timedelta(seconds=self.passed)

    def own_time(self) -> datetime:
        return self.fleet_time() + timedelta(seconds=self.ahead_s)


@pytest.mark.parametrize("ahead_s", [3.0, -3.0, 0.01])
def test_what_a_clock_that_is_off_says_is_reported_by_the_fleet_s(ahead_s):
    machine = Machine(ahead_s)
    machine.looks()
    assert machine.clock.ahead_s == pytest.approx(ahead_s, abs=1e-6)
    assert abs(machine.clock.fleet_time(machine.own_time(), "orders") - machine.fleet_time()) < timedelta(
        microseconds=10
    )


def test_a_clock_that_is_right_as_far_as_can_be_known_is_believed():
    machine = Machine(0.02)
    machine.looks(0.05, 0.01)
    assert machine.clock.ahead_s == 0.0
    assert machine.clock.fleet_time(NOON, "orders") == NOON


def test_without_an_answer_the_own_clock_is_believed():
    assert Machine(3.0).clock.fleet_time(NOON, "orders") == NOON


def test_the_quickest_answer_of_late_counts():
    machine = Machine(3.0)
    machine.looks()
    machine.looks(1.5, 0.1)
    assert machine.clock.ahead_s == pytest.approx(3.0, abs=1e-6)


def test_an_answer_from_before_the_clock_was_set_counts_no_more():
    machine = Machine(3.0)
    machine.looks()
    machine.ahead_s = -1.0
    assert machine.clock.ahead_s == 0.0
    machine.looks(0.01, 0.01)
    assert machine.clock.ahead_s == pytest.approx(-1.0, abs=1e-6)


def test_a_better_answer_turns_no_two_events_of_an_entity_round():
    machine = Machine(3.0)
    machine.looks(0.09, 0.01)  # 40 ms wrong
    first = machine.clock.fleet_time(machine.own_time(), "orders")
    machine.passed += 0.002
    machine.looks()
    machine.passed += 0.002
    assert machine.clock.fleet_time(machine.own_time(), "orders") != first
    early = machine.clock.fleet_time(machine.own_time() - timedelta(seconds=0.06), "orders")
    assert early > first
    assert machine.clock.fleet_time(machine.own_time() - timedelta(hours=1), "orders") < first, (
        "it waited long to be reported"
    )
    assert machine.clock.fleet_time(machine.own_time() - timedelta(seconds=0.06), "invoices") < early


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
