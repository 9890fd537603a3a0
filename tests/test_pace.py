"""The stopwatch of the tests: a busy machine lengthens nothing that it measures, and hides nothing."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.pace import Look, Stopwatch, withheld

BURNERS = 2
COMPUTING = "print(flush=True)\nwhile True: pass"


def looks(*waited: dict[str, float]) -> list[Look]:
    """Read once a second."""
    return [Look(at, threads) for at, threads in enumerate(waited, start=1)]


def test_of_threads_that_wait_at_once_one_counts():
    crowd = {f"thread {number}": 0.5 for number in range(40)}

    assert withheld(looks(crowd, crowd, crowd), 0, 3) == pytest.approx(1.5)


def test_a_chain_loses_what_each_of_its_threads_waited_in_turn():
    assert withheld(looks({"one": 0.9}, {"two": 0.4}, {}, {"three": 1.0}), 0, 4) == pytest.approx(2.3)


def test_a_long_wait_is_in_the_account_when_it_is_over_and_no_moment_counts_twice():
    assert withheld(looks({}, {"one": 0.5}, {"two": 2.7}), 0, 3) == pytest.approx(2.7)
    assert withheld(looks({"one": 8.0}, {"two": 8.0}), 0, 2) == 2


def test_what_was_waited_after_the_end_or_before_the_beginning_is_not_taken_off():
    assert withheld([Look(11.0, {"one": 5.0})], 9.0, 10.5) == 1.5


@pytest.fixture
def processor() -> Iterator[int]:
    """One for this thread and all that it starts."""
    before = os.sched_getaffinity(0)
    chosen = min(before)
    os.sched_setaffinity(0, {chosen})
    yield chosen
    os.sched_setaffinity(0, before)


@pytest.fixture
def burners(processor: int) -> Iterator[None]:
    """Processes of ours that compute all the time, on the same processor."""
    command = [sys.executable, "-S", "-c", COMPUTING]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(BURNERS)]
    for one in started:
        one.stdout.readline()
    yield
    for one in started:
        one.kill()
        one.communicate()


@pytest.mark.usefixtures("burners")
def test_what_waits_a_second_took_a_second_however_busy_its_machine_is():
    is_over = threading.Event()
    waiting = threading.Thread(target=is_over.wait, args=(1.0,))
    with Stopwatch() as watch:
        waiting.start()
        waiting.join()

    assert 0.75 < watch.took <= watch.elapsed
