"""When a job over dead letters has to stop, and what it says in the end; without a broker."""

from dataclasses import dataclass
from typing import Any

import pytest

from dashboard.backlog import dead_letter_progress
from dashboard.backlog.dead_letter_progress import Progress


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


def test_the_same_message_once_more_and_none_wanted_means_that_locks_have_lapsed():
    job = progress(9)
    job.receive(messages(1))
    job.receive(messages(1))

    assert job.has_lapsed
    assert job.is_at_its_limit(0.0)


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
