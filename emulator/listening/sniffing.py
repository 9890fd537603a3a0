"""One accepted socket: AMQP, TLS, HTTP or a WebSocket, depending on its first bytes."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from typing import Protocol, cast

from amqp10.tls import TlsChannel
from amqp10.websocket import WebSocketChannel
from emulator.conversation import Conversation
from emulator.faults import Fault
from emulator.web.conversation import HttpServer, WebConversation

log = logging.getLogger("emulator")

GREETING_TIMEOUT_S = 30.0
WRITE_BUFFER = 1024 * 1024
READ_BUFFER = 256 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)


class Resettable(Protocol):
    """An open connection."""

    def reset(self) -> None:
        """Abort it."""


class Listener(HttpServer, Protocol):
    """The server of a namespace, as its connections see it."""

    tls: ssl.SSLContext | None
    connections: set[Resettable]
    read_buffer: bytearray
    """All connections are read into this one, as each read is processed before the next."""


class SniffingProtocol(asyncio.BufferedProtocol):
    """A connection whose first bytes decide which conversation handles it. It is the transport of that conversation.

    Buffered, as asyncio otherwise allocates 256 KB for each read.
    """

    def __init__(self, server: Listener) -> None:
        self.server = server
        self._first = b""
        self._transport: asyncio.Transport | None = None
        self._inner: Conversation | WebConversation | None = None
        self._tls: TlsChannel | None = None
        self._websocket: WebSocketChannel | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_held = False
        self._is_writing_paused = False
        self._is_reading_paused = False  # by the conversation

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.server.connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_greeting()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read(bytes(memoryview(self.server.read_buffer)[:nbytes]))

    def _read(self, data: bytes) -> None:
        """Process bytes from the socket."""
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                log.info("TLS with a client failed: %s", error.reason)
                self.reset()
                return
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._inner is not None:
            self._inner.lost()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers, as they would accumulate."""
        self._is_writing_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        if self._inner is not None:
            self._inner.pause()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._read_on()
        if self._inner is not None:
            self._inner.resume()

    def _read_on(self) -> None:
        may_read = not self._is_writing_paused and not self._is_reading_paused
        if may_read and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- the transport of a conversation ---------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Pass on no more bytes of the client."""
        self._is_reading_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Pass on bytes again."""
        self._is_reading_paused = False
        self._read_on()

    def write(self, data: bytes) -> None:
        """Send bytes, in frames where the client asked for a WebSocket."""
        if self._websocket is not None:
            self._websocket.write(data)
        else:
            self._write_encrypted(data)

    def begin_websocket(self, channel: WebSocketChannel, data: bytes) -> None:
        """Continue with frames of a WebSocket, the first of which are in `data`; they carry AMQP."""
        channel.begin(self._write_encrypted)
        self._websocket = channel
        self._inner = None
        self._expect_greeting()
        self._received(data)

    def close(self) -> None:
        """Close once everything is written."""
        if self._websocket is not None:
            self._websocket.close()
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Abort the connection with a TCP reset."""
        if self._transport is None or self._transport.is_closing():
            return
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def _write_encrypted(self, data: bytes) -> None:
        """Send bytes, encrypted where the client began with TLS."""
        if self._tls is not None:
            self._tls.write(data)
        else:
            self._write_raw(data)

    def _write_raw(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # --- detecting the protocol --------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        """Process decrypted bytes."""
        if self._websocket is not None:
            data = self._websocket.receive(data)
        if self._inner is not None:
            self._inner.receive(data)
        elif data and not self._is_held:
            self._first += data
            self._sniff()
        if self._websocket is not None and self._websocket.is_closed:
            self.close()

    def _expect_greeting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(GREETING_TIMEOUT_S, self._abort_unless_open)

    def _abort_unless_open(self) -> None:
        """Abort a connection that was not opened in time."""
        if self._is_held:
            return
        if self._inner is None or not self._inner.is_open:
            self.reset()

    def _sniff(self) -> None:
        first = self._first
        if first[:4] == b"AMQP":
            self._begin_amqp()
        elif b"AMQP".startswith(first) or b"\x16\x03".startswith(first):
            return
        elif self._websocket is not None:
            log.info("a client of a WebSocket does not speak AMQP")
            self.close()
        elif first[:2] == b"\x16\x03" and self.server.tls is not None and self._tls is None:
            self._first = b""
            self._tls = TlsChannel(self.server.tls, self._write_raw)
            self._read(first)
        elif 65 <= first[0] <= 90:
            self._converse(WebConversation(self.server, self))
        else:
            log.info("a client speaks neither AMQP nor HTTP%s", "" if self.server.tls else " (TLS needs --tls-cert)")
            self.close()

    def _begin_amqp(self) -> None:
        host = self.server.host
        fault = host.faults.trigger("connect", None, host.clock()) if host.faults else None
        if fault is None:
            self._converse(Conversation(host, self))
        else:
            self._apply_fault(fault)

    def _converse(self, inner: Conversation | WebConversation) -> None:
        self._inner = inner
        self._is_held = False
        data, self._first = self._first, b""
        inner.receive(data)

    def _apply_fault(self, fault: Fault) -> None:
        """Apply a fault of the operation `connect`, which is triggered when the protocol is known."""
        host = self.server.host
        match fault.effect:
            case "silent":
                self._is_held = True
                fault.add_unanswered(self.reset)
            case "delay":
                self._is_held = True
                host.later(fault.delay_s, lambda: self._converse(Conversation(host, self)))
            case "close":
                conversation = Conversation(host, self)
                conversation.close_on_open = (fault.condition, f"Fault {fault.id}: close.")
                self._converse(conversation)
            case _:
                self.reset()
