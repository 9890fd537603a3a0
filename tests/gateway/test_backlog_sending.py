"""Bytes that are sent to backlog queues of a local namespace over one connection."""

import asyncio
import re
from contextlib import suppress

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from emulator.running import running
from gateway.guard.backlog import Outgoing, SharedSender
from gateway.namespace import Namespace
from pairing.ends import Endpoint
from tests.pairing.test_messages_round_trip import encoded

pytestmark = pytest.mark.slow
ONE = Outgoing((encoded(ServiceBusMessage("one", message_id="1")),), 0)


@pytest.fixture(scope="module")
def namespace():
    with running("contoso-dr", entities=["contoso-dr/first", "contoso-dr/second"]) as namespaces:
        yield namespaces["contoso-dr"]


def backlog_to(text):
    endpoint = Endpoint.from_connection_string("secondary", text, {})
    return SharedSender(Namespace.of(endpoint))


@pytest.fixture
async def backlog(namespace):
    opened = backlog_to(namespace.connection_string)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("effect", "fields", "error"),
    [
        ("reject", {"condition": "com.microsoft:server-busy"}, ServiceBusServerBusyError),
        ("silent", {}, OperationTimeoutError),
        ("reset", {}, ServiceBusConnectionError),
        ("detach", {"condition": "amqp:link:detach-forced"}, ServiceBusConnectionError),
    ],
)
async def test_a_failed_send_has_the_error_of_the_sdk_and_the_next_one_succeeds(
    backlog, namespace, effect, fields, error
):
    assert await backlog.send("first", ONE, 10.0) is None
    fault = await asyncio.to_thread(namespace.fault, "send", effect, entity="first", **fields)
    failure = await backlog.send("first", ONE, 1.0)
    assert type(failure.error) is error
    assert failure.reused
    assert await backlog.send("second", ONE, 10.0) is None
    await asyncio.to_thread(namespace.mend, fault)
    assert await backlog.send("first", ONE, 10.0) is None


async def test_a_namespace_that_cannot_be_reached_and_a_wrong_key_fail_at_once(namespace):
    nowhere = backlog_to(
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    )
    assert type((await nowhere.send("first", ONE, 10.0)).error) is ServiceBusConnectionError
    wrong = backlog_to(re.sub("SharedAccessKey=[^;]*", "SharedAccessKey=wrong", namespace.connection_string))
    assert type((await wrong.send("first", ONE, 10.0)).error) is ServiceBusAuthenticationError
    with suppress(Exception):
        wrong.close()


async def test_a_send_that_has_no_time_left_does_not_disturb_others(backlog, namespace):
    assert await backlog.send("first", ONE, 10.0) is None
    with namespace.slow("first", 1.0):
        other = asyncio.create_task(backlog.send("first", ONE, 10.0))
        await asyncio.sleep(0)
        assert await backlog.send("first", ONE, 0.0) is not None
        assert await other is None
