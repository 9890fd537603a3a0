"""Two places decide which report on an entity stands: the script that Redis runs for all, and the state machine of each
process. Both are asked here about every pair of what Redis knows and what a process reports
(docs/specification.md, section 11): what the script lets stand, every process adopts; what it refuses, its author
gives up; what it restores is what a process takes for forgotten.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from pairing.fleet.known_health import has_forgotten
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.health.availability import FAILING, News, PathAvailability, State

pytestmark = pytest.mark.slow

PATH, KNOWN_AT, INTERVAL_S = "orders", 1000, 10.0
NOW = datetime.now(UTC).replace(microsecond=0)
HOLDS = {
    "not held": (None, None),
    "held": ("ann", None),
    "held for an hour": ("ann", NOW + timedelta(hours=1)),
    "held until a minute ago": ("ann", NOW - timedelta(minutes=1)),
}
KINDS = [
    *(("failed_over", origin, *hold) for origin, hold in product(("organic", "forced"), HOLDS.values())),
    ("healthy", "organic", None, None),
    ("healthy", "forced", None, None),
    ("failing", "organic", None, None),
]
"""State, origin, who holds it and until when."""
BASES = {"older": KNOWN_AT - 1, "same": KNOWN_AT, "newer": KNOWN_AT + 1}
"""The version that the author of a report knew, beside the one that Redis knows."""


def name(kind) -> str:
    """What a parameter is called in a report of the tests."""
    if kind is None:
        return "nothing"
    state, origin, *hold = kind
    return f"{origin} {state}, {next(reported for reported, one in HOLDS.items() if one == tuple(hold))}"


def health(kind, *, version, process="author", age_s=100.0, knew=0) -> SharedHealth:
    state, origin, held_by, expires = kind
    since = NOW - timedelta(seconds=age_s)
    return SharedHealth(PATH, state, since, f"by {process}", held_by, expires, origin, version, process, knew)


def news(known: SharedHealth) -> News:
    expires = None if known.expires is None else known.expires.timestamp()
    since, state = known.since.timestamp(), State(known.state)
    return News(state, since, known.reason, known.version, known.origin, known.held_by, expires)


def machine(known: SharedHealth | None, *, has_sent: bool = False) -> PathAvailability:
    """The state machine of a process that took over, or brought about, this state; maybe its sends are accepted."""
    start = (NOW - timedelta(hours=1)).timestamp()
    made = PathAvailability(
        PATH, failover_interval_s=INTERVAL_S, ping_primary_interval_s=60.0, flap_damping=False, since=start
    )
    if has_sent:
        made.accepted(NOW.timestamp())
    if known is not None:
        made.version, made.state, made.since = known.version, State(known.state), known.since.timestamp()
        made.origin, made.held_by = known.origin, known.held_by
        made.expires = None if known.expires is None else known.expires.timestamp()
    return made


def stands(one: PathAvailability, known: SharedHealth) -> bool:
    """Whether the process is in the state that Redis knows."""
    expires = None if known.expires is None else known.expires.timestamp()
    return (one.state, one.held_by, one.expires) == (known.state, known.held_by, expires)


def after_report(one: PathAvailability, known: SharedHealth) -> PathAvailability:
    if known.state != "failing":  # a process learns only from its own sends that an entity is failing
        one.adopt(news(known), NOW.timestamp())
    return one


@pytest.fixture
def shared(redis_client):
    return SharedState(redis_client, "precedence")


def known_before(shared: SharedState, known: SharedHealth | None) -> None:
    shared.redis.delete(shared.channel)
    if known is not None:
        shared.redis.hset(shared.channel, PATH, known.to_json())


def reports(known):
    """Every report that a process can make of the entity: what it says, what it knew, whether it ends a failover."""
    ages = (50.0, 200.0)  # later and earlier than what Redis knows
    for kind, base, age_s, by in product(KINDS, BASES.values(), ages, ("author", "other")):
        for recovers in (True, False) if kind[0] == "healthy" else (True,):
            before = None if known is None else replace(known, process=by)
            yield before, health(kind, version=base, age_s=age_s), recovers


@pytest.mark.parametrize("kind", [None, *KINDS], ids=name)
def test_what_redis_lets_stand_every_process_adopts(shared, kind):
    standing = None if kind is None else health(kind, version=KNOWN_AT)
    adopted = 0
    for known, report, recovers in reports(standing):
        known_before(shared, known)
        applied, after = shared.publish(report, recovers=recovers)
        if not applied or after.state == "failing":
            continue
        adopted += 1
        case = (known, report, recovers, after)
        assert after.version > max(report.version, known.version if known else 0), case
        is_failing_here = known is not None and known.state == "failing" and after.state == "healthy"
        observer, sender = after_report(machine(known), after), after_report(machine(known, has_sent=True), after)
        assert stands(observer, after) or (is_failing_here and observer.state is FAILING), case
        is_new_failover = after.state == "failed_over" and (known is None or known.state != "failed_over")
        if is_new_failover and after.origin == "organic":
            assert (sender.disputed, sender.state) == (True, machine(known).state), case
        else:
            assert (sender.disputed, sender.state) == (False, observer.state), case
    assert adopted


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_what_redis_refuses_its_author_gives_up_unless_it_knows_more(shared, kind):
    standing = health(kind, version=KNOWN_AT)
    for known, report, recovers in reports(standing):
        known_before(shared, known)
        applied, after = shared.publish(report, recovers=recovers)
        if applied:
            continue
        case = (known, report, recovers)
        assert after == known, case
        author = after_report(machine(report), after)
        if known.state == "failing":
            assert stands(author, report), case
        elif report.version > known.version and known.origin == "organic" and report.state != "failed_over":
            assert stands(author, report), case  # of two organic ones the newer: Redis is behind, and is reported again
        else:
            assert stands(author, known), case


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_an_operator_is_never_refused(shared, kind):
    for known, report, recovers in reports(health(kind, version=KNOWN_AT)):
        if report.origin == "forced":
            known_before(shared, known)
            assert shared.publish(report, recovers=recovers)[0], (known, report)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] == "failed_over"], ids=name)
def test_what_a_process_sees_of_its_own_sends_never_ends_a_failover(shared, kind):
    for known, report, recovers in reports(health(kind, version=KNOWN_AT)):
        is_by_sends = report.state == "failing" or (report.state == "healthy" and not recovers)
        if is_by_sends and report.origin == "organic":
            known_before(shared, known)
            assert not shared.publish(report, recovers=recovers)[0], (known, report)


@pytest.mark.parametrize("kind", [None, *KINDS], ids=name)
@pytest.mark.parametrize("knew", [KNOWN_AT - 2, KNOWN_AT - 1], ids="knew_{}".format)
def test_redis_restores_what_a_process_takes_for_forgotten_and_all_adopt_it(shared, kind, knew):
    standing = None if kind is None else health(kind, version=KNOWN_AT, process="other", knew=knew)
    for remembered, version in product(KINDS, (KNOWN_AT - 1, *BASES.values())):
        if remembered[0] == "failing":  # which nobody restores
            continue
        known = health(remembered, version=version)
        known_before(shared, standing)
        is_restored = shared.restore(known)
        assert is_restored is has_forgotten(standing and standing.to_json(), known), (standing, known)
        if is_restored:
            after = shared.health_of(PATH)
            assert replace(after, version=0) == replace(known, version=0), (standing, known)
            observer = after_report(machine(standing), after)
            is_failing_here = known.state == "healthy" and machine(standing).state is FAILING
            assert stands(observer, known) or (is_failing_here and observer.state is FAILING)


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_who_did_not_know_what_stands_ends_no_hold_and_nothing_that_began_later(shared, kind):
    for known, report, recovers in reports(health(kind, version=KNOWN_AT)):
        knew = report.version >= known.version or known.process == report.process
        if knew or report.origin == "forced" or report.state == "failing":
            continue
        known_before(shared, known)
        if shared.publish(report, recovers=recovers)[0]:
            case = (known, report)
            is_held = known.held_by is not None and (known.expires is None or known.expires > NOW)
            assert not (is_held and report.state == "healthy"), case
            assert report.state == "failed_over" or known.state == "failing" or known.since < report.since, case
            if report.state == known.state == "failed_over":
                assert report.held_by, case
            elif report.state == "failed_over":
                assert known.state == "failing" or known.since < report.since, case
