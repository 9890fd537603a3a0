"""One AMQP connection: bytes in, events out. No socket and no clock. Here the server's end, in `client` the other.

`receive` takes received bytes and returns events; answers are collected for `take_output`. A peer that violates the
protocol gets the error in the narrowest scope that can carry it, a session's `end` or the connection's `close`; the
latter is followed by the event ConnectionClosed.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.events import ConnectionClosed, ConnectionOpened, Event
from amqp10.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    MIN_MAX_FRAME_SIZE,
    SASL_FRAME,
    SASL_HEADER,
    FrameBuffer,
    frame,
)
from amqp10.session import HANDLE_MAX, WINDOW, Session
from amqp10.types import AmqpError

MAX_FRAME_SIZE = 1024 * 1024
MAX_SESSIONS = 5000  # as the service: SDKs for .NET begin a session for each link
# Fragments of incomplete messages, over all links of a connection.
MAX_PARTIAL_BYTES = 16 * 1024 * 1024
EMPTY_FRAME = frame(0, b"")


class State(Enum):
    """The phase of a connection."""

    HEADER = auto()
    SASL = auto()
    AMQP_HEADER = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSED = auto()


class Connection:
    """The server's end of a connection. `opening` is what it sends when the client has opened it."""

    def __init__(
        self,
        container_id: str,
        *,
        max_message_size: int = MAX_FRAME_SIZE,
        authenticate: sasl.Authenticate = lambda user, password: False,
    ) -> None:
        self.opening = p.Open(container_id, max_frame_size=MAX_FRAME_SIZE, channel_max=MAX_SESSIONS - 1)
        self.max_message_size = max_message_size
        self.peer_max_frame_size = MIN_MAX_FRAME_SIZE
        self.state = State.HEADER
        self.sessions: dict[int, Session] = {}
        self.partial_bytes = 0
        self.output_bytes = 0  # to be taken by `take_output`
        self._authenticate = authenticate
        self._buffer = FrameBuffer(MAX_FRAME_SIZE)
        self._output: list[bytes] = []
        self._failed_sessions: set[int] = set()
        self._has_opened = False  # ours

    # --- bytes -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """The events of these bytes. After ConnectionClosed, close the socket once the output is written."""
        if self.is_closed:
            return []
        events: list[Event] = []
        try:
            self._buffer.feed(data)
            if self.state in (State.HEADER, State.AMQP_HEADER) and not self._read_header():
                return events
            for kind, channel, body in self._buffer.frames():
                self._read_frame(kind, channel, body, events)
                if self.is_closed:
                    break
                if self.state is State.AMQP_HEADER and not self._read_header():
                    break
        except AmqpError as error:
            events += self.close(error.condition, str(error))
        return events

    def take_output(self) -> bytes:
        """The bytes to be written to the socket since the last call."""
        if not self._output:
            return b""
        output = b"".join(self._output) if len(self._output) > 1 else self._output[0]
        self._output.clear()
        self.output_bytes = 0
        return output

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended: close the socket once the output is written."""
        return self.state is State.CLOSED

    @property
    def has_output(self) -> bool:
        """Whether there is something to write."""
        return bool(self._output)

    # --- layers ----------------------------------------------------------------------------------------------------

    def _read_header(self) -> bool:
        header = self._buffer.take(8)
        if header is None:
            return False
        if header == SASL_HEADER and self.state is State.HEADER:
            self._output.append(sasl.greeting())
            self.state = State.SASL
        elif header == AMQP_HEADER:
            self._output.append(AMQP_HEADER)
            self.state = State.OPENING
        else:
            # A peer of another protocol gets our header and nothing else (AMQP 1.0, section 2.2).
            self._output.append(AMQP_HEADER)
            self.state = State.CLOSED
            raise AmqpError("amqp:connection:framing-error", "an unknown protocol header")
        return True

    def _read_frame(self, kind: int, channel: int, body: bytes, events: list[Event]) -> None:
        if self.state is State.SASL:
            if kind != SASL_FRAME:
                raise AmqpError("amqp:connection:framing-error", "a frame other than SASL before SASL ended")
            self._read_sasl(body, events)
        elif kind != AMQP_FRAME:
            raise AmqpError("amqp:connection:framing-error", f"frame type {kind}")
        elif body:
            performative, end = p.decode_performative(body)
            self._handle(performative, channel, body[end:], events)

    def _read_sasl(self, body: bytes, events: list[Event]) -> None:
        answer, accepted = sasl.outcome(body, self._authenticate)
        self._output.append(answer)
        self._end_sasl(accepted, events)

    def _end_sasl(self, accepted: bool, events: list[Event]) -> None:
        self.state = State.AMQP_HEADER if accepted else State.CLOSED
        if not accepted:
            events.append(ConnectionClosed("amqp:unauthorized-access", "SASL authentication failed"))

    def _handle(self, performative: Any, channel: int, payload: bytes, events: list[Event]) -> None:
        if self.state is State.OPENING:
            events.append(self._open(performative))
        elif isinstance(performative, p.Begin):
            self._begin(performative, channel)
        elif isinstance(performative, p.Close):
            self._send_close()
            events += [*self.abort(), ConnectionClosed(*p.reason(performative.error))]
        elif isinstance(performative, p.Open):
            raise AmqpError("amqp:illegal-state", "a second open")
        else:
            session = self.sessions.get(channel)
            if session is not None:
                self._in_session(session, performative, payload, events)
            elif isinstance(performative, p.End) and channel in self._failed_sessions:
                self._failed_sessions.discard(channel)
                self.send(channel, p.encode_performative(p.End()))
            # Other frames on an ended channel are late, such as a client's detach, and are ignored.

    def _in_session(self, session: Session, performative: Any, payload: bytes, events: list[Event]) -> None:
        if isinstance(performative, p.End):
            self._send_end(session)
            events += session.end_links(*p.reason(performative.error))
            return
        try:
            events += session.handle(performative, payload)
        except AmqpError as error:
            events += self.end(session, error.condition, str(error))

    def _open(self, performative: Any) -> ConnectionOpened:
        if not isinstance(performative, p.Open):
            raise AmqpError("amqp:illegal-state", "open was expected")
        size = performative.max_frame_size
        if size is not None and size < MIN_MAX_FRAME_SIZE:
            raise AmqpError("amqp:invalid-field", f"max-frame-size below {MIN_MAX_FRAME_SIZE}")
        self.peer_max_frame_size = min(size or MAX_FRAME_SIZE, MAX_FRAME_SIZE)
        self.state = State.OPEN
        self._accept_open(performative)
        return ConnectionOpened(
            performative.container_id, performative.hostname, performative.idle_time_out, performative.properties or {}
        )

    def _accept_open(self, opened: p.Open) -> None:
        """The peer has opened."""
        self._send_open()

    def _begin(self, begin: p.Begin, channel: int) -> None:
        if channel in self.sessions or begin.remote_channel is not None:
            raise AmqpError("amqp:not-allowed", f"channel {channel} is in use")
        if channel >= MAX_SESSIONS:
            raise AmqpError("amqp:resource-limit-exceeded", f"channels above {MAX_SESSIONS - 1}")
        session = self.sessions[channel] = Session(self, channel)
        session.begun(begin)
        answer = p.Begin(channel, 0, incoming_window=WINDOW, outgoing_window=WINDOW, handle_max=HANDLE_MAX)
        self.send(channel, p.encode_performative(answer))

    # --- ending and sending ----------------------------------------------------------------------------------------

    def send(self, channel: int, body: bytes) -> None:
        """Queue one frame."""
        self.output_bytes += len(body)
        self._output.append(frame(channel, body))

    def hold(self, size: int) -> None:
        """Account for so many more (or fewer) bytes of incomplete messages. Raises AmqpError beyond the limit."""
        self.partial_bytes += size
        if self.partial_bytes > MAX_PARTIAL_BYTES:
            raise AmqpError("amqp:resource-limit-exceeded", "too many messages are incomplete at the same time")

    def send_empty_frame(self) -> None:
        """Send a heartbeat."""
        self._output.append(EMPTY_FRAME)

    def fail_session(self, channel: int, condition: str, description: str) -> list[Event]:
        """End a session with an error, and answer the client's own `end` a second time.

        A client that waits on an ended session may wait indefinitely. The SDK treats the second `end` as an error and
        closes the connection, so that the fault becomes visible to its caller.
        """
        session = self.sessions.get(channel)
        if session is None:
            return []
        self._failed_sessions.add(channel)
        return self.end(session, condition, description)

    def end(self, session: Session, condition: str | None = None, description: str = "") -> list[Event]:
        """Send `end`, with or without an error."""
        self._send_end(session, condition, description)
        return session.end_links(condition, description)

    def _send_end(self, session: Session, condition: str | None = None, description: str = "") -> None:
        self.sessions.pop(session.remote_channel, None)
        self.send(session.channel, p.encode_performative(p.End(p.error(condition, description) if condition else None)))

    def _send_open(self) -> None:
        if not self._has_opened:
            self._has_opened = True
            self.send(0, p.encode_performative(self.opening))

    def close(self, condition: str | None = None, description: str = "") -> list[Event]:
        """Send `close`, with or without an error; nothing is read afterwards."""
        self._send_close(condition, description)
        return [*self.abort(), ConnectionClosed(condition, description)]

    def _send_close(self, condition: str | None = None, description: str = "") -> None:
        if self.state in (State.OPENING, State.OPEN, State.AMQP_HEADER):
            self._send_open()
            self.send(0, p.encode_performative(p.Close(p.error(condition, description) if condition else None)))

    def abort(self) -> list[Event]:
        """End all sessions and links, as the socket was lost. What was received in part is given up."""
        self.state = State.CLOSED
        self._buffer = FrameBuffer(MAX_FRAME_SIZE)
        sessions = list(self.sessions.values())
        self.sessions.clear()
        return [event for session in sessions for event in session.end_links()]
