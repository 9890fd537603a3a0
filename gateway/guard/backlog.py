"""Sends bytes to a namespace: one connection for the process, and a link for each queue or topic."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from azure.servicebus._pyamqp.error import AMQPException
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusError,
)

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.cbs import TokenNode
from amqp10.client import ClientConnection, ClientSession
from amqp10.link import Link
from amqp10.transport.dialled import Dialled
from amqp10.transport.listener import READ_BUFFER
from amqp10.types import AmqpError
from gateway.namespace import TOKEN_LIFE_S, Namespace
from pairing.links.failures import LinkFailure

log = logging.getLogger("gateway")

CONTAINER = "paired-namespaces-gateway"
_RENEW_S = 360
_LOOK_S = 60.0
_ANSWER_S, _SHORT_S, _MOST_PROOFS = 10.0, 1.0, 4


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What one send consists of: whole messages or batches, each for a delivery of its own."""

    deliveries: tuple[bytes, ...]
    message_format: int


def sdk_error(condition: str | None, description: str) -> ServiceBusError:
    """The error that the SDK raises for a condition: the library classifies those."""
    if condition is None:
        return ServiceBusConnectionError(message=description)
    found: ServiceBusError = PyamqpTransport.create_servicebus_exception(
        log, AMQPException(condition.encode(), description=description)
    )
    return found


Signs = Callable[[str], tuple[str, str]]
"""The token for an audience, and its kind."""


class _Queue:
    """The link to one backlog queue, once it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.link: Link | None = None
        self.opened = _future()
        self.may_send = asyncio.Event()
        self.unsettled: dict[int, asyncio.Future[None]] = {}
        self.renew_at = time.monotonic() + TOKEN_LIFE_S - _RENEW_S

    def fail(self, error: ServiceBusError) -> None:
        """The link is over: nobody waits for it any more."""
        for waiting in (self.opened, *self.unsettled.values()):
            if not waiting.done():
                waiting.set_exception(error)
        self.unsettled.clear()
        self.may_send.set()

    def look(self) -> None:
        """Let senders go on while there is credit and room."""
        link = self.link
        if link is not None and link.credit > 0 and link.session.has_room:
            self.may_send.set()
        else:
            self.may_send.clear()


class SharedConnection(Dialled):
    """The connection, from its first send to its loss; another one is then dialled."""

    def __init__(self, namespace: Namespace, read_buffer: bytearray, signs: Signs | None = None) -> None:
        super().__init__(namespace, read_buffer)
        self.is_lost, self.max_message_size = False, 0
        self._signs, self._host = signs or namespace.sign, namespace.host
        self._amqp = ClientConnection(CONTAINER, namespace.hostname)
        self.ready = _future()
        self._session: ClientSession | None = None
        self._tokens: TokenNode | None = None
        self._asked: dict[int, _Queue | None] = {}  # by the number of the token; None: only renewed
        self._queues: dict[str, _Queue] = {}
        self._tags = itertools.count(1)
        self._pulse: asyncio.TimerHandle | None = None
        self._read_at = 0.0

    async def send(self, path: str, outgoing: Outgoing) -> None:
        """Send to a queue; returns once it has accepted everything. Raises ServiceBusError."""
        queue = await self.attach(path)
        settled = [await self._deliver(queue, each, outgoing.message_format) for each in outgoing.deliveries]
        await asyncio.gather(*settled)

    async def attach(self, path: str) -> _Queue:
        """The open link to a queue; without a path, only an answer of `$cbs`. Raises ServiceBusError."""
        await asyncio.shield(self.ready)
        queue = self._queue(path)
        await asyncio.shield(queue.opened)
        return queue

    def has(self, path: str) -> bool:
        """Whether the link to a queue is open."""
        return path in self._queues and self._queues[path].link is not None

    def overdue(self, path: str, began_at: float) -> None:
        """A queue has not answered: give up its link, and the connection if nothing at all has come since."""
        if time.monotonic() - began_at < _SHORT_S:  # there was no time to answer
            return
        if self._read_at < began_at:
            self.lose("it does not answer")
        elif (queue := self._queues.get(path)) is not None:
            if queue.link is not None:
                queue.link.detach()
            self._drop(queue, sdk_error(None, "The queue does not answer."))
            self._flush()

    async def _deliver(self, queue: _Queue, data: bytes, message_format: int) -> asyncio.Future[None]:
        while True:
            await queue.may_send.wait()
            link = queue.link
            if self._queues.get(queue.path) is not queue or link is None:
                raise sdk_error(None, f"the link to {queue.path} is lost")
            if link.credit > 0 and link.session.has_room:
                break
            queue.look()
        tag = next(self._tags).to_bytes(8, "big")
        settled = _future()
        queue.unsettled[link.deliver(data, tag, settled=False, message_format=message_format)] = settled
        queue.look()
        self._flush()
        return settled

    def _queue(self, path: str) -> _Queue:
        queue = self._queues.get(path)
        if queue is None:
            queue = self._queues[path] = _Queue(path)
            self._put_token(path, queue)
        return queue

    def _put_token(self, path: str, queue: _Queue | None) -> None:
        assert self._tokens is not None
        audience = f"amqps://{self._host}/{path}"
        token, kind = self._signs(audience)
        self._asked[self._tokens.put(token, audience, kind)] = queue
        self._flush()

    # --- amqp10.transport.dialled.Dialled --------------------------------------------------------------------------

    def connected(self) -> None:
        self._flush()

    def received(self, data: bytes) -> None:
        self._read_at = time.monotonic()
        for event in self._amqp.receive(data):
            try:
                self._on(event)
            except AmqpError as error:
                self.lose(f"it does not speak AMQP as agreed: {error}")
        self._flush()
        if self._amqp.is_closed:
            self.lose("it closed the connection")

    def lost(self, reason: str) -> None:
        self.is_lost = True
        error = sdk_error(None, f"The connection to {self._host} is lost: {reason}.")
        if self._pulse is not None:
            self._pulse.cancel()
        if not self.ready.done():
            self.ready.set_exception(error)
        queues, self._queues = list(self._queues.values()), {}
        for queue in queues:
            queue.fail(error)

    def _flush(self) -> None:
        if self.is_ready and (output := self._amqp.take_output()):
            self.write_raw(output)

    # --- events ----------------------------------------------------------------------------------------------------

    def _on(self, event: e.Event) -> None:
        answer = None if self._tokens is None else self._tokens.on(event)
        match event:
            case e.ConnectionOpened():
                self._session, self._tokens = self._amqp.begin(), TokenNode(self._amqp.begin())
                self.ready.set_result(None)
                self._beat(event.heartbeat_s or _LOOK_S)
            case e.LinkOpened(link=link) if isinstance(link.owner, _Queue):
                self.max_message_size = link.max_message_size or self.max_message_size
                link.owner.opened.set_result(None)
            case e.CreditGranted(link=link) | e.WindowOpened(link=link) if isinstance(link.owner, _Queue):
                link.owner.look()
            case e.Settled(link=link) if isinstance(link.owner, _Queue):
                _settle(link.owner, event)
            case e.LinkDetached(link=link) if isinstance(link.owner, _Queue):
                self._drop(link.owner, sdk_error(event.condition, event.description or "The link is detached."))
            case e.ConnectionClosed():
                self.lose(event.description or event.condition or "it closed the connection")
        if answer is not None:
            queue = self._asked.pop(answer.number, None)
            if queue is None or self._queues.get(queue.path) is not queue:
                return  # only renewed, or given up
            if not queue.path:
                queue.opened.set_result(None)  # whatever it says
            elif answer.is_accepted:
                assert self._session is not None
                queue.link = self._session.sender(f"{queue.path}-{next(self._tags)}", queue.path)
                queue.link.owner = queue
            else:
                reason = f"{self._host} refuses the token: {answer.description}"
                self._drop(queue, ServiceBusAuthenticationError(message=reason))

    def _beat(self, pause_s: float) -> None:
        """Send a heartbeat, and renew tokens in time."""
        self._amqp.send_empty_frame()
        now = time.monotonic()
        for queue in [queue for queue in self._queues.values() if queue.renew_at <= now]:
            queue.renew_at = now + TOKEN_LIFE_S - _RENEW_S
            self._put_token(queue.path, None)
        self._flush()
        self._pulse = asyncio.get_running_loop().call_later(pause_s, self._beat, pause_s)

    def _drop(self, queue: _Queue, error: ServiceBusError) -> None:
        if self._queues.get(queue.path) is queue:
            del self._queues[queue.path]
        queue.fail(error)


def _settle(queue: _Queue, event: e.Settled) -> None:
    settled = queue.unsettled.pop(event.delivery_id, None)
    if settled is None or settled.done():
        return
    if event.outcome == p.ACCEPTED:
        settled.set_result(None)
    else:
        condition, description, _ = p.error_parts(event.fields[0] if event.fields else None)
        settled.set_exception(sdk_error(condition or "amqp:internal-error", description))


def _future() -> asyncio.Future[None]:
    """A future whose error nobody has to look at."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


async def reaches(namespace: Namespace, read_buffer: bytearray, path: str = "", signs: Signs | None = None) -> bool:
    """Whether a namespace answers tokens, and lets the owner of a token send to the queue of a path."""
    asked = SharedConnection(namespace, read_buffer, signs)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await asked.attach(path)
    except (TimeoutError, ServiceBusError):
        return False
    finally:
        asked.lose("it has answered")
    return True


class SharedSender:
    """The connection that is open, or dialled when it is needed."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace, self._read_buffer = namespace, bytearray(READ_BUFFER)
        self._connection: SharedConnection | None = None
        self.is_away = False  # as far as is known
        self._proofs = asyncio.Semaphore(_MOST_PROOFS)

    @property
    def max_message_size(self) -> int:
        """The limit of the queue attached last; 0 while none has been."""
        return 0 if self._connection is None else self._connection.max_message_size

    async def send(self, path: str, outgoing: Outgoing, timeout_s: float) -> LinkFailure | None:
        """Send to a queue or topic within this time; None if it has accepted everything."""
        if self.is_away:
            return LinkFailure(sdk_error(None, "The namespace cannot be reached."), reused=False)
        if self._connection is None or self._connection.is_lost:
            self._connection = SharedConnection(self._namespace, self._read_buffer)
        connection, began_at = self._connection, time.monotonic()
        reused = connection.has(path)
        try:
            async with asyncio.timeout(timeout_s):
                await connection.send(path, outgoing)
        except TimeoutError:
            connection.overdue(path, began_at)
            return LinkFailure(OperationTimeoutError(message="The namespace has not answered in time."), reused)
        except ServiceBusError as error:
            return LinkFailure(error, reused)
        return None

    async def proves(self, shown: str, kind: str, path: str) -> bool:
        """Whether the secondary lets the owner of a token send to a backlog queue."""
        try:
            async with asyncio.timeout(_ANSWER_S), self._proofs:
                return await reaches(self._namespace, self._read_buffer, path, lambda audience: (shown, kind))
        except TimeoutError:  # too many ask
            return False

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.lose("the gateway ends")
