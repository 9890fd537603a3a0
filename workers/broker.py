"""The connection of workers and beat to Redis, which survives outages of any length: `Amqp` for the Celery app.

After a lost connection, a task that ends or a channel that is closed accesses Redis once more, to acknowledge or to
restore unacknowledged messages. At that moment Kombu's channel has no connection and raises AttributeError, which is
unhandled, so Celery ends the worker (observed with celery 5.7.0 and kombu 5.7.0; compare celery/kombu issue 582 and
celery/celery issue 10205). The classes here raise ConnectionError, which both handle. Redis delivers the task again
after the visibility timeout; until then the next tick of the schedule does its work.
"""

import logging
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ConnectionError

log = logging.getLogger(__name__)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 3.0
"""Pauses between connection attempts: workers reconnect within 10 s after Redis returns (docs/operations.md)."""


def has_lost_connection(channel: Any) -> bool:
    """Whether the channel, or its underlying connection, was closed or abandoned."""
    return channel.connection is None or channel.connection.client is None


class QoS(redis.QoS):
    """Restores the unacknowledged messages of a channel, unless the channel has lost its connection."""

    def restore_unacked(self, client: Any = None) -> None:
        delivered: dict[str, Any] = self._delivered or {}
        if has_lost_connection(self.channel):
            log.info("%d tasks are delivered again after the visibility timeout", len(delivered))
            delivered.clear()
        else:
            super().restore_unacked(client)


class Channel(redis.Channel):
    """A channel that raises ConnectionError if it has lost its connection."""

    QoS = QoS

    def _connparams(self, asynchronous: bool = False) -> Any:
        if has_lost_connection(self):
            raise ConnectionError("this channel has lost its connection to Redis")
        return super()._connparams(asynchronous)  # type: ignore[misc]  # its types leave this out


class Transport(redis.Transport):
    """The Redis transport with these channels."""

    Channel = Channel


class PersistentConnection(Connection):
    """Retries every few seconds, without a limit."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        pauses = {
            "interval_start": FIRST_PAUSE_S,
            "interval_step": FIRST_PAUSE_S,
            "interval_max": LONGEST_PAUSE_S,
        }
        return super().ensure_connection(*args, **options | pauses)


class Amqp(AMQP):
    """Celery's Amqp with connections of this kind."""

    Connection = PersistentConnection


for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"  # kombu's registry of transports by URL scheme
