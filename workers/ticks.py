"""The base class of tasks: an outage of Redis or the database is one line in the log, and the next tick retries."""

from typing import Any

import structlog
from celery import Task
from kombu.exceptions import OperationalError as BrokerError

from dashboard.site.database import AWAY
from dashboard.site.redis import RedisError

log = structlog.get_logger(__name__)


class Tick(Task):  # type: ignore[type-arg]  # generic for type checkers only
    """A periodic task, so that a run can end early. Unacknowledged work is not lost."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (RedisError, BrokerError) as error:  # the second one: where a task starts another
            log.warning("Redis does not answer", task=self.name, problem=line_of(error))
        except AWAY as error:
            log.warning("the database does not answer", task=self.name, problem=line_of(error))
        return None


def line_of(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:500]
