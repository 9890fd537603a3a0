"""What a person sees for an entity and for everything, without a database."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.fleet.state.status import Status, entity_status, headline, is_held, is_silent, verbs

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "held", "waiting", "silent", "seen"),
    [
        pytest.param("healthy", False, 0, False, Status.HEALTHY, id="healthy with an empty backlog"),
        pytest.param("healthy", False, None, False, Status.HEALTHY, id="healthy with a backlog nobody measured"),
        pytest.param("healthy", False, 3, False, Status.DRAINING, id="healthy while its backlog comes home"),
        pytest.param("failing", False, 0, False, Status.FAILING, id="failing"),
        pytest.param("failing", False, 3, False, Status.FAILING, id="failing again while draining"),
        pytest.param("failed_over", False, 3, False, Status.FAILED_OVER, id="failed over"),
        pytest.param("failed_over", True, 3, False, Status.HELD, id="held by an operator"),
        pytest.param("unknown", False, None, False, Status.HEALTHY, id="never reported, with workers alive"),
        pytest.param("unknown", False, 2, False, Status.DRAINING, id="never reported, with messages waiting"),
        pytest.param("unknown", False, None, True, Status.UNKNOWN, id="never reported, and nobody to report"),
        pytest.param("failed_over", False, 0, True, Status.FAILED_OVER, id="failed over when the workers fell silent"),
    ],
)
def test_what_is_shown_for_an_entity(state, held, waiting, silent, seen):
    assert entity_status(state, is_held=held, waiting=waiting, fleet_is_silent=silent) is seen


@pytest.mark.parametrize(
    ("held_by", "expires", "stands"),
    [(None, None, False), ("ada", None, True), ("ada", NOW + timedelta(1), True), ("ada", NOW, False)],
)
def test_a_hold_stands_until_it_expires(held_by, expires, stands):
    assert is_held(held_by, expires, NOW) is stands


@pytest.mark.parametrize(
    ("statuses", "backlog", "sentence", "status"),
    [
        ([], 0, "No entities yet", Status.UNKNOWN),
        ([Status.HEALTHY] * 3, 0, "All 3 entities healthy", Status.HEALTHY),
        ([Status.HEALTHY, Status.DRAINING], 9, "All healthy, backlog draining", Status.DRAINING),
        ([Status.HEALTHY, Status.FAILING], 0, "1 of 2 entities failing", Status.FAILING),
        ([Status.HELD, Status.FAILING, Status.FAILED_OVER], 9, "2 of 3 entities failed over", Status.FAILED_OVER),
        ([Status.HELD, Status.HEALTHY], 9, "1 of 2 entities failed over", Status.HELD),
        ([Status.UNKNOWN] * 2, 0, "2 of 2 entities unknown", Status.UNKNOWN),
    ],
)
def test_the_headline_says_the_worst(statuses, backlog, sentence, status):
    said = headline(Counter(statuses), backlog)

    assert (said.sentence, said.status) == (sentence, status)


def test_the_headline_says_no_backlog_comes_home_while_somebody_paused_the_syphon():
    said = headline({Status.DRAINING: 1}, 9, is_paused=True)

    assert (said.sentence, said.status) == ("All healthy, but the syphon is paused", Status.DRAINING)


@pytest.mark.parametrize(("age_s", "silent"), [(1, False), (20, False), (21, True), (None, True)])
def test_a_fleet_not_heard_of_for_twenty_seconds_is_silent(age_s, silent):
    assert is_silent(None if age_s is None else NOW - timedelta(seconds=age_s), NOW) is silent


def test_what_is_held_can_be_held_for_longer():
    assert verbs(Status.HELD) == ("release", "hold", "mark_healthy")


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_word_and_something_to_do(status):
    assert status.word
    assert verbs(status)
