"""The connection of workers and beat to Redis, kept through any outage of it: `Amqp` for the Celery app.

A task that ends, or a channel that is closed, after its connection was lost asks Redis once more: it acknowledges, or
restores what was not acknowledged. Kombu's channel has no connection any more at that moment and raises AttributeError,
which nobody expects, and Celery ends the worker (seen with celery 5.7.0 and kombu 5.7.0; compare celery/kombu issue 582
and celery/celery issue 10205). Here it raises the ConnectionError that both handle. The task is left to the visibility
timeout, after which Redis delivers it again; until then the next tick of the schedule does its work.
"""

import logging
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ConnectionError

log = logging.getLogger(__name__)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 3.0
"""Pauses between attempts to connect: workers are back within 10 s of Redis (docs/operations.md)."""


def has_lost_connection(channel: Any) -> bool:
    """Whether the channel, or the connection below it, was closed or given up."""
    return channel.connection is None or channel.connection.client is None


class QoS(redis.QoS):
    """Restores what a channel has not acknowledged, unless the channel has lost its connection."""

    def restore_unacked(self, client: Any = None) -> None:
        delivered: dict[str, Any] = self._delivered or {}
        if has_lost_connection(self.channel):
            log.info("%d tasks are left to the visibility timeout", len(delivered))
            delivered.clear()
        else:
            super().restore_unacked(client)


class Channel(redis.Channel):
    """A channel that raises ConnectionError where it has lost its connection."""

    QoS = QoS

    def _connparams(self, asynchronous: bool = False) -> Any:
        if has_lost_connection(self):
            raise ConnectionError("this channel has lost its connection to Redis")
        return super()._connparams(asynchronous)  # type: ignore[misc]  # its types leave this out


class Transport(redis.Transport):
    """Redis, with these channels."""

    Channel = Channel


class PersistentConnection(Connection):
    """Tries again every few seconds for as long as it takes."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        pauses = {
            "interval_start": FIRST_PAUSE_S,
            "interval_step": FIRST_PAUSE_S,
            "interval_max": LONGEST_PAUSE_S,
        }
        return super().ensure_connection(*args, **options | pauses)


class Amqp(AMQP):
    """Celery's, with connections of this kind."""

    Connection = PersistentConnection


for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"  # kombu's registry of transports by the scheme of a URL
