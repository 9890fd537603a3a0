"""Beat: its scheduler reports an outage of Redis once, and it ends at the first signal whatever it does."""

import logging
import signal
from functools import partial
from types import FrameType
from typing import Any

from celery.beat import ScheduleEntry, SchedulingError
from celery.beat import Scheduler as CelerysScheduler
from celery.signals import beat_init

log = logging.getLogger(__name__)


class Scheduler(CelerysScheduler):
    """Celery's scheduler in memory; ticks that could not be sent are not repeated, the next ones are due soon."""

    is_cut_off = False

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send a due task."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not self.is_cut_off:
                log.warning("Redis does not answer; ticks are sent again as soon as it does: %s", error)
            self.is_cut_off = True
        else:
            if self.is_cut_off:
                log.warning("Redis answers again")
            self.is_cut_off = False


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
