"""Nodes that answer requests: a pair of links, one for requests and one for responses."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.link import SENDER_CREDIT, Link
from amqp10.requests import Request
from amqp10.types import AmqpError
from emulator.endpoints.base import ClientConnection, Endpoint, in_transaction

UNLIMITED_CREDIT = 10_000
# Answers that are made for clients that grant no credit, and requests that wait, over all links of a connection.
MAX_ANSWERS = 1024 * 1024
MAX_REQUESTS = 16 * 1024 * 1024
RENEWAL_DELAYS_S = (0.02, 0.06)
REPEAT_DELAYS_S = (0.1, 1.0)
MAX_REPEATED = 4096
_ACCEPTED = encode(p.accepted())


class RequestEndpoint(Endpoint):
    """The link on which a client sends requests to a node. Responses go out on the node's other link of the session."""

    def message(self, event: e.MessageReceived) -> None:
        session = self.link.session
        try:
            request = Request(event.payload, event.transaction)
            self._check_room(request)
        except AmqpError as error:
            self.client.transactions.fail(event.transaction, str(error))
            rejected = encode(p.rejected(p.error(error.condition, str(error))))
            session.settle(event.delivery_id, in_transaction(event.transaction, rejected))
            return
        if not event.settled:
            session.settle(event.delivery_id, in_transaction(event.transaction, _ACCEPTED))
        self.process(request)

    def _check_room(self, request: Request) -> None:
        """Raise AmqpError if too many requests wait."""
        if self.client.waiting.requests + request.size > MAX_REQUESTS:
            raise AmqpError("amqp:resource-limit-exceeded", "Too many requests wait: grant credit for their responses.")

    def process(self, request: Request) -> None:
        """Process a request and respond to it."""

    def perform_in_turn(self, request: Request, perform: Callable[[], None]) -> None:
        """Perform a request now, or after those before it once there is room for its answer.

        An answer may be a thousand times as long as its request: answers to all requests of one read, or to those of
        a client that does not read, would fill the memory.
        """
        endpoint = self._endpoint_for(request)
        if endpoint is None:
            perform()
        else:
            endpoint.perform_in_turn(perform, request.size)

    def respond(self, request: Request, payload: bytes) -> None:
        """Send a response on the node's link to the reply-to address of the request, or else to any address.

        The SDK for Python sends a request before it registers it. If another of its threads reads the response in
        between, the SDK drops it, and the request waits forever. Responses are therefore repeated to that SDK, which
        ignores those that nobody waits for.
        """
        endpoint = self._endpoint_for(request)
        if endpoint is None:
            return
        endpoint.deliver(payload)
        if self.client.drops_early_responses and len(payload) <= MAX_REPEATED:
            for delay in REPEAT_DELAYS_S:
                self.host.later(delay, lambda: endpoint.repeat(payload))

    def _endpoint_for(self, request: Request) -> ResponseEndpoint | None:
        links = [link.owner for link in self.link.session.links.values() if isinstance(link.owner, ResponseEndpoint)]
        links = [endpoint for endpoint in links if endpoint.link.address == self.link.address]
        addressed = [endpoint for endpoint in links if endpoint.reply_address == request.reply_to]
        return next(iter(addressed or links), None)

    def renew_credit_later(self) -> None:
        """Send the link's credit a moment after a response, and again for a client that was not done by then.

        Threads of the SDK for Python share a connection, which one at a time reads, and meanwhile none can send. A
        thread whose response another has read still waits for its own turn to read, and then for 200 ms. Any frame
        ends that wait; as many threads may wait as there were responses, so that each response has its own. A client
        with one thread reads these frames with what comes next.
        """
        for delay in RENEWAL_DELAYS_S:
            self.host.later(delay, self._renew_credit)

    def _renew_credit(self) -> None:
        if self.link.is_open:
            self.link.grant(SENDER_CREDIT)
            self.client.request_flush()


class ResponseEndpoint(Endpoint):
    """The link on which a client receives a node's responses, as far as its credit allows.

    A credit of UNLIMITED_CREDIT never ends: the SDK for Python grants it once and does not renew it.
    """

    def __init__(self, client: ClientConnection, link: Link) -> None:
        super().__init__(client, link)
        self._waiting: deque[bytes] = deque()
        self._requests: deque[tuple[Callable[[], None], int]] = deque()
        self._is_unlimited = False

    @property
    def reply_address(self) -> str | None:
        """The address of the client's end, which requests name as their reply-to."""
        return self.link.target.address if self.link.target is not None else None

    @property
    def _can_send(self) -> bool:
        """Whether the client takes a response: it reads all of it before it has to grant anything else."""
        link = self.link
        return link.is_open and (link.credit > 0 or self._is_unlimited) and link.session.has_room

    @property
    def _has_room(self) -> bool:
        """Whether the answer to one more request can be made."""
        if self.client.is_paused:
            return False
        return (self._can_send and not self._waiting) or self.client.waiting.answers < MAX_ANSWERS

    def perform_in_turn(self, perform: Callable[[], None], size: int) -> None:
        """Perform a request of this size now, or after those before it once there is room for its answer."""
        self._requests.append((perform, size))
        self.client.waiting.requests += size
        self._go_on()

    def _go_on(self) -> None:
        self._send()
        while self._requests and self._has_room:
            perform, size = self._requests.popleft()
            self.client.waiting.requests -= size
            perform()

    def deliver(self, payload: bytes) -> None:
        """Send a response now, or when there is credit."""
        self._waiting.append(payload)
        self.client.waiting.answers += len(payload)
        self._send()

    def repeat(self, payload: bytes) -> None:
        """Send a response again, unless the link has ended or others wait for credit."""
        if self.link.is_open and not self._waiting:
            self.perform_in_turn(lambda: self.deliver(payload), len(payload))

    def credit(self, event: e.CreditGranted) -> None:
        self._is_unlimited = self._is_unlimited or self.link.credit >= UNLIMITED_CREDIT
        self._go_on()
        if event.drain and not self._is_unlimited:
            self.link.drain()

    def resumed(self) -> None:
        self._go_on()

    def detached(self) -> None:
        self.client.waiting.answers -= sum(map(len, self._waiting))
        self.client.waiting.requests -= sum(size for _, size in self._requests)
        self._waiting.clear()
        self._requests.clear()

    def _send(self) -> None:
        while self._waiting and self._can_send:
            payload = self._waiting.popleft()
            self.client.waiting.answers -= len(payload)
            self.link.deliver(payload, uuid.uuid4().bytes, settled=True)
        self.client.request_flush()
