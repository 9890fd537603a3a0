"""Serves a client while the primary is away: its senders by the rules, everything else with a refusal to be retried.

A token is accepted if the primary has accepted the same one, if it is signed with the gateway's key for the primary, or
if the secondary lets its owner send to a backlog queue. Once the primary is back, the client is sent to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from azure.servicebus.exceptions import MessageSizeExceededError

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.addresses import MANAGEMENT, is_token_node, path_of
from amqp10.codec import encode
from amqp10.connection import Connection, State
from amqp10.link import Link
from amqp10.requests import Request, response
from amqp10.transport.listener import AcceptedConnection
from amqp10.types import AmqpError, Array, Int, Long, Symbol
from gateway.access import Access
from gateway.guard.client import GatewayClient, GuardedSends, QueueLink
from gateway.guard.guard import guarded_path
from gateway.guard.link import CREDIT, MOST_EARLY, MOST_KEPT, RETRYABLE, SIZE_EXCEEDED, rejection
from gateway.guard.session import ACCEPTED, REST_S, RETRY_S
from gateway.memory import USUAL, Grant, Proofs
from gateway.metrics import OTHER, sdk_of
from gateway.tokens import MAX_REQUEST
from pairing.drive import run_async
from pairing.health.faults import condition

HELD_S, BUSY = 20.0, "com.microsoft:server-busy"
_CONTAINER, _MAX_FRAME = "paired-namespaces-gateway", 64 * 1024
_MOST_ASKED, _MOST_LINKS, _MOST_UNPROVED = 100, 1000, 8
_AWAY = "The primary namespace is away."
Left = Callable[["StandIn"], None]


class StandIn:
    """One client's connection, served here; implements `amqp10.transport.listener.Served` and `server.Client`."""

    is_primary_there = is_waiting = False

    def __init__(
        self, client: GatewayClient, proofs: Proofs, access: Access, connection: AcceptedConnection, left: Left
    ) -> None:
        self._client, self.proofs, self._access, self._connection, self._left = client, proofs, access, connection, left
        self._amqp = Connection(_CONTAINER, max_message_size=MOST_KEPT, authenticate=self._authenticate)
        self._amqp.opening.max_frame_size = _MAX_FRAME
        self.sdk, self.retained, self._kept, self._parts, self._is_leaving, self._reason = OTHER, 0, 0, 0, False, ""
        self.links, self.busy_until = set[Link](), 0.0
        self._proving = asyncio.Lock()  # one client alone does not keep others waiting
        self._tasks: set[asyncio.Task[None]] = set()

    # --- amqp10.transport.listener.Served --------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._amqp.state is State.OPEN and bool(self.proofs.grants)

    def receive(self, data: bytes) -> None:
        self.busy_until = time.monotonic() + REST_S
        for event in self._amqp.receive(data):
            try:
                self._on(event)
            except AmqpError as error:
                self._amqp.close(error.condition, str(error))
        self._hold_parts()
        self._flush()

    def pause(self) -> None:
        """Answers are short: there is nothing to stop."""

    resume = pause

    def lost(self) -> None:
        for link in list(self.links):
            self._forget(link)
        for task in self._tasks:
            task.cancel()
        self._amqp.abort()
        self._hold_parts()
        self._left(self)

    def _flush(self) -> None:
        if self._is_leaving and not self.retained and self._amqp.state in (State.OPENING, State.OPEN):
            self._amqp.close("amqp:connection:forced", self._reason)
        self._connection.write(self._amqp.take_output())
        if self._amqp.is_closed:
            self._connection.close()

    # --- server.Client ---------------------------------------------------------------------------------------------

    def leave(self, reason: str) -> None:
        """End the connection once no delivery waits for its outcome."""
        self._is_leaving, self._reason = True, reason
        self._hold(0)
        self._flush()

    def close(self, condition: str, description: str) -> None:
        """End the connection."""
        self._amqp.close(condition, description)
        self._flush()

    # --- events ----------------------------------------------------------------------------------------------------

    def _on(self, event: e.Event) -> None:
        match event:
            case e.ConnectionOpened():
                self.sdk = sdk_of(event.properties)
                if event.heartbeat_s:
                    self._beat(event.heartbeat_s)
            case e.LinkRequested(link=link):
                self._attach(link)
            case e.MessageReceived(link=link) if isinstance(link.owner, GuardedSends):
                self._delivery(link, link.owner, event)
            case e.MessageReceived(link=link) if isinstance(link.owner, str):
                self._request(link, event)
            case e.CreditGranted(link=link) | e.WindowOpened(link=link) if isinstance(link.owner, deque):
                self._send(link)
            case e.LinkDetached(link=link):
                self._forget(link)

    def _beat(self, pause_s: float) -> None:
        if not self._amqp.is_closed:
            self._amqp.send_empty_frame()
            self._flush()
            asyncio.get_running_loop().call_later(pause_s, self._beat, pause_s)

    def _authenticate(self, name: str, key: str) -> bool:
        shown = f"{name}\0{key}"
        grant = Grant(shown, is_proof=self._access.has(shown))
        if grant.is_proof or self.proofs.memory.knows(grant):
            self.proofs.add(grant)
        return bool(self.proofs.grants)

    def _attach(self, link: Link) -> None:
        self.links.add(link)
        path, memory = path_of(link.address), self.proofs.memory
        guarded = guarded_path(link.attach.role, link.target, link.attach.properties)
        entity = path[: -len(MANAGEMENT)] if path.casefold().endswith(MANAGEMENT) else ""
        if len(self.links) > (_MOST_LINKS if self.proofs.grants else _MOST_UNPROVED):
            self._refuse(link)
        elif is_token_node(path) or (entity and self.proofs.may_send(entity)):
            link.owner = deque(maxlen=_MOST_ASKED) if link.client_receives else entity
            link.accept(max_message_size=MOST_KEPT if entity else MAX_REQUEST)
        elif guarded is not None and self.proofs.may_send(guarded):
            size, properties = memory.links.get(guarded.casefold(), USUAL)
            link.owner, link.renewed_credit = self._sends(guarded), 0
            link.accept(max_message_size=min(size, MOST_KEPT), properties=properties, credit=CREDIT)
        else:  # the primary may come back meanwhile
            link.max_message_size = 1  # it keeps nothing of what is sent
            link.owner = asyncio.get_running_loop().call_later(HELD_S, self._refuse, link)

    def _forget(self, link: Link) -> None:
        self.links.discard(link)
        if isinstance(link.owner, asyncio.TimerHandle):
            link.owner.cancel()

    def _refuse(self, link: Link) -> None:
        self.links.discard(link)
        if link.is_open and not self._amqp.is_closed:
            link.refuse(BUSY, _AWAY)
            self._flush()

    # --- deliveries ------------------------------------------------------------------------------------------------

    def _delivery(self, link: Link, sends: GuardedSends, event: e.MessageReceived) -> None:
        size, error = len(event.payload), None
        if size > link.max_message_size:
            error = p.error(SIZE_EXCEEDED, f"The message has {size} bytes.")
        elif event.transaction is not None or not self.proofs.may_send(sends.entity_name):
            error = p.error(RETRYABLE, _AWAY)
        if error is not None:
            sends.refused(1)
            link.session.settle(event.delivery_id, encode(p.rejected(error)))
            return
        self.retained += 1
        self._work(self._deliver(link, sends, event, self._client.clock.now()), size)

    async def _deliver(self, link: Link, sends: GuardedSends, event: e.MessageReceived, began_at: float) -> None:
        try:
            delivery = sends.delivery(event.payload, event.message_format)
            await run_async(sends.deliver(delivery, None, began_at))
            state = ACCEPTED
        except Exception as error:
            state, self.busy_until = rejection(error), time.monotonic() + RETRY_S
        self.retained -= 1
        if link.is_open:
            link.session.settle(event.delivery_id, state)
            if link.credit <= CREDIT // 2:
                link.grant(CREDIT)
        self._flush()

    def _work(self, work: Coroutine[Any, Any, None], size: int = 0) -> None:
        """Run this; `size`: how many bytes are kept until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._hold(size)
        task.add_done_callback(lambda done: self._hold(-size))
        task.add_done_callback(self._tasks.discard)

    def _hold(self, size: int) -> None:
        """Nothing more is read beyond what one client, or all of them, may have kept."""
        self._kept += size
        self._client.kept += size
        is_full = self._kept > 0 and (self._kept > MOST_KEPT or self._client.is_full)
        (self._connection.pause_reading if is_full or self._is_leaving else self._connection.resume_reading)()

    def _hold_parts(self) -> None:
        """Account for incomplete deliveries, which are few where all clients together keep too much."""
        self._client.kept += self._amqp.partial_bytes - self._parts
        self._parts = self._amqp.partial_bytes
        if self._parts > MOST_EARLY and self._client.is_full:
            self._amqp.close("amqp:resource-limit-exceeded", "too many deliveries are incomplete")

    # --- $cbs and $management --------------------------------------------------------------------------------------

    def _request(self, link: Link, event: e.MessageReceived) -> None:
        if not event.settled:
            link.session.accept(event.delivery_id)
        size = len(event.payload)
        if size > link.max_message_size or len(self._tasks) - self.retained > _MOST_ASKED:
            raise AmqpError("amqp:resource-limit-exceeded", "too many requests wait, or one is too large")
        self._work(self._answer(link, Request(event.payload)), size)

    async def _answer(self, link: Link, request: Request) -> None:
        path = str(link.owner)
        answer = await (self._manage(path, request) if path else self._put_token(request))
        links = [each for each in link.session.links.values() if isinstance(each.owner, deque)]
        links.sort(key=lambda each: each.target is None or each.target.address != request.reply_to)
        if links:
            links[0].owner.append(answer)
            self._send(links[0])
            self._flush()

    def _send(self, link: Link) -> None:
        while link.owner and link.credit > 0 and link.is_open:
            link.deliver(link.owner.popleft(), b"\0", settled=True)

    async def _put_token(self, request: Request) -> bytes:
        grant, status, text = Grant.asked(request), 202, "Accepted"
        if not self.proofs.memory.knows(grant):
            grant = replace(grant, is_proof=grant.until > time.time() and await self._is_proved(grant, request))
        if grant.is_proof or self.proofs.memory.knows(grant):
            self.proofs.add(grant)
        else:
            await asyncio.sleep(HELD_S)
            status, text = 503, f"{_AWAY} It is not known whether it accepts this token."
        return response(request, {"status-code": Int(status), "status-description": text})

    async def _is_proved(self, grant: Grant, request: Request) -> bool:
        audience, kind = (str(request.properties.get(name)) for name in ("name", "type"))
        paths = self._client.backlog_paths
        if self._access.proves(grant.shown, audience):
            return True
        async with self._proving:
            return bool(paths) and await self._client.backlog.proves(grant.shown, kind, paths[0])

    async def _manage(self, path: str, request: Request) -> bytes:
        """Scheduled messages go to the backlog; everything else has to wait."""
        operation, body = str(request.properties.get("operation")).rpartition(":")[2], request.body
        status, text, found = 503, _AWAY, None
        name: str | None = BUSY
        try:
            if operation == "schedule-message" and self.proofs.may_send(path):
                numbers = [await self._schedule(path, each["message"]) for each in body["messages"]]
                status, text, name, found = 200, "OK", None, {"sequence-numbers": Array(map(Long, numbers))}
            elif operation == "cancel-scheduled-message" and min(body["sequence-numbers"]) < 0:
                status, name = 400, "amqp:not-allowed"
                text = "A message that was scheduled while the primary was away cannot be cancelled."
        except (AmqpError, KeyError, TypeError, ValueError, MessageSizeExceededError) as error:
            status, text, name = 400, str(error), "amqp:not-allowed"
        except Exception as error:
            text, name = str(error), condition(error) or BUSY
        known = {"statusCode": Int(status), "statusDescription": text}
        return response(request, known if name is None else {**known, "errorCondition": Symbol(name)}, found)

    def _sends(self, path: str) -> GuardedSends:
        return GuardedSends(self._client, path, QueueLink(self._client.direct, path))  # type: ignore[arg-type]

    async def _schedule(self, path: str, message: bytes) -> int:
        """Store a message in the backlog; returns a number that no message of the primary has."""
        sends = self._sends(path)
        await run_async(sends.deliver(sends.delivery(message, 0), None, self._client.clock.now()))
        return -next(self._client.numbers)
