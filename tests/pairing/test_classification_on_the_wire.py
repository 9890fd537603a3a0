"""Each answer of a namespace, over real AMQP in both worlds: which one fails an entity over, and which is raised.

docs/specification.md, section 5 (the classification); docs/wire.md (what the SDK makes of it).
"""

import contextlib
import socket
import threading
from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus import exceptions as sdk
from azure.servicebus.exceptions import ServiceBusError

from pairing import ServerBusyError
from tests.pace import Stopwatch, slowed
from tests.pairing.conftest import World

pytestmark = pytest.mark.sampled("world")

OUTAGES = [
    "amqp:client-error",
    "amqp:connection:forced",
    "amqp:internal-error",
    "amqp:link:detach-forced",
    "amqp:link:stolen",
    "amqp:link:transfer-limit-exceeded",
    "amqp:resource-limit-exceeded",
    "amqp:resource-locked",
    "amqp:socket-error",
    "amqp:unknown-error",
    "com.example:never-heard-of",
    "com.microsoft:container-close",
    "com.microsoft:entity-disabled",
    "com.microsoft:operation-cancelled",
    "com.microsoft:timeout",
]
VANISHED = ["amqp:not-found", "amqp:resource-deleted"]  # the entity has taken a message before
RAISED = {
    "amqp:decode-error": ServiceBusError,
    "amqp:frame-size-too-small": ServiceBusError,
    "amqp:illegal-state": ServiceBusError,
    "amqp:invalid-field": ServiceBusError,
    "amqp:link:message-size-exceeded": sdk.MessageSizeExceededError,
    "amqp:not-allowed": ServiceBusError,
    "amqp:not-implemented": ServiceBusError,
    "amqp:precondition-failed": ServiceBusError,
    "amqp:unauthorized-access": sdk.ServiceBusAuthorizationError,
    "com.microsoft:argument-error": ServiceBusError,
    "com.microsoft:argument-out-of-range": ServiceBusError,
    "com.microsoft:auth-failed": sdk.ServiceBusAuthorizationError,
    "com.microsoft:entity-already-exists": sdk.MessagingEntityAlreadyExistsError,
    "com.microsoft:message-lock-lost": sdk.MessageLockLostError,
    "com.microsoft:message-not-found": sdk.MessageNotFoundError,
    "com.microsoft:precondition-failed": ServiceBusError,
    "com.microsoft:server-busy": ServerBusyError,
    "com.microsoft:session-cannot-be-locked": sdk.SessionCannotBeLockedError,
    "com.microsoft:session-lock-lost": sdk.SessionLockLostError,
}


async def answers(world, primary, client, sender, queue, conditions):
    """What a send made of each condition: the state of the entity, or the class of the error."""
    made = {}
    for condition in conditions:
        primary.fault(entity=queue, operation="send", effect="reject", condition=condition)
        try:
            await world(sender.send_messages, ServiceBusMessage("x"))
            made[condition] = str(client.entity_health(queue).state)
        except ServiceBusError as error:
            made[condition] = type(error)
            assert client.entity_health(queue).state == "healthy"
        primary.mend()
        client.mark_healthy(queue)
    return made


async def test_what_qualifies_fails_over_and_what_does_not_is_raised(world, primary, queue):
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("x"))
    expected = dict.fromkeys(OUTAGES + VANISHED, "failed_over") | RAISED
    assert await answers(world, primary, client, sender, queue, expected) == expected


async def test_an_entity_that_never_took_a_message_and_is_not_there_is_a_typing_error(world, primary, queue):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    made = await answers(world, primary, client, sender, queue, VANISHED)
    assert made == {"amqp:not-found": sdk.MessagingEntityNotFoundError, "amqp:resource-deleted": ServiceBusError}


@pytest.mark.parametrize("status", [401, 404, 500, 503])
async def test_a_token_that_is_refused_never_fails_over(world, primary, queue, status):
    client = await world.open(enable_pings=False)
    primary.fault(entity=queue, operation="cbs", effect="status", status=status)
    with pytest.raises(sdk.ServiceBusAuthenticationError) as refused:
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"), timeout=slowed(8))
    assert "Check the connection string" in refused.value.__notes__[0]
    health = client.entity_health(queue)
    assert health.state == "healthy"
    assert health.reason.startswith("refused: wrong key, or no such entity, since ")


@contextlib.contextmanager
def listener(*, accepts: bool):
    """A port that accepts connections and says nothing, or, its queue being full, does not even answer a SYN."""
    held: list[socket.socket] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64 if accepts else 0)
        address = server.getsockname()
        try:
            if not accepts:
                _fill(address, held)
            yield address[1]
        finally:
            for connection in held:
                connection.close()


def _fill(address: tuple[str, int], held: list[socket.socket]) -> None:
    for _ in range(8):
        held.append(socket.socket())
        held[-1].settimeout(0.2)
        try:
            held[-1].connect(address)
        except TimeoutError:
            return


@pytest.mark.parametrize("accepts", [True, False], ids=["accepted and silent", "SYN never answered"])
async def test_a_host_that_says_nothing_ends_within_the_timeout(world, secondary, accepts):
    with listener(accepts=accepts) as port:
        string = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
        silent = World(world.name, SimpleNamespace(connection_string=string), secondary)
        client = await silent.open(enable_pings=False, backlog_queue_count=1)
        allowed = slowed(12.0)
        with Stopwatch() as watch:
            await world(client.get_queue_sender("orders").send_messages, ServiceBusMessage("x"), timeout=allowed)
        assert watch.took < allowed + 1.0
        assert client.entity_health("orders").state == "failed_over"
        await silent.close()
    await world.until(lambda: not [t.name for t in threading.enumerate() if t.name == "pairing-opening"])
