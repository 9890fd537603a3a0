"""Looping tasks: one of a kind per process, and gone at once when the worker shuts down."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Barrier

import pytest
from celery.concurrency import get_implementation
from celery.signals import beat_init

from workers import beat, slices
from workers.celery import app
from workers.worker import Threads


@pytest.fixture(autouse=True)
def living_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_shutting_down", threading.Event())


def test_a_second_slice_of_a_name_is_refused_while_the_first_runs():
    with slices.slice_of("a", 60) as first, slices.slice_of("a", 60) as second, slices.slice_of("b", 60) as other:
        assert (first is None, second is None, other is None) == (False, True, False)
    with slices.slice_of("a", 60) as again:
        assert again is not None


def test_a_slice_is_over_after_its_time():
    with slices.slice_of("a", 0.01) as stop:
        assert stop.wait(60)


def test_shutting_down_ends_every_slice_and_begins_none():
    with slices.slice_of("a", 60) as stop:
        slices.stop_all()
        assert stop.is_set()
    with slices.slice_of("b", 60) as late:
        assert late is None


def test_errands_take_a_part_of_the_threads_only_and_a_place_is_free_again_when_one_is_over():
    with ExitStack() as held:
        for number in range(slices.PLACES["errands"]):
            assert held.enter_context(slices.slice_of(f"drain {number}", room="errands")) is not None
        with slices.slice_of("one drain more", room="errands") as stop:
            assert stop is None
        with slices.slice_of("a collector") as stop:
            assert stop is not None
    with slices.slice_of("one drain more", room="errands") as stop:
        assert stop is not None


LIMIT = 5


@pytest.fixture
def pool() -> Iterator[Threads]:
    pool = get_implementation(app.conf.worker_pool)(limit=LIMIT)
    pool.start()
    yield pool
    pool.stop()


def test_all_threads_are_there_before_the_first_task(pool):
    assert pool.info["threads"] == LIMIT


def test_none_of_them_is_taken_by_having_been_started(pool):
    together = Barrier(LIMIT + 1)
    for _ in range(LIMIT):
        pool.apply_async(lambda: together.wait(30))
    together.wait(30)
    assert pool.info["threads"] == LIMIT


class Service:
    """Celery's beat service, as far as signals reach it."""

    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def service() -> Iterator[Service]:
    def handler(number: int, frame: object) -> None:
        raise SystemExit

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    service = Service()
    beat.stop_at_the_next_tick(sender=service)
    yield service
    for number, found in before.items():
        signal.signal(number, found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_what_beat_does(service, number):
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), number)
    assert service.is_stopped


def test_beat_ends_at_its_next_tick_if_the_signal_arrives_in_a_finalizer(service, capfd):
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            self.is_gone = True

    finalized = Finalized()
    del finalized
    assert "SystemExit" in capfd.readouterr().err  # ignored by Python
    assert service.is_stopped


def test_beat_is_prepared_when_it_starts():
    assert any(reference() is beat.stop_at_the_next_tick for _, reference in beat_init.receivers)
