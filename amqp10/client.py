"""The client's end of a connection, without I/O: it speaks first, and gives sessions and links their numbers.

`take_output` right after construction: there is the greeting. After the event ConnectionOpened sessions can be begun,
and links attached without waiting for the answer to `begin`.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Any

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.connection import MAX_FRAME_SIZE, MAX_SESSIONS, Connection, State
from amqp10.events import Event, LinkDetached, LinkOpened, MessageReceived
from amqp10.frames import AMQP_HEADER, SASL_HEADER
from amqp10.link import Link
from amqp10.session import HANDLE_MAX, WINDOW, Session
from amqp10.types import AmqpError, Described, ULong


class ClientConnection(Connection):
    """The client's end of a connection; `hostname` is the namespace, which need not be where the socket goes."""

    def __init__(
        self,
        container_id: str,
        hostname: str,
        credentials: sasl.Credentials = sasl.ANONYMOUS,
        *,
        max_message_size: int = MAX_FRAME_SIZE,
    ) -> None:
        super().__init__(container_id, max_message_size=max_message_size)
        self.opening.hostname = hostname
        self._credentials = credentials
        self._max_channels = MAX_SESSIONS
        self._output.append(SASL_HEADER)

    def begin(self) -> ClientSession:
        """Begin a session. Raises AmqpError if the server allows no more of them."""
        channel = _free({session.channel for session in self.sessions.values()})
        if channel >= self._max_channels:
            raise AmqpError("amqp:resource-limit-exceeded", f"the server allows {self._max_channels} sessions")
        session = ClientSession(self, channel)
        self.sessions[session.remote_channel] = session
        begin = p.Begin(None, 0, incoming_window=WINDOW, outgoing_window=WINDOW, handle_max=HANDLE_MAX)
        self.send(channel, p.encode_performative(begin))
        return session

    def _read_header(self) -> bool:
        header = self._buffer.take(8)
        if header is None:
            return False
        if header != (SASL_HEADER if self.state is State.HEADER else AMQP_HEADER):
            self.state = State.CLOSED
            raise AmqpError("amqp:connection:framing-error", "the server speaks another protocol")
        self.state = State.SASL if self.state is State.HEADER else State.OPENING
        return True

    def _read_sasl(self, body: bytes, events: list[Event]) -> None:
        answer, accepted = sasl.client_answer(body, self._credentials, self.opening.hostname)
        if answer is not None:
            self._output.append(answer)
        else:
            self._end_sasl(accepted, events)
            if accepted:
                self._output.append(AMQP_HEADER)
                self._send_open()

    def _accept_open(self, opened: p.Open) -> None:
        self._max_channels = min(MAX_SESSIONS, (0xFFFF if opened.channel_max is None else opened.channel_max) + 1)

    def _begin(self, begin: p.Begin, channel: int) -> None:
        if begin.remote_channel is None or channel in self.sessions:
            raise AmqpError("amqp:not-allowed", f"a session on channel {channel} that was not begun here")
        session = self.sessions.pop(~begin.remote_channel, None)
        if session is not None:  # it may have been ended meanwhile
            session.remote_channel = channel
            session.begun(begin)
            self.sessions[channel] = session


class ClientSession(Session):
    """A session that was begun here. Its `remote_channel` is negative until the server has begun it, too."""

    def __init__(self, connection: ClientConnection, channel: int) -> None:
        super().__init__(connection, channel)
        self.remote_channel = ~channel
        self._asked: dict[tuple[str, bool], Link] = {}  # by name and role of the answer
        self._handle_max = HANDLE_MAX

    def begun(self, begin: p.Begin) -> None:
        super().begun(begin)
        self._handle_max = HANDLE_MAX if begin.handle_max is None else begin.handle_max

    def sender(self, name: str, address: str | None, **more: Any) -> Link:
        """Attach a link on which messages are sent to an address; `more` are further fields of `attach`."""
        ends = {"source": _end(p.SOURCE, name), "target": _end(p.TARGET, address), "initial_delivery_count": 0}
        return self.attach(p.Attach(name, role=False, **{**ends, **more}))

    def receiver(self, name: str, address: str, **more: Any) -> Link:
        """Attach a link on which messages of an address are received, without credit until it is granted."""
        ends = {"source": _end(p.SOURCE, address), "target": _end(p.TARGET, name)}
        return self.attach(p.Attach(name, role=True, **{**ends, "max_message_size": self.max_message_size, **more}))

    def attach(self, attach: p.Attach) -> Link:
        """Ask for a link, on a handle that is chosen here. LinkOpened follows, or LinkDetached with the reason."""
        key = (attach.name, not attach.role)
        if key in self._asked:
            raise AmqpError("amqp:not-allowed", f"the link {attach.name} is being attached")
        links = [*self.links.values(), *self._asked.values()]
        attach.handle = _free({link.handle for link in links}.union(self._ending.values()))
        if attach.handle > self._handle_max:
            raise AmqpError("amqp:resource-limit-exceeded", f"the server allows {self._handle_max + 1} links")
        link = self._asked[key] = Link(self, attach, sends=not attach.role)
        link.is_attached, link.renewed_credit, link.remote_handle = True, 0, -1
        self.send(attach)
        return link

    def _attach(self, attach: p.Attach) -> list[Event]:
        link = self._asked.pop((attach.name, attach.role), None)
        if link is None or attach.handle in self.links:
            raise AmqpError("amqp:not-allowed", f"a link on handle {attach.handle} that was not asked for")
        if not link.is_open:  # it was detached here before this answer
            self._ending[attach.handle] = link.handle
            return []
        self.links[attach.handle] = link
        link.answered(attach)
        is_refused = (link.target if link.sends else link.source) is None  # and a detach with the reason follows
        return [] if is_refused else [LinkOpened(link)]

    def _transfer(self, transfer: p.Transfer, payload: bytes) -> list[Event]:
        events = super()._transfer(transfer, payload)
        if any(isinstance(event, MessageReceived) and len(event.payload) > self.max_message_size for event in events):
            raise AmqpError("amqp:link:message-size-exceeded", f"a message of more than {self.max_message_size} bytes")
        return events

    def decide(self, message: MessageReceived, state: bytes) -> None:
        """Send an outcome that the server has to confirm; its answer is the event Settled."""
        self._decided[message.delivery_id] = (message.link, message.tag)
        self.settle(message.delivery_id, state, settled=False)

    def end_links(self, condition: str | None = None, description: str = "") -> list[Event]:
        asked = [link for link in self._asked.values() if link.is_open]
        self._asked.clear()
        for link in asked:
            link.is_open = False
        unanswered = [LinkDetached(link, condition, description) for link in asked]
        return [*super().end_links(condition, description), *unanswered]


def _end(code: int, address: str | None) -> Described:
    return Described(ULong(code), [address])


def _free(used: Container[int]) -> int:
    return next(number for number in count() if number not in used)
