"""Heartbeats of workers: hash `workers:heartbeat` in Redis, worker name → JSON with time, queues and problems.

Sent from the loop that consumes tasks from the broker, so that a worker that is stuck there sends none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.signals import heartbeat_sent, worker_shutdown

from dashboard.site.redis import RedisError, connection
from pairing.stored_json import hash_of, readable
from workers.collectors import usage_problems
from workers.connections import problems
from workers.slices import PROCESS
from workers.syphons import hindered

KEY = "workers:heartbeat"
FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Time, queues and problems of a worker."""

    time: datetime
    queues: tuple[str, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    """Problems by pair, or by backlog queue if its syphon receives but does not deliver."""
    process: str = ""
    """`<hostname>:<pid>`, the prefix of its process name in leases and events."""

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"time": self.time.isoformat()})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Heartbeat":
        """Parse the output of `to_json`."""
        reported = json.loads(written)
        time, queues = datetime.fromisoformat(reported["time"]), tuple(reported["queues"])
        return cls(time, queues, reported["problems"], reported["process"])


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """Every two seconds."""
    consumed = tuple(sorted(sender.eventer.app.amqp.queues.consume_from))
    try:
        now = datetime.now(UTC)
        reported = Heartbeat(now, consumed, problems() | hindered(now) | usage_problems, PROCESS)
        connection().hset(KEY, sender.eventer.hostname, reported.to_json())
    except RedisError:
        return  # the broker's own connection logs the outage


@worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """Remove the heartbeat of a worker that was asked to stop."""
    try:
        connection().hdel(KEY, sender.hostname)
    except RedisError:
        return


def heartbeats() -> dict[str, Heartbeat]:
    """The last heartbeat of each worker by name; old ones are removed, unreadable ones skipped."""
    heard = readable(KEY, hash_of(connection(), KEY), Heartbeat.from_json)
    silent = [name for name, heartbeat in heard.items() if datetime.now(UTC) - heartbeat.time > FORGOTTEN]
    if silent:
        connection().hdel(KEY, *silent)
    return {name: heartbeat for name, heartbeat in heard.items() if name not in silent}
