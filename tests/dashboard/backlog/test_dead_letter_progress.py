"""When a job over dead letters has to stop, and what it says in the end; without a broker."""

from dataclasses import dataclass
from typing import Any

import pytest

from dashboard.backlog import dead_letter_progress
from dashboard.backlog.dead_letter_progress import REACH_S, Progress


@dataclass
class Message:
    sequence_number: int


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(dead_letter_progress, "received_size", lambda message: 10)


def progress(*chosen: int, **more: Any) -> Progress:
    known = {"upto": 100, "total": len(chosen) or 3, "done": 0, "under_way": set(), "useful_at": 0.0}
    return Progress(**{"chosen": chosen, "left": set(chosen), **known, **more})


def messages(*numbers: int) -> list[Message]:
    return [Message(number) for number in numbers]


def test_only_the_chosen_ones_are_begun_and_the_others_are_kept_locked():
    job = progress(2)

    wanted, fresh = job.receive(messages(1, 2))

    assert ([one.sequence_number for one in wanted], fresh) == ([2], [1, 2])
    assert (job.under_way, set(job.held)) == ({2}, {1, 2})


def test_where_all_are_meant_those_that_came_later_are_not():
    wanted, fresh = (job := progress(upto=5)).receive(messages(5, 6))

    assert [one.sequence_number for one in wanted] == [5]
    assert job.may_bring_more(fresh)
    assert not job.may_bring_more([6, 7])


def test_the_same_message_once_more_and_none_wanted_means_that_locks_have_lapsed():
    job = progress(9)
    job.receive(messages(1))
    job.receive(messages(1))

    assert job.has_lapsed
    assert job.is_at_its_limit(0.0)


def test_a_job_that_does_nothing_while_it_keeps_messages_locked_stops_in_time():
    job = progress(9)
    job.receive(messages(1))

    assert not job.is_at_its_limit(REACH_S - 1)
    assert job.is_at_its_limit(REACH_S)


@pytest.mark.parametrize(("limit", "value"), [("MOST_HELD", 2), ("MOST_HELD_BYTES", 20)])
def test_no_more_is_kept_locked_than_there_is_room_for(monkeypatch, limit, value):
    monkeypatch.setattr(dead_letter_progress, limit, value)
    job = progress(9)

    job.receive(messages(1))
    assert not job.is_at_its_limit(0.0)
    job.receive(messages(2))
    assert job.is_at_its_limit(0.0)


def test_it_seems_over_once_all_are_done_or_refused():
    job = progress(1, 2)
    job.finish([1], 5.0)
    assert not job.seems_over

    job.refused[2] = "orders refuses it"
    assert job.seems_over
    assert (job.done, job.finished, job.has_advanced, job.useful_at) == (1, [1], True, 5.0)


def test_what_was_not_sent_is_no_longer_under_way():
    job = progress(1, 2)
    job.receive(messages(1, 2))
    job.sent.add(1)

    job.forget([1, 2])

    assert job.under_way == {1}


def test_the_end_is_reported_in_sentences():
    job = progress(1, 2, 3, 4)
    job.receive(messages(7))
    job.finish([1], 0.0)
    job.refused[2] = "orders refuses it: too large"

    assert job.summary("sent again", {4}) == (
        "1 sent again. 1 not: orders refuses it: too large. 1 no longer existed. "
        "1 could not be reached behind 1 others: process these first."
    )
