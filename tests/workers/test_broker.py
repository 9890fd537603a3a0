"""Losing Redis under a task is an error that Celery handles, never one that ends the worker (workers/broker.py)."""

from collections.abc import Iterator

import pytest
from kombu import Consumer, Exchange, Message, Producer, Queue
from redis.exceptions import ConnectionError

from workers.broker import Channel, PersistentConnection

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


def test_a_task_that_ends_after_its_connection_was_lost_raises_what_celery_expects(
    connection: PersistentConnection, unacknowledged: Message
) -> None:
    connection.collect()
    unacknowledged.channel._disconnect_pools()  # as it is where Redis did not answer while the channel was closed

    with pytest.raises(ConnectionError, match="lost its connection"):
        unacknowledged.ack()
    assert isinstance(ConnectionError(), connection.connection_errors)


def test_closing_a_channel_after_its_connection_was_lost_raises_nothing(
    connection: PersistentConnection, unacknowledged: Message
) -> None:
    channel = unacknowledged.channel
    connection.collect()

    channel.close()

    assert channel.closed


def test_closing_a_channel_restores_its_unacknowledged_tasks_while_redis_answers(
    connection: PersistentConnection, unacknowledged: Message
) -> None:
    unacknowledged.channel.qos.restore_unacked()

    assert TASKS(connection.channel()).get() is not None
