"""What facts mean for readiness: results, reasons and the score. Pure: no database, no Redis."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.readiness import checks
from dashboard.readiness.facts import Answer, EntityFacts, PairFacts, Probe, QueueFacts
from dashboard.readiness.gathering import _full_in_s
from dashboard.readiness.score import OF_ENTITY, WEIGHTS, Check, Result, capped, faults_of, results_of, score, word
from pairing.backlog.capacity import Fill

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
GIB = 2**30
ALLOWED = Probe(Answer.ALLOWED, NOW)
REFUSED = Probe(Answer.REFUSED, NOW, "refused: a right is missing")
SILENT = Probe(Answer.SILENT, NOW, "no answer")


def queue(index: int, **changes: object) -> QueueFacts:
    path = f"contoso/x-servicebus-transfer/{index}"
    whole = QueueFacts(path, True, "Active", size=0, limit=5 * GIB, holder="host:1:aaaa", send=ALLOWED, listen=ALLOWED)
    return replace(whole, **changes)


READY = PairFacts(
    at=NOW,
    queues=(queue(0), queue(1)),
    administration=ALLOWED,
    workers=2,
    senders={"app:1:bbbb": 2},
    clocks={"app:1:bbbb": 0.1, "host:1:aaaa": -0.2},
    bytes_per_s=1000.0,
    gateways={},
)
HOMELY = EntityFacts("orders", home=ALLOWED, message_bytes=2_000)


def all_checks(facts: PairFacts = READY, entity: EntityFacts = HOMELY) -> list[Check]:
    return [*checks.checks_of_pair(facts), *checks.checks_of_entity(entity, NOW)]


def test_where_everything_is_shown_to_work_the_score_is_100_without_a_reason() -> None:
    every = all_checks()

    assert score(results_of(every)) == 100
    assert faults_of(every) == []


def test_every_check_has_a_weight_and_they_sum_to_100() -> None:
    assert {check.name for check in all_checks()} == set(WEIGHTS)
    assert sum(weight.points for weight in WEIGHTS.values()) == 100
    assert {check.name for check in checks.checks_of_entity(HOMELY, NOW)} == set(OF_ENTITY)


def test_of_a_fleet_of_which_nothing_is_known_nothing_is_good() -> None:
    every = all_checks(PairFacts(at=NOW), EntityFacts("orders"))

    assert Result.GOOD not in results_of(every).values()
    assert score(results_of(every)) == 0
    assert all(check.reason and check.todo for check in every)


CASES = {
    "the secondary refuses": ({"administration": REFUSED}, "secondary", "bad", "Manage claim"),
    "the secondary is silent": ({"administration": SILENT}, "secondary", "bad", "secondary is available"),
    "the secondary was asked long ago": (
        {"administration": Probe(Answer.ALLOWED, NOW - timedelta(hours=1))},
        "secondary",
        "unknown",
        "Start a worker",
    ),
    "one queue is missing": ({"queues": (queue(0), queue(1, is_there=False))}, "queues", "weak", "Restart a worker"),
    "no queue is there": ({"queues": (queue(0, is_there=False),)}, "queues", "bad", "Restart a worker"),
    "a queue is quarantined": ({"queues": (queue(0), queue(1, status="SendDisabled"))}, "queues", "weak", "quarantine"),
    "a queue deviates": ({"queues": (queue(0, deviations=("lock_duration",)), queue(1))}, "queues", "weak", "repair"),
    "nobody looked": ({"queues": (queue(0, is_there=None),)}, "queues", "unknown", "Start a worker"),
    "a sender has no backlog": ({"senders": {"app:1": 2, "app:2": 0}}, "senders", "bad", "Manage claim"),
    "a sender has fewer queues": ({"senders": {"app:1": 1}}, "senders", "weak", "backlog_queue_count"),
    "no sender lives": ({"senders": {}}, "senders", "unknown", "coordination"),
    "listening is refused": ({"queues": (queue(0, listen=REFUSED), queue(1))}, "rights", "bad", "Listen"),
    "sending was not tried": ({"queues": (queue(0, send=None), queue(1))}, "rights", "unknown", "next check"),
    "sending got no answer": ({"queues": (queue(0, send=SILENT), queue(1))}, "rights", "unknown", "next check"),
    "every queue is full": ({"queues": (queue(0, size=5 * GIB),)}, "room", "bad", "is not drained"),
    "one of two is full": ({"queues": (queue(0, size=4 * GIB), queue(1))}, "room", "weak", "is not drained"),
    "all fill up within minutes": (
        {"queues": (queue(0, full_in_s=600.0), queue(1, full_in_s=900.0))},
        "room",
        "bad",
        "is not drained",
    ),
    "the traffic fills it in 20 minutes": ({"bytes_per_s": 10 * GIB / 1200}, "room", "bad", "is not drained"),
    "the traffic fills it in 2 hours": ({"bytes_per_s": 10 * GIB / 7200}, "room", "weak", "backlog_queue_count"),
    "the syphon is paused": ({"paused": ("*",)}, "syphon", "weak", "Resume"),
    "nobody holds a lease": ({"queues": (queue(0, holder=""), queue(1, holder=""))}, "syphon", "bad", "Start a worker"),
    "one queue is in nobody's hands": ({"queues": (queue(0, holder=""), queue(1))}, "syphon", "weak", "Workers page"),
    "no worker lives": ({"workers": 0}, "fleet", "bad", "Start a worker"),
    "a worker has a problem": ({"problems": {"w1": "no key"}}, "fleet", "bad", "Correct"),
    "a clock is 2 s ahead": ({"clocks": {"app:1": 2.0}}, "clocks", "weak", "NTP"),
    "a clock is a minute behind": ({"clocks": {"app:1": -60.0}}, "clocks", "bad", "NTP"),
    "every gateway is gone": ({"gateway_heard_at": NOW}, "gateway", "bad", "Start it"),
    "a certificate ends": (
        {"gateways": {"gw:1": None, "gw:2": NOW.timestamp() + 29 * 86_400}},
        "gateway",
        "weak",
        "Renew",
    ),
    "a certificate has ended": ({"gateways": {"gw:1": NOW.timestamp()}}, "gateway", "bad", "Renew"),
    "no clock is reported": ({"clocks": {}}, "clocks", "unknown", "Start a worker"),
}


@pytest.mark.parametrize(("changes", "name", "result", "todo"), CASES.values(), ids=CASES.keys())
def test_each_fault_is_reported_with_what_to_do(changes: dict[str, object], name: str, result: str, todo: str) -> None:
    every = all_checks(replace(READY, **changes))

    faults = faults_of(every)
    assert name in [fault.name for fault in faults]
    fault = next(fault for fault in faults if fault.name == name)
    assert fault.result == result
    assert fault.reason
    assert todo in fault.todo
    assert score(results_of(every)) < 100


ENTITIES = {
    "not tried": ({"home": None}, "home", "unknown"),
    "tried a day ago": ({"home": Probe(Answer.ALLOWED, NOW - timedelta(days=1))}, "home", "unknown"),
    "refused": ({"home": REFUSED}, "home", "bad"),
    "silent": ({"home": SILENT}, "home", "unknown"),
    "refused while it is away": ({"home": REFUSED, "is_away": True}, "home", "unknown"),
    "sizes not known": ({"message_bytes": None}, "sizes", "unknown"),
    "near the limit": ({"message_bytes": 210_000}, "sizes", "weak"),
    "above what the backlog takes": ({"message_bytes": 259_000}, "sizes", "bad"),
}


@pytest.mark.parametrize(("changes", "name", "result"), ENTITIES.values(), ids=ENTITIES.keys())
def test_each_fault_of_an_entity_is_reported(changes: dict[str, object], name: str, result: str) -> None:
    fault = faults_of(all_checks(entity=replace(HOMELY, **changes)))[0]

    assert (fault.name, fault.result) == (name, result)
    assert fault.todo


def test_what_is_inferred_of_senders_is_reported_as_such() -> None:
    assert "Inferred, not probed" in checks.senders(READY).reason


def test_a_larger_tier_takes_larger_messages() -> None:
    assert checks.sizes(replace(HOMELY, message_bytes=259_000, limit=1_048_576)).result is Result.GOOD


def test_the_worst_comes_first_among_the_reasons() -> None:
    facts = replace(READY, clocks={}, queues=(queue(0, is_there=False),), senders={})

    assert [fault.name for fault in faults_of(all_checks(facts))][:2] == ["queues", "senders"]


results = st.fixed_dictionaries({name: st.sampled_from(list(Result)) for name in WEIGHTS})


@given(results, st.sampled_from(sorted(WEIGHTS)))
def test_no_result_becomes_worse_without_the_score_falling_or_staying(reported: dict[str, Result], name: str) -> None:
    order = [Result.GOOD, Result.WEAK, Result.UNKNOWN, Result.BAD]
    scores = [score({**reported, name: result}) for result in order]

    assert scores == sorted(scores, reverse=True)


@given(results)
def test_nobody_is_ready_with_a_vital_check_that_is_not_shown(reported: dict[str, Result]) -> None:
    vital = [reported[name] for name, weight in WEIGHTS.items() if weight.is_vital]

    if Result.BAD in vital:
        assert score(reported) <= 20
    elif Result.UNKNOWN in vital:
        assert score(reported) <= 60
    assert 0 <= score(reported) <= 100


def test_the_limit_of_a_vital_check_stands_beside_the_points() -> None:
    every = [Check(name, Result.UNKNOWN if name == "senders" else Result.GOOD) for name in WEIGHTS]

    points = 100 - WEIGHTS["senders"].points
    assert capped(every).startswith(f"{points} of 100 points, of which 60 count while a vital check is not known: Sen")
    assert capped([Check(name, Result.GOOD) for name in WEIGHTS]) == ""


@pytest.mark.parametrize(
    ("points", "said"),
    [(100, "ready"), (90, "ready"), (89, "weak"), (60, "weak"), (59, "endangered"), (None, "unknown")],
)
def test_a_score_has_a_word(points: int | None, said: str) -> None:
    assert word(points) == said


@pytest.mark.parametrize(
    ("seen_s_ago", "reported"), [(10, 4.0), (3_600, None), (-3_600, None)], ids=["now", "an hour ago", "in an hour"]
)
def test_a_queue_s_growth_counts_while_it_is_of_now(seen_s_ago: float, reported: float | None) -> None:
    assert _full_in_s(Fill(size=60, limit=100, at=NOW.timestamp() - seen_s_ago, rate=10.0), NOW) == reported


@pytest.mark.parametrize("rate", [1e-300, 1e-320])
def test_a_queue_that_hardly_grows_is_reported_in_words_that_can_be_read(rate: float) -> None:
    growing = Fill(size=0, limit=5 * GIB, at=0, rate=rate).full_in_s

    reported = checks.room(replace(READY, bytes_per_s=None, queues=(queue(0, full_in_s=growing),)))

    assert reported.reason.endswith("it would hold an outage of more than a year.")


def test_the_room_of_a_backlog_changes_its_words_with_the_hour() -> None:
    reported = {checks.room(replace(READY, bytes_per_s=10 * GIB / left)).reason for left in (7_200, 8_000, 8_900)}

    assert len(reported) == 1
