"""How others see that workers are alive: hash `workers:heartbeat` in Redis, worker name → JSON with time and queues.

Sent from the loop that takes tasks from the broker, so that a worker which is stuck there falls silent.
"""

import json
from datetime import UTC, datetime
from typing import Any

from celery.signals import heartbeat_sent, worker_shutdown

from dashboard.redis import RedisError, connection

KEY = "workers:heartbeat"


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """Every two seconds."""
    consumed = sorted(sender.eventer.app.amqp.queues.consume_from)
    heartbeat = {"time": datetime.now(UTC).isoformat(), "queues": consumed}
    try:
        connection().hset(KEY, sender.eventer.hostname, json.dumps(heartbeat))
    except RedisError:
        return  # the broker's own connection makes the noise


@worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """A worker that was told to stop is not missed."""
    try:
        connection().hdel(KEY, sender.hostname)
    except RedisError:
        return
