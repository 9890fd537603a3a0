"""What all tasks have in common: an outage of Redis or of the database is one line in the log.

The next tick tries again.
"""

from typing import Any

import structlog
from celery import Task

from dashboard.site.database import AWAY
from dashboard.site.redis import RedisError

log = structlog.get_logger(__name__)


class Tick(Task):  # type: ignore[type-arg]  # generic for type checkers only
    """A task that the schedule repeats, so that one run may end early. What it has not acknowledged is not lost."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except RedisError as error:
            log.warning("Redis does not answer", task=self.name, problem=_line(error))
        except AWAY as error:
            log.warning("the database does not answer", task=self.name, problem=_line(error))
        return None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
