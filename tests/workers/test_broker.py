"""Losing Redis under a task is an error that Celery handles, never one that ends the worker (workers/broker.py)."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

import pytest
import redis
import trustme
from celery.worker.consumer import Gossip, Mingle
from kombu import Consumer, Exchange, Message, Producer, Queue
from kombu.utils.imports import symbol_by_name
from redis.exceptions import ConnectionError, OutOfMemoryError

from workers import broker
from workers.broker import QUEUES, Channel, PersistentConnection, broker_url
from workers.celery import app

TASKS = Queue("tasks-of-a-test", Exchange("tests"), routing_key="tasks")


@pytest.fixture
def connection(redis_url: str) -> Iterator[PersistentConnection]:
    connection = PersistentConnection(redis_url)
    yield connection
    connection.release()


@pytest.fixture
def unacknowledged(connection: PersistentConnection) -> Message:
    """A task that was delivered and is still running."""
    delivered: list[Message] = []
    Producer(connection, TASKS.exchange, TASKS.routing_key).publish("work", declare=[TASKS])
    with Consumer(connection, [TASKS], callbacks=[lambda _, message: delivered.append(message)]):
        connection.drain_events(timeout=10)
    [message] = delivered
    assert isinstance(message.channel, Channel)
    return message


@pytest.fixture
def impostor() -> Iterator[tuple[int, list[bytes]]]:
    """A port on which somebody without a certificate that anybody trusts answers with TLS, and what was sent there."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    def listen() -> None:
        with suppress(OSError):  # it is shut down
            while True:
                plain, _ = listener.accept()
                with plain, suppress(ssl.SSLError), context.wrap_socket(plain, server_side=True) as client:
                    heard.append(client.recv(1000))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_redis_whose_certificate_nobody_trusts_is_sent_no_password(impostor):
    port, heard = impostor
    address = broker_url(f"rediss://:hunter2@localhost:{port}/0")
    with PersistentConnection(address) as connection, pytest.raises(ConnectionError, match="certificate"):
        connection.connect()
    assert not heard


def test_a_redis_that_refuses_what_workers_write_is_asked_again_after_a_pause(monkeypatch, caplog):
    pauses: list[float] = []
    monkeypatch.setattr(broker.time, "sleep", pauses.append)
    consumer = symbol_by_name(app.conf.worker_consumer)
    attempt = consumer.__new__(consumer)
    attempt.conninfo = PersistentConnection("redis://:hunter2@h/0")
    attempt.on_connection_error_before_connected(OutOfMemoryError("command not allowed when used memory > 'maxmemory'"))
    assert pauses == [broker.LONGEST_PAUSE_S]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("url", ["rediss://h/0?ssl_cert_reqs=none", "redis://h/0", "unix:///run/redis.sock"])
def test_an_address_that_says_so_or_has_no_tls_stays_as_it_is(url):
    assert broker_url(url) == url


def test_other_options_of_an_address_are_kept():
    connection = PersistentConnection(broker_url("rediss://h/0?ssl_ca_certs=/ca.pem"))
    assert connection.ssl == {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": ssl.CERT_REQUIRED}


def test_a_task_that_ends_after_its_connection_was_lost_raises_what_celery_expects(connection, unacknowledged):
    connection.collect()
    unacknowledged.channel._disconnect_pools()  # as it is where Redis did not answer while the channel was closed

    with pytest.raises(ConnectionError, match="lost its connection"):
        unacknowledged.ack()
    assert isinstance(ConnectionError(), connection.connection_errors)


def test_closing_a_channel_after_its_connection_was_lost_raises_nothing(connection, unacknowledged):
    channel = unacknowledged.channel
    connection.collect()

    channel.close()

    assert channel.closed


def test_closing_a_channel_restores_its_unacknowledged_tasks_while_redis_answers(connection, unacknowledged):
    unacknowledged.channel.qos.restore_unacked()

    assert TASKS(connection.channel()).get() is not None


POISONED_QUEUE = Queue(QUEUES[0], Exchange("workers"), routing_key=QUEUES[0])


@pytest.fixture
def consumed(connection: PersistentConnection, redis_client: redis.Redis) -> Iterator[list[str]]:
    """What a consumer of a worker's queue takes; every attempt to read drops what is no task."""
    taken: list[str] = []

    def take(body: str, message: Message) -> None:
        taken.append(body)
        message.ack()

    with Consumer(connection, [POISONED_QUEUE], callbacks=[take]):
        yield taken


def drained(connection: PersistentConnection, taken: list[str]) -> list[str]:
    """Reads until the task that was published last is there."""
    Producer(connection, POISONED_QUEUE.exchange, POISONED_QUEUE.routing_key).publish("work")
    while "work" not in taken:
        connection.drain_events(timeout=10)
    return taken


def test_nobody_controls_workers_through_redis():
    assert not app.conf.worker_enable_remote_control
    with PersistentConnection("redis://127.0.0.1:1/0") as connection:
        assert connection.transport.driver_type not in {*Gossip.compatible_transports, *Mingle.compatible_transports}


def test_a_worker_that_is_behind_drops_expired_ticks_together_and_no_other_task(connection, redis_client, consumed):
    """One by one they would take longer than new ones need to expire."""
    over, later = (datetime.now(UTC) + timedelta(seconds=seconds) for seconds in (-60, 3600))
    producer = Producer(connection, POISONED_QUEUE.exchange, POISONED_QUEUE.routing_key)
    for number in range(50):
        producer.publish(
            f"expired {number}", headers={"task": "pings.due", "expires": over.isoformat(timespec="microseconds")}
        )
    producer.publish("kept", headers={"task": "prune"})
    producer.publish(
        "expired after it", headers={"task": "pings.due", "expires": over.isoformat(timespec="microseconds")}
    )
    producer.publish("due", headers={"task": "pings.due", "expires": later.isoformat()})

    assert drained(connection, consumed) == ["expired 0", "kept", "expired after it", "due", "work"]
