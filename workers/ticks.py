"""What all tasks have in common: an outage of Redis is one line in the log, and the next tick tries again."""

from typing import Any

import structlog
from celery import Task

from dashboard.site.redis import RedisError

log = structlog.get_logger(__name__)


class Tick(Task):  # type: ignore[type-arg]  # generic for type checkers only
    """A task that the schedule repeats, so that one run may end early. What it has not acknowledged is not lost."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except RedisError as error:
            log.warning("Redis does not answer", task=self.name, problem=" ".join(str(error).split())[:500])
            return None
