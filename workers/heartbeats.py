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

from dashboard.site.redis import RedisError, connection
from pairing.stored_json import hash_of, moment, readable, reading, record, text, text_or_none, texts
from workers.connections import problems
from workers.slices import PROCESS
from workers.syphons import hindered

KEY = "workers:heartbeat"
FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When a worker was last heard of, which queues it serves, and which pairs it cannot serve as it should."""

    time: datetime
    queues: tuple[str, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, by pair, or by backlog queue where a syphon receives and does not deliver."""
    process: str = ""
    """`<hostname>:<pid>`: how leases and events begin to name it."""

    def to_json(self) -> str:
        return json.dumps(
            {
                "time": self.time.isoformat(),
                "queues": self.queues,
                "problems": dict(self.problems),
                "process": self.process,
            }
        )

    @classmethod
    def from_json(cls, written: str | bytes) -> "Heartbeat":
        """What `to_json` wrote; ValueError where the text is none."""
        with reading("a heartbeat"):
            told = record(written)
            wrong = told.get("problems", {})
            return cls(
                moment(told, "time"),
                tuple(texts(told, "queues")),
                {what: text(wrong, what) for what in wrong},
                text_or_none(told, "process") or "",
            )


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """Every two seconds."""
    consumed = tuple(sorted(sender.eventer.app.amqp.queues.consume_from))
    try:
        now = datetime.now(UTC)
        told = Heartbeat(now, consumed, problems() | hindered(now), PROCESS)
        connection().hset(KEY, sender.eventer.hostname, told.to_json())
    except RedisError:
        return  # the broker's own connection makes the noise


@worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """A worker that was asked to stop is not missed."""
    try:
        connection().hdel(KEY, sender.hostname)
    except RedisError:
        return


def heartbeats() -> dict[str, Heartbeat]:
    """The last heartbeat of every worker by its name; those long silent are forgotten, unreadable ones left out."""
    heard = readable(KEY, hash_of(connection(), KEY), Heartbeat.from_json)
    silent = [name for name, heartbeat in heard.items() if datetime.now(UTC) - heartbeat.time > FORGOTTEN]
    if silent:
        connection().hdel(KEY, *silent)
    return {name: heartbeat for name, heartbeat in heard.items() if name not in silent}
