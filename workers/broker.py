"""The connection of workers and beat to Redis, which survives outages of any length: `Amqp` and `PatientConsumer` for
the Celery app.

After a lost connection, a task that ends or a channel that is closed accesses Redis once more, to acknowledge or to
restore unacknowledged messages. At that moment Kombu's channel has no connection and raises AttributeError, which is
unhandled, so Celery ends the worker (observed with celery 5.7.0 and kombu 5.7.0; compare celery/kombu issue 582 and
celery/celery issue 10205). The classes here raise ConnectionError, which both handle. Redis delivers the task again
after the visibility timeout; until then the next tick of the schedule does its work.

A worker that is behind takes the oldest task first. Ticks that have expired would keep it from ever reaching one that
has not, while beat adds new ones as fast as it discards them: it drops all expired ones together.
"""

import logging
import time
from datetime import UTC, datetime
from typing import Any

from celery.app.amqp import AMQP
from celery.worker.consumer import Consumer, Gossip, Mingle
from django.conf import settings
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from redis.connection import Connection as PlainConnection
from redis.exceptions import ConnectionError
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from pairing.fleet.access import script
from pairing.fleet.redis_url import Sentinels, names_sentinels

log = logging.getLogger(__name__)
QUEUES = ("pings", "syphons", "collectors", "samples", "backlog", "pipeline", "alerts")
EXCHANGE = "workers"
MOST_DROPPED = 1_000
_DROP_EXPIRED = script("workers", "drop_expired")
SENTINELS = "redis://sentinels/0"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 3.0
"""Pauses between connection attempts: workers reconnect within 10 s after Redis returns (docs/operations.md)."""


def broker_url(url: str) -> str:
    """The address for Kombu, which cannot read a list of Sentinels: a placeholder for them.

    Unlike redis-py, Kombu verifies no certificate of `rediss://` without an option for it.
    """
    if names_sentinels(url):
        return SENTINELS
    if not url.startswith("rediss:") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


def has_expired(expires: str | None) -> bool:
    """Whether a task has this time of expiry, and it is over."""
    return expires is not None and datetime.fromisoformat(expires) < datetime.now(UTC)


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


class Message(virtual.Message):
    """A task; one that has expired shows that its queue is behind."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        if channel is not None and has_expired(self.headers.get("expires")):
            channel.behind.add(self.delivery_info["routing_key"])


class Channel(redis.Channel):
    """A channel that raises ConnectionError if it has lost its connection, and drops what has expired."""

    QoS = QoS
    Message = Message

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.behind: set[str] = set()  # queues of which an expired task was taken
        super().__init__(*arguments, **options)

    @property
    def connection_class(self) -> type[PlainConnection]:  # type: ignore[override]
        """The kind of connection that the pool of this channel needs, without TLS."""
        if not names_sentinels(settings.REDIS_URL):
            return PlainConnection
        return SentinelManagedSSLConnection if settings.REDIS_URL.startswith("rediss") else SentinelManagedConnection

    def _connparams(self, asynchronous: bool = False) -> Any:
        if has_lost_connection(self):
            raise ConnectionError("this channel has lost its connection to Redis")
        return super()._connparams(asynchronous)  # type: ignore[misc]  # its types leave this out

    def _get_pool(self, asynchronous: bool = False) -> Any:
        """With Sentinels, a pool whose connections go to the master that they name."""
        if not names_sentinels(settings.REDIS_URL):
            return super()._get_pool(asynchronous)  # type: ignore[misc]  # its types leave this out
        options = self._connparams(asynchronous)
        for name in ("host", "port", "username", "password", "db"):  # of the placeholder
            options.pop(name, None)
        return Sentinels.from_url(settings.REDIS_URL).pool(**options)

    def _brpop_read(self, **options: Any) -> Any:
        """The next task, given to its consumer."""
        answer = super()._brpop_read(**options)  # type: ignore[misc]  # its types leave this out
        self._catch_up()
        return answer

    def _catch_up(self) -> None:
        """Drops the expired tasks of queues that are behind."""
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        while self.behind:
            client = self._create_client()  # type: ignore[attr-defined]  # its types leave this out
            client.eval(_DROP_EXPIRED, 1, self.behind.pop(), now, MOST_DROPPED)

    def get_table(self, exchange: str) -> list[Any]:
        """The bindings of an exchange: routing key, pattern and queue. Those of tasks are known, and not asked for."""
        if exchange == EXCHANGE:
            return [(queue, "", queue) for queue in QUEUES]
        return super().get_table(exchange)


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


class PatientConsumer(Consumer):
    """The consumer of a worker. It pauses where Redis answers and refuses, as one does that is full, or a replica."""

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Log it, and let some time pass before the next attempt."""
        super().on_connection_error_before_connected(exc)
        time.sleep(LONGEST_PAUSE_S)


for step in (Gossip, Mingle):
    step.compatible_transports = set()  # workers need no news of each other, and strangers could send some
for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"  # kombu's registry of transports by URL scheme
