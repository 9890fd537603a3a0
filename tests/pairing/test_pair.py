"""What many threads see of an entity is reported once, and in its order (docs/specification.md, sections 5 and 11)."""

import errno
import threading
from datetime import timedelta

import pytest

from pairing import SendAvailabilityOptions
from pairing.health.flows import PingResult
from pairing.pair import GuardedEntity, Pair
from pairing.testing import ManualClock


def pair(**options) -> Pair:
    return Pair(SendAvailabilityOptions(**options), "contoso", "host:1:abc", ManualClock())


def test_a_callback_that_blocks_delays_and_reorders_nothing_for_the_fleet():
    here = pair(failover_interval=timedelta(0))
    changes, gate, blocked = [], threading.Event(), threading.Event()

    def block(event):
        if event.kind == "failed_over":
            blocked.set()
            gate.wait(60)

    here.on_change = lambda change: changes.append(change.state)
    here.on_event = block
    entity = GuardedEntity(here, "orders")
    failing = threading.Thread(target=entity.failed, args=(0.0, OSError("away"), 0.0))
    failing.start()
    assert blocked.wait(60)
    here.pinged(PingResult("orders", True, "accepted"))
    gate.set()
    failing.join(60)
    assert changes == ["failed_over", "healthy"]


class _ChangesUnderOurEyes:
    """A machine that another thread makes failing right after it was looked at."""

    def __init__(self, machine, change) -> None:
        self._machine, self._change = machine, change

    def __getattr__(self, name):
        found = getattr(self._machine, name)
        if name == "state" and self._change is not None:
            change, self._change = self._change, None
            change()
        return found


def test_a_failure_that_comes_beside_a_success_is_never_cleared_in_silence():
    here, reported = pair(), []
    here.on_event = lambda event: reported.append(event.kind)
    entity, other = GuardedEntity(here, "orders"), GuardedEntity(here, "orders")
    entity.machine = _ChangesUnderOurEyes(entity.machine, lambda: other.failed(0.0, OSError("away"), 0.0))
    entity.sent(0.0)
    assert (reported, here.health("orders").state) in [(["failing"], "failing"), (["failing", "recovered"], "healthy")]


class ClockStartedLater(ManualClock):
    """The clock of a process whose steady time began at another moment."""

    def utc(self, at):
        return super().utc(at + 1234.567)

    def at(self, when):
        return super().at(when) - 1234.567


def test_a_hold_that_expires_in_every_process_of_a_fleet_is_one_event():
    reported = []
    expires = ManualClock().utc(1500.25)
    for clock in (ManualClock(), ClockStartedLater()):
        process = Pair(SendAvailabilityOptions(), "contoso", f"host:{id(clock)}", clock)
        process.on_report = reported.append
        process.fail_over("orders", "maintenance", True, expires, "ann")
        clock.advance(clock.at(expires) + 0.2)
        process.tick()
    released = [event for event in reported if event.kind == "released"]
    assert [(event.time, event.reason) for event in released] == [(expires, "the hold has expired")] * 2
    assert len({event.id for event in released}) == 1
    assert len({event.id for event in reported}) == 3


def test_the_end_of_a_hold_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="expires is the end of a hold"):
        pair().fail_over("orders", "maintenance", False, timedelta(minutes=5), "ann")


def test_a_process_without_descriptors_reports_itself_once_in_ten_minutes_and_no_entity(caplog):
    here, events = pair(), []
    here.on_event = events.append
    for at in (0, 599, 600):
        here.clock.advance(timedelta(seconds=at - here.clock.now()))
        here.note_shortage(OSError(errno.EMFILE, "Too many open files"))
        here.note_shortage(OSError(errno.ECONNREFUSED, "away"))
    assert [(event.kind, event.entity) for event in events] == 2 * [("out_of_resources", "*")]
    assert caplog.text.count("run out of resources") == 2
