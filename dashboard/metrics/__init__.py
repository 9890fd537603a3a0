"""The control plane's numbers in the text format of Prometheus.

Names and units follow its conventions: seconds and bytes, timestamps where an age would do, `_total` for what only
grows. How many series there are is bounded: entities are counted by pair and state, and only those that are not
healthy, or for which messages wait, are listed one by one, the worst MOST_LISTED of them.
"""

from datetime import datetime

from dashboard.metrics import fleet, shared, work
from dashboard.metrics.text import written


def exposition(now: datetime) -> str:
    """All metrics at this moment. Where Redis is away its part is left out, and `paired_redis_up` is 0."""
    return "".join(written(metric) for room in (fleet, work, shared) for metric in room.metrics(now))
