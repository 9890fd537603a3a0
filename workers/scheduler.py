"""Beat's scheduler. While Redis does not answer, it reports that once, and not with a traceback for every tick."""

import logging
from typing import Any

from celery.beat import ScheduleEntry, SchedulingError
from celery.beat import Scheduler as CelerysScheduler

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
