"""Looping tasks: one of a kind per process, and gone at once when the worker shuts down."""

import threading
from contextlib import ExitStack

import pytest

from workers import slices


@pytest.fixture(autouse=True)
def living_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_shutting_down", threading.Event())


def test_a_second_slice_of_a_name_is_refused_while_the_first_runs() -> None:
    with slices.slice_of("a", 60) as first, slices.slice_of("a", 60) as second, slices.slice_of("b", 60) as other:
        assert (first is None, second is None, other is None) == (False, True, False)
    with slices.slice_of("a", 60) as again:
        assert again is not None


def test_a_slice_is_over_after_its_time() -> None:
    with slices.slice_of("a", 0.01) as stop:
        assert stop is not None
        assert stop.wait(60)


def test_shutting_down_ends_every_slice_and_begins_none() -> None:
    with slices.slice_of("a", 60) as stop:
        slices.stop_all()
        assert stop is not None
        assert stop.is_set()
    with slices.slice_of("b", 60) as late:
        assert late is None


def test_errands_take_a_part_of_the_threads_only_and_a_place_is_free_again_when_one_is_over() -> None:
    with ExitStack() as held:
        for number in range(slices.PLACES["errands"]):
            assert held.enter_context(slices.slice_of(f"drain {number}", room="errands")) is not None
        with slices.slice_of("one drain more", room="errands") as stop:
            assert stop is None
        with slices.slice_of("a collector") as stop:
            assert stop is not None
    with slices.slice_of("one drain more", room="errands") as stop:
        assert stop is not None
