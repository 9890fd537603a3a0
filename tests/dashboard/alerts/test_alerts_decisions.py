"""Which rules apply, when a condition is an alert, and what comes of an attempt; without database or clock."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.alerts.sending.results import LONGEST, PATIENCE, backoff, judge
from dashboard.alerts.sending.transport import Answer
from dashboard.alerts.watching.conditions import compared, fits, key_of, matches
from dashboard.alerts.watching.failovers import SETTLED, Began, Ended, follow
from dashboard.models import Alert, AlertRule, EntityHealth, FailoverEvent

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)


def about(**changes: object) -> Alert:
    return Alert(**{"kind": "failover", "severity": "critical", "pair": "contoso", "entity": "orders", **changes})


@pytest.mark.parametrize(
    ("pattern", "name", "is_meant"),
    [
        ("*", "orders", True),
        ("orders", "Orders", True),
        ("orders*", "orders/eu", True),
        ("*/eu", "orders/eu", True),
        ("orders", "orders/eu", False),
        ("a.b", "axb", False),
        ("*", "*", True),
        ("orders", "*", False),
        ("", "orders", False),
    ],
)
def test_a_pattern_means_names_where_a_star_is_any_characters(pattern, name, is_meant):
    assert fits(pattern, name) is is_meant


def test_a_rule_is_about_its_pair_entity_kinds_and_severity_only():
    rule = AlertRule(pair="contoso", entity="ord*", kinds=("failover",), least_severity="warning")
    assert matches(rule, about())
    assert not matches(rule, about(pair="fabrikam"))
    assert not matches(rule, about(entity="payments"))
    assert not matches(rule, about(kind="stalled"))
    assert not matches(rule, about(severity="info"))


def test_a_backlog_is_the_business_of_the_rules_with_its_threshold():
    deep = about(kind="backlog", key=key_of("backlog", "contoso", "orders", 1000))
    assert matches(AlertRule(threshold=1000), deep)
    assert not matches(AlertRule(threshold=500), deep)
    assert not matches(AlertRule(), deep)


def condition(key: str) -> Alert:
    return Alert(key=key, kind="stalled", severity="critical", pair="contoso", title=key, began_at=NOW)


@given(st.lists(st.sets(st.sampled_from("abcd"))))
def test_a_condition_is_opened_once_and_resolved_once_each_time_it_is_so(looks):
    is_open, opened, resolved = set(), 0, 0
    for so in looks:
        fresh, going_on, over = compared(map(condition, so), is_open)
        opened, resolved = opened + len(fresh), resolved + len(over)
        assert {one.key for one in going_on} == so & is_open
        is_open = (is_open | {one.key for one in fresh}) - over
        assert is_open == so
    spells = sum(key in so and (not at or key not in looks[at - 1]) for at, so in enumerate(looks) for key in so)
    assert opened == spells
    assert opened - resolved == len(is_open)


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def away(second: float) -> FailoverEvent:
    return FailoverEvent(time=at(second), kind="failed_over", reason="no answer")


def back(second: float) -> FailoverEvent:
    return FailoverEvent(time=at(second), kind="recovered")


def state(is_away: bool, since: float, known_at: float | None = None) -> EntityHealth:
    applied_at = at(since if known_at is None else known_at)
    return EntityHealth(state="failed_over" if is_away else "healthy", since=at(since), applied_at=applied_at)


def test_a_late_word_of_a_failover_that_is_over_is_no_new_one():
    assert follow(None, at(10), [away(8)], state(False, 10), at(20)) == []


def test_a_state_that_is_not_written_yet_ends_nothing():
    assert follow(at(10), None, [], state(False, 0), at(12)) == []


def test_a_failover_of_which_the_event_was_lost_is_seen_by_its_state():
    assert follow(None, None, [], state(True, 1), at(5)) == [Began(at(1), "", "")]
    assert follow(at(1), None, [], state(False, 9), at(12)) == [Ended(at(9))]


def test_clocks_that_differ_hide_no_failover_for_long():
    wrong = state(True, 5, known_at=6)  # it began before the last one ended, says the process that saw it
    assert follow(None, at(30), [], wrong, at(10)) == []
    assert follow(None, at(30), [], wrong, at(6) + SETTLED) == [Began(at(5), "", "")]
    assert follow(at(30), None, [], state(False, 5, known_at=31), at(31)) == []
    assert follow(at(30), None, [], state(False, 5, known_at=31), at(31) + SETTLED) == [Ended(at(31) + SETTLED)]


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=12), st.data())
def test_whatever_is_reported_when_an_alert_is_open_once_away_and_each_failover_is_one_alert(steps, data):
    """A life of an entity, looked at in any slices, with events and states that may come late."""
    clock, life, is_away = 0, [], False
    for gap, repeats in steps:
        clock, is_away = clock + gap, not is_away
        life += [(clock, is_away)] * (1 + repeats)  # reported by a second process as well
    reported = [away(second) if gone else back(second) for second, gone in life]
    began = ended = None
    opened = 0
    while reported:
        batch = data.draw(st.integers(1, len(reported)))
        seen, reported = reported[:batch], reported[batch:]
        lag, last = data.draw(st.booleans()), (seen[-1].time - NOW).total_seconds()
        known = None if lag else state(seen[-1].kind == "failed_over", last)
        for step in follow(began, ended, seen, known, at(last + 1)):
            if isinstance(step, Began):
                assert began is None
                began, opened = step.at, opened + 1
            else:
                assert began is not None
                began, ended = None, step.at
    assert opened == sum(gone for _, gone in dict(life).items())
    assert (began is not None) == is_away


@pytest.mark.parametrize(
    ("answer", "state_", "fare"),
    [
        (Answer(204), "sent", "well"),
        (Answer(500, "It answered 500."), "waiting", "as before"),
        (Answer(408, "It answered 408."), "waiting", "as before"),
        (Answer(429, "It answered 429."), "waiting", "as before"),
        (Answer(None, "it took too long"), "waiting", "as before"),
        (Answer(404, "It answered 404.", is_permanent=True), "given_up", "failing"),
        (Answer(302, "redirect", is_permanent=True), "given_up", "failing"),
        (Answer(410, "It answered 410.", is_permanent=True), "given_up", "disabled"),
    ],
)
def test_what_becomes_of_a_message_follows_from_the_answer(answer, state_, fare):
    result = judge(answer, 1, NOW, NOW)
    assert (result.state, result.fare) == (state_, fare)


def test_after_a_day_of_trying_a_message_is_given_up():
    assert judge(Answer(500, "x"), 99, NOW, NOW + PATIENCE - timedelta(minutes=1)).state == "waiting"
    assert judge(Answer(500, "x"), 99, NOW, NOW + PATIENCE).state == "given_up"


def test_a_channel_is_failing_from_the_third_failure_on():
    assert judge(Answer(500, "x"), 2, NOW, NOW).fare == "as before"
    assert judge(Answer(500, "x"), 3, NOW, NOW).fare == "failing"


@given(st.integers(1, 10_000))
def test_each_attempt_waits_at_least_as_long_as_the_one_before(attempts):
    assert timedelta(seconds=5) <= backoff(attempts) <= backoff(attempts + 1) <= LONGEST


def test_a_server_may_ask_for_more_time():
    assert backoff(1, 120) == timedelta(seconds=120)
    assert backoff(9, 1) == LONGEST
