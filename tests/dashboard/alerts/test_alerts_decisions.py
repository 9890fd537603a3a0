"""Who is reported what and when: rules, quiet hours, escalation, failovers and results, without database or clock."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.alerts.conditions import Condition, compared, is_over, key_of, threshold_of
from dashboard.alerts.failovers import SETTLED, Began, Ended, Report, State, follow
from dashboard.alerts.grouping import Group, Notification, grouped
from dashboard.alerts.results import LONGEST, PATIENCE, backoff, judge
from dashboard.alerts.rules import Due, Rule, Subject, fits, matches, quiet_end, steps_due, when
from dashboard.alerts.transport import Answer

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NIGHT = Rule(quiet_from=time(22), quiet_until=time(7), time_zone="Europe/Berlin", channels=("mail",))


def about(**changes: object) -> Subject:
    return Subject(**{"kind": "failover", "severity": "critical", "pair": "contoso", "entity": "orders", **changes})


# -- rules ------------------------------------------------------------------------------------------------------------


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
    rule = Rule(pair="contoso", entity="ord*", kinds=("failover",), least_severity="warning")
    assert matches(rule, about())
    assert not matches(rule, about(pair="fabrikam"))
    assert not matches(rule, about(entity="payments"))
    assert not matches(rule, about(kind="stalled"))
    assert not matches(rule, about(severity="info"))


def test_a_backlog_is_the_business_of_the_rules_with_its_threshold():
    deep = about(kind="backlog", threshold=1000)
    assert matches(Rule(threshold=1000), deep)
    assert not matches(Rule(threshold=500), deep)
    assert not matches(Rule(), deep)


# -- quiet hours ------------------------------------------------------------------------------------------------------


def test_what_can_wait_is_reported_at_the_end_of_quiet_hours():
    evening = datetime(2026, 11, 2, 23, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert when(NIGHT, "warning", evening) == Due(datetime(2026, 11, 3, 6, 0, tzinfo=UTC), is_quiet=True)


def test_what_is_critical_wakes_people():
    evening = datetime(2026, 11, 2, 23, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert when(NIGHT, "critical", evening) == Due(evening + NIGHT.gathers)


def test_by_day_everything_is_reported_at_once():
    noon = datetime(2026, 11, 2, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert when(NIGHT, "info", noon) == Due(noon + NIGHT.gathers)


@pytest.mark.parametrize(
    ("until", "night_before", "end"),
    [
        # Clocks go back at 03:00 on 2026-10-25 and forward at 02:00 on 2026-03-29 in Berlin.
        (time(7), "2026-10-24T22:30+02:00", "2026-10-25T06:00+00:00"),
        (time(7), "2026-03-28T22:30+01:00", "2026-03-29T05:00+00:00"),
        (time(2, 30), "2026-03-28T22:30+01:00", "2026-03-29T01:00+00:00"),  # 02:30 is not: the hour after counts
        (time(2, 30), "2026-10-25T02:40+02:00", None),  # between the two 02:30 it is first over …
        (time(2, 30), "2026-10-25T02:10+01:00", "2026-10-25T01:30+00:00"),  # … and then quiet once more
    ],
)
def test_quiet_hours_are_what_the_clock_on_the_wall_shows_when_it_is_changed(until, night_before, end):
    rule = replace(NIGHT, quiet_until=until)
    assert quiet_end(rule, datetime.fromisoformat(night_before)) == (datetime.fromisoformat(end) if end else None)


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
CLOCKS = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 30, 59]))
CHANGES = [
    datetime(2026, month, day, tzinfo=UTC) for month, day in ((3, 8), (3, 29), (4, 5), (10, 4), (10, 25), (11, 1))
]
MOMENTS = st.builds(
    lambda start, minutes: start + timedelta(minutes=minutes), st.sampled_from(CHANGES), st.integers(-1500, 3000)
)


def is_quiet(rule: Rule, at: datetime) -> bool:
    clock = at.astimezone(ZoneInfo(rule.time_zone)).time()
    begin, end = rule.quiet_from, rule.quiet_until
    if begin == end:
        return False
    return begin <= clock < end if begin < end else clock >= begin or clock < end


@given(begin=CLOCKS, end=CLOCKS, zone=ZONES, at=MOMENTS)
def test_quiet_hours_end_in_the_first_minute_that_is_not_quiet(begin, end, zone, at):
    rule = Rule(quiet_from=begin, quiet_until=end, time_zone=zone)
    moment, minutes = at, 0
    while is_quiet(rule, moment):
        moment, minutes = moment + MINUTE, minutes + 1
        assert minutes < 26 * 60
    found = quiet_end(rule, at)
    assert found == (moment if minutes else None)


# -- escalation -------------------------------------------------------------------------------------------------------

CALL = Rule(channels=("mail",), escalation=("phone", "boss"), escalate_after=15 * MINUTE)


@pytest.mark.parametrize(("minutes", "steps"), [(0, 0), (15, 0), (16, 1), (31, 2), (600, 2)])
def test_those_next_in_line_are_informed_one_after_another(minutes, steps):
    assert steps_due(CALL, "critical", NOW, (), NOW + minutes * MINUTE) == steps


def test_a_channel_that_gave_up_passes_it_on_at_once():
    assert steps_due(CALL, "critical", NOW, {"mail"}, NOW) == 1
    assert steps_due(CALL, "critical", NOW, {"mail", "phone"}, NOW) == 2
    assert steps_due(CALL, "critical", NOW, {"phone"}, NOW) == 0


def test_nobody_is_next_before_the_first_were_informed():
    evening = datetime(2026, 11, 2, 23, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = replace(CALL, quiet_from=time(22), quiet_until=time(7), time_zone="Europe/Berlin")
    morning = datetime(2026, 11, 3, 7, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert steps_due(rule, "warning", evening, (), morning - MINUTE) == 0
    assert steps_due(rule, "warning", evening, (), morning + 16 * MINUTE) == 1


@given(st.lists(st.integers(0, 200), min_size=2), st.sets(st.sampled_from(["mail", "phone", "boss"])))
def test_an_escalation_never_goes_back(minutes, gave_up):
    steps = [steps_due(CALL, "critical", NOW, gave_up, NOW + one * MINUTE) for one in sorted(minutes)]
    assert steps == sorted(steps)
    assert all(0 <= step <= 2 for step in steps)


# -- grouping ---------------------------------------------------------------------------------------------------------

NOTIFICATIONS = st.lists(
    st.builds(
        lambda alert, channel, rule, phase, minutes: Notification(
            alert,
            Group(channel, rule, f"pair-{alert % 2}", f"kind-{alert % 3}", phase, is_quiet=minutes > 5),
            Due(NOW + minutes * MINUTE, is_quiet=minutes > 5),
        ),
        st.integers(0, 8),
        st.sampled_from(["mail", "chat"]),
        st.integers(1, 3),
        st.sampled_from(["opened", "resolved"]),
        st.integers(0, 9),
    )
)


@given(NOTIFICATIONS)
def test_each_channel_is_informed_of_each_phase_of_each_alert_once_and_as_early_as_any_rule_wants(notifications):
    groups = grouped(notifications)
    reported = [(one.alert, group.channel, group.phase) for group, members in groups.items() for one in members]
    assert sorted(reported) == sorted({(one.alert, one.group.channel, one.group.phase) for one in notifications})
    for group, members in groups.items():
        for one in members:
            alike = [
                t.due.at
                for t in notifications
                if (t.alert, t.group.channel) == (one.alert, group.channel) and t.group.phase == group.phase
            ]
            assert one.group == group
            assert one.due.at == min(alike)


@given(NOTIFICATIONS)
def test_what_differs_in_pair_kind_rule_phase_or_quiet_is_never_one_message(notifications):
    for group, members in grouped(notifications).items():
        assert {(one.group, one.due.is_quiet) for one in members} == {(group, group.is_quiet)}


def test_a_whole_pair_is_one_message_to_each_channel():
    away_ones = [
        Notification(number, Group(channel, 1, "contoso", "failover", "opened", is_quiet=False), Due(NOW))
        for number in range(10_000)
        for channel in ("mail", "chat")
    ]
    assert sorted(len(members) for members in grouped(away_ones).values()) == [10_000, 10_000]


# -- conditions -------------------------------------------------------------------------------------------------------


def condition(key: str) -> Condition:
    return Condition(key=key, kind="stalled", severity="critical", pair="contoso", title=key, began_at=NOW)


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


def test_a_backlog_around_its_threshold_is_one_alert():
    was_over, changes = False, 0
    for messages in (990, 1000, 995, 1001, 999, 1000, 700, 1000):
        changes += is_over(messages, 1000, was_over) != was_over
        was_over = is_over(messages, 1000, was_over)
    assert changes == 3  # it begins, is over at 700, and begins again


def test_the_key_of_a_backlog_shows_its_threshold():
    assert threshold_of("backlog", key_of("backlog", "contoso", "orders", 1000)) == 1000
    assert threshold_of("failover", key_of("failover", "contoso", "1000")) is None


# -- failovers --------------------------------------------------------------------------------------------------------


def away(second: float, reason: str = "no answer") -> Report:
    return Report(NOW + timedelta(seconds=second), True, reason)


def back(second: float) -> Report:
    return Report(NOW + timedelta(seconds=second), False)


def state(is_away: bool, since: float, known_at: float | None = None) -> State:
    known = NOW + timedelta(seconds=since if known_at is None else known_at)
    return State(is_away, NOW + timedelta(seconds=since), known)


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def test_a_failover_that_came_and_went_between_two_looks_is_reported():
    assert follow(None, None, [away(1), back(3)], state(False, 3), at(5)) == [
        Began(at(1), "no answer", ""),
        Ended(at(3)),
    ]


def test_a_failover_that_several_processes_report_is_one():
    assert follow(None, None, [away(1), away(1.2), away(2)], state(True, 1), at(5)) == [Began(at(1), "no answer", "")]
    assert follow(at(1), None, [away(2.5)], state(True, 1), at(5)) == []


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
        lag = data.draw(st.booleans())
        known = None if lag else State(seen[-1].is_away, seen[-1].at, seen[-1].at)
        for step in follow(began, ended, seen, known, seen[-1].at + timedelta(seconds=1)):
            if isinstance(step, Began):
                assert began is None
                began, opened = step.at, opened + 1
            else:
                assert began is not None
                began, ended = None, step.at
    assert opened == sum(gone for _, gone in dict(life).items())
    assert (began is not None) == is_away


# -- results ----------------------------------------------------------------------------------------------------------


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
    assert judge(Answer(500, "x"), 99, NOW, NOW + PATIENCE - MINUTE).state == "waiting"
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
