"""One client, and its connection to the primary: frames pass as bytes, in the order and the block in which they came.

Only what opens something is read: `open`, `attach`, and what goes to `$cbs`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.addresses import address_of, is_token_node
from amqp10.frame_fields import FrameFields, with_address
from amqp10.transport.listener import AcceptedConnection
from amqp10.types import AmqpError
from gateway.access import Access
from gateway.front import Front
from gateway.guard.client import GatewayClient
from gateway.guard.guard import Guard
from gateway.guard.session import REST_S
from gateway.memory import Grant, Memory, Proofs
from gateway.metrics import OTHER, Metrics, sdk_of
from gateway.namespace import Namespace
from gateway.side import MAX_FRAME_SIZE, Phase
from gateway.tokens import TokenRequests
from gateway.upstream import Upstream

FORCED = "amqp:connection:forced"
MOST_HELD = 1024 * 1024
MOST_KEPT = 16 * MOST_HELD  # of one client: the SDK for Python ignores its credit
_PASSED = (p.Transfer.CODE, p.Flow.CODE, p.Disposition.CODE)
_GREETED = (Phase.OUTCOME, Phase.FRAMES, Phase.CLOSED)  # the others learn it once they can read it
_HEADER_SIZE, _PATIENCE_S = 8, 2.0  # with answers of the primary


class Gateway(Protocol):
    """What a relay needs of the gateway."""

    primary: Namespace
    access: Access
    client: GatewayClient | None
    memory: Memory
    metrics: Metrics
    read_buffer: bytearray

    def primary_lost(self) -> None: ...
    def ended(self, relay: Relay) -> None: ...


class Relay:
    """A pair of connections. `front` is the client's, `upstream` the primary's."""

    def __init__(self, gateway: Gateway, connection: AcceptedConnection) -> None:
        self.gateway = gateway
        self.front = Front(connection, self, gateway.access, gateway.metrics)
        self.upstream = Upstream(gateway.primary, self, gateway.read_buffer)
        self.to_client, self.to_primary, self.begin = self.front.send, self.upstream.send, self.upstream.begin
        self._opening: FrameFields | None = None  # the client's
        self.sdk = OTHER
        self.links: set[tuple[int, int]] = set()  # of the client's links, with their channels
        self.max_body, self.partial, self.kept = MAX_FRAME_SIZE, 0, 0
        self._closed_by: set[Front | Upstream] = set()
        self.tokens: dict[int, dict[int, TokenRequests]] = {}  # by channel and handle
        self._is_client_read = True
        self.is_primary_there, self.busy_until = True, 0.0
        self.token_link: tuple[int, int] | None = None
        self._reason, self._is_leaving = "", False
        self._shown: Grant | None = None
        self.proofs = Proofs(gateway.memory)
        self._guard = None if gateway.client is None else Guard(self, gateway.client)
        self._expect()

    @property
    def retained(self) -> int:
        """How many deliveries of the client wait for an outcome."""
        return 0 if self._guard is None else self._guard.retained

    @property
    def is_waiting(self) -> bool:
        """Whether the primary has yet to answer the client's `open`, tokens, sessions or links."""
        return self._guard is not None and (not self.front.is_open or self._guard.is_waiting)

    # --- frames ----------------------------------------------------------------------------------------------------

    def from_client(self, channel: int, body: bytes) -> None:
        """Pass a frame of the client on. Raises AmqpError."""
        code = body[2] if body[:2] == b"\x00\x53" and len(body) > 2 else FrameFields(body).code
        if not self.is_primary_there and code != p.Disposition.CODE:
            self.busy_until = time.monotonic() + REST_S
            if not (self._is_leaving or (self._guard and self._guard.goes_on(code, channel, FrameFields(body)))):
                self.leave(self._reason)  # and is served by the gateway once it has connected again
            return
        if code == p.Disposition.CODE or (code in _PASSED and self._guard is None and channel not in self.tokens):
            self.upstream.send(channel, body)
            return
        fields = FrameFields(body)
        bodies = self._for_primary(code, channel, fields)
        if self._guard is not None:
            self._guard.from_client(code, channel, fields, bodies)
        else:
            for each in bodies:
                self.upstream.send(channel, each)

    def from_primary(self, channel: int, body: bytes) -> None:
        """Pass a frame of the primary on. Raises AmqpError."""
        if not self.front.is_open:
            body = self._opened(FrameFields(body))
        elif body[:3] == b"\x00\x53\x18":
            if self.retained and not self._closed_by:
                self.upstream.lose("it closed the connection")
                return
            self._closed_by.add(self.upstream)
        elif self._guard is not None:
            fields = FrameFields(body)
            if self._guard.from_primary(fields.code, channel, fields):
                return
        self.front.send(channel, body)

    def _for_primary(self, code: int, channel: int, fields: FrameFields) -> list[bytes]:
        """The frame bodies in the place of one of the client's."""
        if self._opening is None:
            return [self._open(fields)]
        tokens = self.tokens.get(channel, {})
        match code:
            case p.Attach.CODE:
                self.links.add((channel, fields.value("handle")))
                return [self._attach(channel, fields)]
            case p.Transfer.CODE if (handle := fields.value("handle")) in tokens:
                self._expect()
                return list(tokens[handle].transfer(fields, self.max_body))
            case p.Detach.CODE:
                tokens.pop(fields.value("handle"), None)
                self.links.discard((channel, fields.value("handle")))
            case p.End.CODE:
                self.tokens.pop(channel, None)
                self.links = {each for each in self.links if each[0] != channel}
            case p.Close.CODE:
                self._closed_by.add(self.front)
        return [fields.body]

    def _open(self, opening: FrameFields) -> bytes:
        """The client's `open` for the primary, which knows itself by its own name only."""
        if opening.code != p.Open.CODE:
            raise AmqpError("amqp:illegal-state", "open was expected")
        self._opening, self.sdk = opening, sdk_of(opening.value("properties"))
        self.upstream.buffer.max_frame_size = min(opening.value("max_frame_size") or MAX_FRAME_SIZE, MAX_FRAME_SIZE)
        hostname = self.gateway.primary.hostname
        return opening.body if opening.value("hostname") == hostname else opening.replaced(hostname=hostname)

    def _opened(self, opened: FrameFields) -> bytes:
        """The primary's `open` for the client: from now on both are as alive as they have said."""
        if opened.code != p.Open.CODE or self._opening is None:
            raise AmqpError("amqp:illegal-state", "open was expected")
        size, idle_ms = opened.value("max_frame_size") or MAX_FRAME_SIZE, opened.value("idle_time_out")
        self.front.is_open = True
        self.front.buffer.max_frame_size = min(size, MAX_FRAME_SIZE)
        self.max_body = min(size, MAX_FRAME_SIZE) - _HEADER_SIZE
        client_idle_ms = self._opening.value("idle_time_out")
        self.front.keep_alive(client_idle_ms, idle_ms)
        self.upstream.keep_alive(idle_ms, client_idle_ms)
        return opened.body if size <= MAX_FRAME_SIZE else opened.replaced(max_frame_size=MAX_FRAME_SIZE)

    def _attach(self, channel: int, attach: FrameFields) -> bytes:
        """An `attach` for the primary, with its own host in the addresses."""
        ends = {}
        for name in ("source", "target"):
            address = address_of(attach.encoded(name))
            here = address if address is None else self.gateway.primary.address_here(address)
            if here != address and here is not None:
                ends[name] = with_address(attach.encoded(name), here)
        if not attach.value("role"):
            self._expect()
        if not attach.value("role") and is_token_node(address_of(attach.encoded("target"))):
            ask = self.proofs.ask if self._guard else lambda request: None  # a guard reads the answers
            requests = TokenRequests(self.gateway.access, self.gateway.primary, ask)
            self.tokens.setdefault(channel, {})[attach.value("handle")] = requests
        return attach.replaced(**ends) if ends else attach.body

    # --- reading and writing ----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what has been passed on since the last call."""
        self.upstream.flush()
        self.front.flush()
        if len(self._closed_by) == 2:
            self.end()
        elif self._is_leaving and self.front.phase in _GREETED and (self._closed_by or not self.retained):
            self.close(FORCED, self._reason)
        else:
            self.read_client()

    def read_primary(self, is_read: bool) -> None:
        """Read the primary, or leave what it sends where it is."""
        (self.upstream.resume_reading if is_read else self.upstream.pause_reading)()

    def read_client(self) -> None:
        """Read the client, unless the primary has not opened, does not read or has not judged the client's key."""
        upstream = self.upstream
        held = upstream.held + (self._guard.waiting if self._guard is not None and self.is_primary_there else 0)
        is_read = held <= MOST_HELD and not upstream.is_full and self.front.phase is not Phase.OUTCOME
        client = self.gateway.client
        is_full = self.kept > MOST_KEPT or (client is not None and client.is_full)
        if (self._is_leaving or is_full) and self.retained:
            is_read = False  # outcomes let it be read again
        if is_read != self._is_client_read:
            self._is_client_read = is_read
            (self.front.connection.resume_reading if is_read else self.front.connection.pause_reading)()

    def show(self, shown: str, *, is_proof: bool) -> None:
        """The client has shown a name and a key, which the primary has yet to accept."""
        self._shown = Grant(shown, is_proof=is_proof)

    # --- the end ---------------------------------------------------------------------------------------------------

    def sasl_ended(self, outcome: bytes, code: int) -> None:
        """The primary has accepted the client's SASL, or not."""
        is_accepted = code == sasl.OK
        if self._shown is not None and code <= sasl.AUTHENTICATION_FAILED:
            (self.proofs.accepted if is_accepted else self.gateway.memory.forget)(self._shown)
        if self.front.phase is Phase.OUTCOME:
            self.front.answer_sasl(outcome, is_accepted=is_accepted)
        elif not is_accepted:
            self.close("amqp:unauthorized-access", "The primary namespace refuses the client's SASL mechanism.")

    def primary_lost(self, reason: str) -> None:
        """The connection to the primary failed or has ended: a client that only sends does not learn it."""
        self.is_primary_there, self.busy_until = False, time.monotonic() + REST_S
        self._reason = f"The connection to the primary namespace is lost: {reason}."
        if not self._closed_by:
            self.proofs.renew()
            self.gateway.metrics.primary_lost_total += 1
            self.gateway.primary_lost()
        if self._guard is not None and not self._closed_by:
            self._guard.primary_lost(reason)
        if self._guard is None or self._closed_by or not self._guard.is_all:
            self.leave(self._reason)

    def primary_overdue(self) -> bool:
        """A delivery is overdue; whether the primary is read, which it is not while the client does not read."""
        self.gateway.primary_lost()  # others may not reach it either
        return self.upstream.is_reading

    def _expect(self) -> None:
        """Find out whether the primary is away if it does not answer soon."""
        look = self.gateway.primary_lost
        asyncio.get_running_loop().call_later(_PATIENCE_S, lambda: self.is_waiting and self.is_primary_there and look())

    def leave(self, reason: str) -> None:
        """End both connections once no delivery waits for its outcome."""
        self._is_leaving, self._reason = True, reason
        self.flush()

    def client_lost(self) -> None:
        """The client's socket was lost."""
        self.end()
        self.gateway.ended(self)

    def close(self, condition: str, description: str) -> None:
        """End both connections; the client gets the reason if it can."""
        if self.front.phase is Phase.FRAMES and self.upstream not in self._closed_by:
            if not self.front.is_open:
                self.front.send(0, p.encode_performative(p.Open(self.gateway.primary.hostname)))
            error = p.error(condition, description)
            if self.token_link is not None and any(self.tokens.values()):  # JavaScript waits for a minute otherwise
                self.front.send(self.token_link[0], p.encode_performative(p.Detach(self.token_link[1], True, error)))
            self.front.send(0, p.encode_performative(p.Close(error)))
            self.front.flush()
        self.end()

    def end(self) -> None:
        """Close both sockets once everything is written."""
        self.is_primary_there = False
        if self._guard is not None:
            self._guard.end()
        self.upstream.end()
        self.front.stop()
        self.front.connection.close()
