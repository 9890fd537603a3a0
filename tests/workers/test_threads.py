"""A worker has all of its threads from its start, so that what it needs does not depend on its busiest moment."""

from collections.abc import Iterator
from threading import Barrier

import pytest
from celery.concurrency import get_implementation

from workers.celery import app
from workers.worker import Threads

LIMIT = 5


@pytest.fixture
def pool() -> Iterator[Threads]:
    pool = get_implementation(app.conf.worker_pool)(limit=LIMIT)
    pool.start()
    yield pool
    pool.stop()


def test_all_threads_are_there_before_the_first_task(pool: Threads) -> None:
    assert pool.info["threads"] == LIMIT


def test_none_of_them_is_taken_by_having_been_started(pool: Threads) -> None:
    together = Barrier(LIMIT + 1)
    for _ in range(LIMIT):
        pool.apply_async(lambda: together.wait(30))
    together.wait(30)
    assert pool.info["threads"] == LIMIT
