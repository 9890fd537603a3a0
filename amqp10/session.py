"""An AMQP session: links by handle, delivery ids, windows. Message sessions are in `broker/message_session.py`."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Protocol

from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.events import (
    CreditGranted,
    Event,
    LinkDetached,
    LinkRequested,
    MessageReceived,
    Settled,
    WindowOpened,
)
from amqp10.link import Link
from amqp10.types import AmqpError

WINDOW = 0x7FFFFFFF
MAX_LINKS = 1024
HANDLE_MAX = 0xFFFFFFFF

_U32 = struct.Struct(">I")
_ACCEPTED = encode(p.accepted())
_TAG_HEADS = [bytes((0xA0, size)) for size in range(256)]
# The last six fields of a transfer: whether more fragments follow, and nulls. SDKs before 7.15 expect all fields.
_MORE, _LAST = b"\x41" + b"\x40" * 5, b"\x42" + b"\x40" * 5


class SessionConnection(Protocol):
    """The connection of a session, as the session sees it."""

    max_message_size: int
    peer_max_frame_size: int

    def send(self, channel: int, body: bytes) -> None:
        """Queue one frame."""

    def hold(self, size: int) -> None:
        """Account for so many more (or fewer) bytes of incomplete messages. Raises AmqpError beyond the limit."""


class Session:
    """One session of a connection. The server sends on the client's channel and handles; links are kept by theirs."""

    def __init__(self, connection: SessionConnection, channel: int) -> None:
        self.connection = connection
        self.channel = self.remote_channel = channel
        self.links: dict[int, Link] = {}
        self.max_message_size = connection.max_message_size
        self._next_incoming_id = 0
        self._incoming_window = WINDOW
        self._next_outgoing_id = 0
        self._peer_window = 0
        self._held: deque[bytes] = deque()
        self._unsettled: dict[int, tuple[Link, bytes]] = {}
        self._decided: dict[int, tuple[Link, bytes]] = {}  # received, and our outcome waits for the peer's answer
        self._next_delivery_id = 0
        self.is_over = False
        self._ending: dict[int, int] = {}  # our handles by the peer's, whose detach is on its way

    def begun(self, begin: p.Begin) -> None:
        """The peer has begun the session."""
        self._next_incoming_id, self._peer_window = begin.next_outgoing_id, begin.incoming_window

    # --- from the peer ---------------------------------------------------------------------------------------------

    def handle(self, performative: Any, payload: bytes) -> list[Event]:
        """Process a performative that arrived on this session's channel. Raises AmqpError."""
        match performative:
            case p.Transfer():
                return self._transfer(performative, payload)
            case p.Disposition():
                return self._disposition(performative)
            case p.Flow():
                return self._flow(performative)
            case p.Attach():
                return self._attach(performative)
            case p.Detach():
                return self._detach(performative)
        raise AmqpError("amqp:not-allowed", f"{type(performative).__name__.lower()} inside a session")

    def _attach(self, attach: p.Attach) -> list[Event]:
        if attach.handle in self.links:
            raise AmqpError("amqp:session:handle-in-use", f"handle {attach.handle} is in use")
        if len(self.links) >= MAX_LINKS:
            raise AmqpError("amqp:resource-limit-exceeded", f"a session holds at most {MAX_LINKS} links")
        link = self.links[attach.handle] = Link(self, attach, sends=attach.role)
        self._ending.pop(attach.handle, None)
        return [LinkRequested(link)]

    def _detach(self, detach: p.Detach) -> list[Event]:
        link = self.links.get(detach.handle)
        if link is None:
            self._ending.pop(detach.handle, None)
            return []
        if link.is_attached:
            self.send(p.Detach(link.handle, closed=True if detach.closed else None))
        self.forget(link)
        self._ending.pop(detach.handle, None)
        return [LinkDetached(link, *p.reason(detach.error))]

    def _link(self, handle: int) -> Link | None:
        link = self.links.get(handle)
        if link is None and handle not in self._ending:
            raise AmqpError("amqp:session:unattached-handle", f"no link has handle {handle}")
        return link

    def _transfer(self, transfer: p.Transfer, payload: bytes) -> list[Event]:
        self._next_incoming_id = (self._next_incoming_id + 1) & 0xFFFFFFFF
        self._incoming_window -= 1
        if self._incoming_window < WINDOW // 2:
            self._incoming_window = WINDOW
            self.send_flow(None)
        link = self._link(transfer.handle)
        whole = link.receive(transfer, payload) if link is not None else None
        if link is None or whole is None:
            return []
        first, data = whole
        if first.delivery_id is None:
            raise AmqpError("amqp:invalid-field", "the first transfer of a delivery has no delivery-id")
        tag, settled, format_code = first.delivery_tag or b"", bool(transfer.settled), first.message_format or 0
        transaction = None if first.state is None else p.within_transaction(first.state)[0]
        return [MessageReceived(link, first.delivery_id, format_code, data, settled, tag, transaction)]

    def _flow(self, flow: p.Flow) -> list[Event]:
        seen = flow.next_incoming_id if flow.next_incoming_id is not None else 0
        on_the_way = (self._next_outgoing_id - seen) & 0xFFFFFFFF
        had_room = self.has_room
        self._peer_window = max(0, flow.incoming_window - on_the_way)
        self._send_held()
        link = None if flow.handle is None else self._link(flow.handle)
        granted: list[Event] = []
        if link is not None and link.sends:
            link.set_credit(flow)
            granted = [CreditGranted(link, bool(flow.drain))]
        elif flow.handle is None and flow.echo:
            self.send_flow(None)
        # A flow about one link may open the window for all of them.
        waiting = () if had_room and flow.handle is not None else self.links.values()
        return [*granted, *(WindowOpened(each) for each in waiting if each.sends and each is not link)]

    def _disposition(self, disposition: p.Disposition) -> list[Event]:
        waiting = self._unsettled if disposition.role else self._decided
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        span = (last - first) & 0xFFFFFFFF
        if span >= len(waiting):
            ids = [number for number in waiting if (number - first) & 0xFFFFFFFF <= span]
        else:
            ids = [(first + step) & 0xFFFFFFFF for step in range(span + 1)]
        transaction, decided, settled = None, p.outcome(disposition.state), bool(disposition.settled)
        if decided is not None and decided[0] == p.TRANSACTIONAL:
            transaction, state = p.within_transaction(disposition.state)
            decided = p.outcome(state)
        if not settled and (decided is None or decided[0] == p.RECEIVED):
            return []
        code, fields = decided or (p.RELEASED, [])
        events: list[Event] = []
        for number in ids:
            entry = waiting.get(number)
            if entry is not None:
                events.append(Settled(entry[0], number, entry[1], code, fields, settled, transaction))
                del waiting[number]
        return events

    def restore_delivery(self, link: Link, delivery_id: int, tag: bytes) -> None:
        """Let a delivery be settled again, as the transaction in which it was settled is rolled back."""
        if link.is_open:
            self._unsettled[delivery_id] = (link, tag)

    # --- to the peer -----------------------------------------------------------------------------------------------

    def send(self, performative: Any) -> None:
        """Send a performative on this session's channel."""
        self.connection.send(self.channel, p.encode_performative(performative))

    def send_flow(self, link: Link | None, *, drain: bool = False) -> None:
        """Send our windows, and a link's credit."""
        flow = p.Flow(self._next_incoming_id, self._incoming_window, self._next_outgoing_id, WINDOW)
        if link is not None:
            flow.handle, flow.delivery_count, flow.link_credit = link.handle, link.delivery_count, max(link.credit, 0)
            flow.drain = drain or None
        self.send(flow)

    def hold(self, size: int) -> None:
        """Account for so many more (or fewer) bytes of incomplete messages. Raises AmqpError beyond the limit."""
        self.connection.hold(size)

    def settle(
        self, first: int, state: bytes, *, last: int | None = None, role: bool = True, settled: bool = True
    ) -> None:
        """Send a disposition, unless the session has ended: the `end` may have come together with the message.

        `role` is True for messages the peer sent, False for those it received.
        """
        if self.is_over:
            return
        ids = _uint(first) + (b"\x40" if last is None else _uint(last))
        fields = (b"\x41" if role else b"\x42") + ids + (b"\x41" if settled else b"\x42")
        self.connection.send(self.channel, b"\x00\x53\x15" + _list(fields + state + b"\x40", 6))

    def accept(self, delivery_id: int) -> None:
        """Acknowledge a message the peer sent."""
        self.settle(delivery_id, _ACCEPTED)

    def send_transfer(self, link: Link, payload: bytes, tag: bytes, *, settled: bool, message_format: int = 0) -> int:
        """Send a message in as many frames as it takes; returns its delivery id."""
        delivery_id = self._next_delivery_id
        self._next_delivery_id = (delivery_id + 1) & 0xFFFFFFFF
        if not settled:
            self._unsettled[delivery_id] = (link, tag)
        head = _uint(link.handle) + _uint(delivery_id) + _TAG_HEADS[len(tag)] + tag
        head += (_uint(message_format) if message_format else b"\x43") + (b"\x41" if settled else b"\x42")
        room = self.connection.peer_max_frame_size - 64 - len(tag)
        position = 0
        while len(payload) - position > room:
            self._send_windowed(b"\x00\x53\x14" + _list(head + _MORE, 11) + payload[position : position + room])
            position += room
        self._send_windowed(b"\x00\x53\x14" + _list(head + _LAST, 11) + (payload[position:] if position else payload))
        return delivery_id

    def _send_windowed(self, body: bytes) -> None:
        if self._peer_window <= 0:
            self._held.append(body)
            return
        self._peer_window -= 1
        self._next_outgoing_id = (self._next_outgoing_id + 1) & 0xFFFFFFFF
        self.connection.send(self.channel, body)

    def _send_held(self) -> None:
        while self._held and self._peer_window > 0:
            self._send_windowed(self._held.popleft())

    @property
    def has_room(self) -> bool:
        """Whether the peer's window lets another transfer out."""
        return self._peer_window > 0 and not self._held

    # --- ending ----------------------------------------------------------------------------------------------------

    def forget(self, link: Link) -> None:
        """Remove a link that has ended: its deliveries cannot be settled any more, and late frames are ignored."""
        link.is_open = False
        link.drop_parts()
        self.links.pop(link.remote_handle, None)
        if link.remote_handle >= 0 and len(self._ending) < MAX_LINKS:  # bounded: a peer may never answer our detach
            self._ending[link.remote_handle] = link.handle
        for waiting in (self._unsettled, self._decided):
            for number in [number for number, (held, _) in waiting.items() if held is link]:
                del waiting[number]

    def end_links(self, condition: str | None = None, description: str = "") -> list[Event]:
        """End all links, as the session has ended."""
        self.is_over = True
        links = list(self.links.values())
        for link in links:
            link.is_open = False
            link.drop_parts()
        self.links.clear()
        self._unsettled.clear()
        self._decided.clear()
        self._held.clear()
        return [LinkDetached(link, condition, description) for link in links]


def _uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52" + bytes((value,)) if value < 256 else b"\x70" + _U32.pack(value)


def _list(body: bytes, count: int) -> bytes:
    if len(body) < 255:
        return b"\xc0" + bytes((len(body) + 1, count)) + body
    return b"\xd0" + _U32.pack(len(body) + 4) + _U32.pack(count) + body
