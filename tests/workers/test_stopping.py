"""Beat ends at the first signal (workers/beat.py)."""

import os
import signal
from collections.abc import Iterator

import pytest
from celery.signals import beat_init

from workers import beat


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
def test_a_signal_ends_what_beat_does(service: Service, number: int) -> None:
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), number)
    assert service.is_stopped


def test_beat_ends_at_its_next_tick_if_the_signal_arrives_in_a_finalizer(
    service: Service, capfd: pytest.CaptureFixture[str]
) -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            self.is_gone = True

    finalized = Finalized()
    del finalized
    assert "SystemExit" in capfd.readouterr().err  # ignored by Python
    assert service.is_stopped


def test_beat_is_prepared_when_it_starts() -> None:
    assert any(found is beat.stop_at_the_next_tick for _, found in live_receivers())


def live_receivers() -> list[tuple[object, object]]:
    return [(key, reference()) for key, reference in beat_init.receivers]
