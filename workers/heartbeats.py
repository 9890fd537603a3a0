"""How others see that workers are alive: hash `workers:heartbeat` in Redis, worker name → JSON with time, queues and
problems.

Sent from the loop that takes tasks from the broker, so that a worker which is stuck there falls silent.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.signals import heartbeat_sent, worker_shutdown

from dashboard.redis import RedisError, connection
from workers.connections import problems

KEY = "workers:heartbeat"
FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When a worker was last heard of, which queues it serves, and which pairs it cannot serve as it should."""

    time: datetime
    queues: tuple[str, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why, by pair."""

    def to_json(self) -> str:
        return json.dumps({"time": self.time.isoformat(), "queues": self.queues, "problems": dict(self.problems)})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Heartbeat":
        told = json.loads(text)
        return cls(datetime.fromisoformat(told["time"]), tuple(told["queues"]), told.get("problems", {}))


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """Every two seconds."""
    consumed = tuple(sorted(sender.eventer.app.amqp.queues.consume_from))
    try:
        told = Heartbeat(datetime.now(UTC), consumed, problems())
        connection().hset(KEY, sender.eventer.hostname, told.to_json())
    except RedisError:
        return  # the broker's own connection makes the noise


@worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """A worker that was told to stop is not missed."""
    try:
        connection().hdel(KEY, sender.hostname)
    except RedisError:
        return


def heartbeats() -> dict[str, Heartbeat]:
    """The last heartbeat of every worker by its name; those long silent are forgotten."""
    heard = {str(name): Heartbeat.from_json(text) for name, text in connection().hgetall(KEY).items()}
    silent = [name for name, heartbeat in heard.items() if datetime.now(UTC) - heartbeat.time > FORGOTTEN]
    if silent:
        connection().hdel(KEY, *silent)
    return {name: heartbeat for name, heartbeat in heard.items() if name not in silent}
