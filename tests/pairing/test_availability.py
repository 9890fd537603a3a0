"""docs/specification.md, section 5: the state machine of one entity."""

import pytest

from pairing.health.availability import FAILED_OVER, FAILING, HEALTHY, TRANSITIONS, News, PathAvailability

INTERVAL = 60.0
PING = 30.0


def entity(*, failover_interval_s: float = INTERVAL, flap_damping: bool = True) -> PathAvailability:
    return PathAvailability(
        "orders",
        failover_interval_s=failover_interval_s,
        ping_primary_interval_s=PING,
        flap_damping=flap_damping,
        since=0.0,
    )


def fail(machine: PathAvailability, now: float, reason: str = "no answer") -> list[str]:
    return kinds(machine.failed(now, reason, began=now))


def kinds(transitions) -> list[str]:
    return [transition.kind for transition in transitions]


def failed_over(now: float = 0.0, **options) -> PathAvailability:
    machine = entity(**options)
    fail(machine, now)
    machine.expire(now + INTERVAL)
    assert machine.state is FAILED_OVER
    return machine


# The table: in which state which event leads where, and is reported as what

STATES = {"healthy": lambda: entity(), "failing": lambda: _failing(), "failed over": lambda: failed_over()}


def _failing() -> PathAvailability:
    machine = entity()
    fail(machine, 0.0)
    return machine


EVENTS = {
    "a message is sent": lambda machine, now: machine.sent(now),
    "a qualifying failure": lambda machine, now: machine.failed(now, "no answer", began=now),
    "the interval passes": lambda machine, now: machine.expire(now + INTERVAL),
    "a ping is refused": lambda machine, now: machine.pinged(False, "no answer", now),
    "a ping is accepted": lambda machine, now: machine.pinged(True, "accepted", now),
    "an operator forces": lambda machine, now: machine.force("maintenance", now, operator="ann"),
    "an operator marks healthy": lambda machine, now: machine.mark_healthy(now, operator="ann"),
    "an operator holds": lambda machine, now: machine.hold(now, operator="ann"),
    "an operator releases": lambda machine, now: machine.release(now, operator="ann"),
}

CHANGES = {
    ("healthy", "a qualifying failure"): (FAILING, "failing"),
    ("healthy", "an operator forces"): (FAILED_OVER, "forced"),
    ("failing", "a message is sent"): (HEALTHY, "recovered"),
    ("failing", "the interval passes"): (FAILED_OVER, "failed_over"),
    ("failing", "an operator forces"): (FAILED_OVER, "forced"),
    ("failed over", "a ping is accepted"): (HEALTHY, "recovered"),
    ("failed over", "an operator forces"): (FAILED_OVER, "forced"),
    ("failed over", "an operator marks healthy"): (HEALTHY, "recovered"),
    ("failed over", "an operator holds"): (FAILED_OVER, "held"),
}
"""Every other event changes nothing, and is not reported."""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_transition_table(state, event):
    machine = STATES[state]()
    then, kind = CHANGES.get((state, event), (machine.state, None))
    assert kinds(EVENTS[event](machine, INTERVAL / 2)) == ([] if kind is None else [kind])
    assert machine.state is then


def test_the_machines_own_table_leads_nowhere_that_the_transitions_here_do_not():
    listed = {(state, then, kind) for state, row in TRANSITIONS.items() for then, kind in row.values()}
    here = {(STATES[state]().state, then, kind) for (state, _), (then, kind) in CHANGES.items() if kind != "held"}
    assert listed == here | {(HEALTHY, FAILED_OVER, "failed_over")}  # an interval of 0, or another process's failover


# Time


def test_failover_is_engaged_by_time_and_reported_with_the_time_at_which_it_engaged():
    machine = entity()
    fail(machine, 10.0)
    assert machine.expire(10.0 + INTERVAL - 0.001) == []
    (transition,) = machine.expire(500.0)
    assert transition.at == machine.since == 10.0 + INTERVAL


def test_a_failure_of_a_send_begun_before_the_recovery_says_nothing():
    machine = failed_over()
    machine.pinged(True, "accepted", 100.0)
    assert machine.failed(101.0, "no answer", began=99.0) == []
    assert machine.state is HEALTHY


# Pings


def test_server_busy_puts_the_next_ping_ten_seconds_away_at_least():
    machine = PathAvailability("a", failover_interval_s=0, ping_primary_interval_s=1.0, flap_damping=True, since=0.0)
    fail(machine, 0.0)
    machine.pinged(False, "busy", 2.0, busy=True)
    assert not machine.ping_due(11.9)
    assert machine.ping_due(12.0)


def test_an_accepted_ping_proves_that_the_entity_exists():
    machine = failed_over()
    assert not machine.known
    machine.pinged(True, "accepted", 100.0)
    assert machine.known


# Flap damping


def recover_and_fail(machine: PathAvailability, recovered: float, failed: float) -> None:
    machine.pinged(True, "accepted", recovered)
    machine.failed(failed, "again", began=failed)
    machine.expire(failed + INTERVAL)
    assert machine.state is FAILED_OVER


def test_an_entity_that_flaps_is_pinged_at_growing_intervals_up_to_four_times():
    machine = failed_over()
    intervals, now = [machine.ping_interval_s], 100.0
    for _ in range(4):
        recover_and_fail(machine, now, now + 10)
        intervals.append(machine.ping_interval_s)
        now += 200
    assert intervals == [PING, 2 * PING, 4 * PING, 4 * PING, 4 * PING]


def test_ten_healthy_minutes_reset_the_damping():
    machine = failed_over()
    recover_and_fail(machine, 100.0, 110.0)
    assert machine.ping_interval_s == 2 * PING
    recover_and_fail(machine, 300.0, 300.0 + 600.0)
    assert machine.ping_interval_s == PING


def test_flap_damping_can_be_switched_off():
    machine = failed_over(flap_damping=False)
    recover_and_fail(machine, 100.0, 110.0)
    assert machine.ping_interval_s == PING


# Forced states


def test_a_held_entity_is_pinged_and_stays_where_it_is():
    machine = entity()
    machine.force("maintenance", 0.0, operator="ann")
    assert machine.held_by == "ann"
    assert machine.ping_due(PING)
    assert machine.pinged(True, "accepted", PING) == []
    assert machine.state is FAILED_OVER
    assert machine.last_ping_reason == "accepted"
    assert machine.ping_due(2 * PING)


def test_an_expired_hold_is_released():
    machine = entity()
    machine.force("maintenance", 0.0, operator="ann", expires=100.0)
    assert machine.expire(99.9) == []
    (transition,) = machine.expire(100.0)
    assert (transition.kind, transition.operator) == ("released", None)
    assert machine.ping_due(100.0)


def test_who_holds_what_was_forced_for_a_while_holds_it_until_released():
    machine = entity()
    machine.force("maintenance", 0.0, operator="ann", expires=60.0)
    assert kinds(machine.hold(5.0, operator="ann")) == ["held"]
    assert (machine.held_by, machine.expires) == ("ann", None)
    assert machine.hold(6.0, operator="ann") == []


# What the fleet reports (docs/specification.md, section 11)


def news(state=FAILED_OVER, since=1000.0, version=1, **rest) -> News:
    return News(state=state, since=since, reason="elsewhere", version=version, **rest)


def healthy(*, sent: float | None = None) -> PathAvailability:
    machine = entity()
    if sent is not None:
        machine.sent(sent)
    return machine


def adopted(one: News) -> PathAvailability:
    machine = entity()
    machine.adopt(one, 1000.1)
    return machine


def held_elsewhere() -> PathAvailability:
    machine = failed_over()
    machine.adopt(news(version=2, held_by="ann"), 100.0)
    return machine


FORCED = {"origin": "forced", "held_by": "ann"}
ADOPTED = {
    "an organic failover, with no send since it began": (healthy(sent=900.0), news(), ["failed_over"], FAILED_OVER),
    "an organic failover, disputed": (healthy(sent=1000.0 - INTERVAL + 1), news(), [], HEALTHY),
    "a forced one cannot be disputed": (healthy(sent=999.0), news(**FORCED), ["forced"], FAILED_OVER),
    "a recovery": (failed_over(), news(HEALTHY, version=3), ["recovered"], HEALTHY),
    "an older one is ignored": (adopted(news(version=5)), news(HEALTHY, version=4), [], FAILED_OVER),
    "forced, whatever the version": (adopted(news(HEALTHY, version=9)), news(**FORCED), ["forced"], FAILED_OVER),
    "a hold": (failed_over(), news(version=2, held_by="ann"), ["held"], FAILED_OVER),
    "a release": (held_elsewhere(), news(version=3), ["released"], FAILED_OVER),
    "another process is failing": (healthy(), news(FAILING), [], HEALTHY),
}


@pytest.mark.parametrize(("machine", "heard", "reported", "then"), ADOPTED.values(), ids=ADOPTED)
def test_news_of_the_fleet_is_adopted(machine, heard, reported, then):
    transitions = machine.adopt(heard, 1000.2)
    assert [(each.kind, each.adopted) for each in transitions] == [(kind, True) for kind in reported]
    assert (machine.state, machine.disputed) == (then, heard.state is FAILED_OVER and not reported)
    if heard.held_by:
        assert machine.held_by == heard.held_by


def refused_ping() -> PathAvailability:
    machine = failed_over()
    machine.pinged(False, "refused: disabled", 200.0)
    return machine


DUE = {
    "one interval after the failover": (failed_over(), None, INTERVAL + PING),
    "one interval after one that was refused": (refused_ping(), None, 200.0 + PING),
    "one interval after a failover elsewhere": (entity(), news(), 1000.0 + PING),
    "at once after a release elsewhere": (held_elsewhere(), news(version=3), 1010.0),
}


@pytest.mark.parametrize(("machine", "heard", "at"), DUE.values(), ids=DUE)
def test_a_ping_is_due(machine, heard, at):
    if heard is not None:
        machine.adopt(heard, 1010.0)
    assert not machine.ping_due(at - 0.001)
    assert machine.ping_due(at)


# Refused credentials


def test_refused_credentials_never_fail_over_and_are_remembered_until_a_send_is_accepted():
    machine = entity()
    machine.sent(1.0)
    machine.refused(2.0, "refused: wrong key, or no such entity")
    machine.refused(3.0, "refused: wrong key, or no such entity")
    assert (machine.state, machine.refused_since, machine.known) == (HEALTHY, 2.0, True)
    machine.sent(4.0)
    assert machine.refused_since is None
