"""Beat ends at the first SIGTERM or SIGINT, whatever it does at that moment."""

import signal
from functools import partial
from types import FrameType
from typing import Any

from celery.signals import beat_init


@beat_init.connect
def stop_at_the_next_tick(sender: Any, **_: Any) -> None:
    """Let the handlers of signals also set the flag that beat's loop checks.

    Celery's handler only raises SystemExit. Python ignores that if it is raised in a finalizer, and beat then continues
    until the next signal.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stop, sender, signal.getsignal(number)))


def _stop(service: Any, handler: Any, number: int, frame: FrameType | None) -> None:
    service.stop()
    if callable(handler):
        handler(number, frame)
