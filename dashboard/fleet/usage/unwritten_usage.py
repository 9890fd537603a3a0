"""Usage on its way from the processes to the files: what waits in Redis, and for how long."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from dashboard.site.redis import RedisError, connection
from pairing.fleet.shared_state import USAGE

LATE = timedelta(minutes=5)
"""Much longer than records are held before they are written, and than a restart of a worker takes."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Records that are metered and in no file yet."""

    records: int
    oldest: datetime | None
    """When the oldest was reported; None where none waits."""


def unwritten_usage() -> Unwritten | None:
    """What waits now; None while Redis is away."""
    try:
        first = cast("list[Any]", connection().xrange(USAGE, count=1))
        records = int(connection().xlen(USAGE))
    except RedisError:
        return None
    oldest = datetime.fromtimestamp(int(str(first[0][0]).partition("-")[0]) / 1000, UTC) if first else None
    return Unwritten(records, oldest)
