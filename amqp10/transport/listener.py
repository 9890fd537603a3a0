"""A listener whose connections speak AMQP, TLS, HTTP or a WebSocket.

The first bytes of a connection decide; a factory then makes what serves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Protocol, cast

from amqp10.transport.tls import TlsChannel
from amqp10.transport.websocket import WebSocketChannel

log = logging.getLogger("amqp10")

GREETING_TIMEOUT_S = 30.0
CLOSING_TIMEOUT_S = 10.0
WRITE_BUFFER = 1024 * 1024
READ_BUFFER = 256 * 1024
MAX_SEGMENT = 32_000
_NO_LINGER = struct.pack("ii", 1, 0)


class Served(Protocol):
    """What serves a connection: an AMQP connection or an HTTP one above this module."""

    @property
    def is_open(self) -> bool:
        """Whether the client has said enough to keep its place."""

    def receive(self, data: bytes) -> None:
        """Process bytes from the client."""

    def pause(self) -> None:
        """Write less, as the client reads too slowly."""

    def resume(self) -> None:
        """Write again, as the client has caught up."""

    def lost(self) -> None:
        """The socket was lost."""


Serve = Callable[["AcceptedConnection"], Served]


class Listener:
    """Ports on which clients connect, and the connections they have opened."""

    def __init__(self, serve_amqp: Serve, serve_http: Serve) -> None:
        self.serve_amqp, self.serve_http = serve_amqp, serve_http
        self.tls: ssl.SSLContext | None = None
        self.requires_tls = False
        self.connections: set[AcceptedConnection] = set()
        self.read_buffer = bytearray(READ_BUFFER)
        """All connections are read into this one, as each read is processed before the next."""
        self._ports: list[asyncio.Server] = []

    async def open(self, address: str, port: int) -> int:
        """Listen on a port, or a further one; returns it. Raises OSError."""
        loop = asyncio.get_running_loop()
        opened = await loop.create_server(lambda: AcceptedConnection(self), address, port, backlog=1024)
        self._ports.append(opened)
        for listening in opened.sockets:
            _bound_segments(listening)
        return cast(int, opened.sockets[0].getsockname()[1])

    def stop_accepting(self) -> None:
        """Close all ports; connections stay."""
        for port in self._ports:
            port.close()

    def close(self) -> None:
        """Close all ports and abort every connection."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.reset()


def close_in_time(transport: asyncio.Transport) -> None:
    """Close once everything is written, or abort if the peer does not read it."""
    transport.close()
    if transport.get_write_buffer_size():
        asyncio.get_running_loop().call_later(CLOSING_TIMEOUT_S, transport.abort)


def _bound_segments(listening: socket.socket) -> None:
    """Older SDKs for Python set the segment size of a connection to what they read, which Linux limits to 32,767."""
    with contextlib.suppress(OSError, AttributeError):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MAX_SEGMENT)


class AcceptedConnection(asyncio.BufferedProtocol):
    """One accepted socket. It is the transport of what serves it.

    Buffered, as asyncio otherwise allocates 256 KB for each read.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._first = b""
        self._transport: asyncio.Transport | None = None
        self.served_by: Served | None = None
        self._tls: TlsChannel | None = None
        self._websocket: WebSocketChannel | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_writing_paused = False
        self._is_reading_paused = False  # by what serves it

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.listener.connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_greeting()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.listener.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read(bytes(memoryview(self.listener.read_buffer)[:nbytes]))

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
        self.listener.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self.served_by is not None:
            self.served_by.lost()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers, as they would accumulate."""
        self._is_writing_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        if self.served_by is not None:
            self.served_by.pause()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._read_on()
        if self.served_by is not None:
            self.served_by.resume()

    def eof_received(self) -> None:
        if self._transport is not None:
            close_in_time(self._transport)

    @property
    def is_reading(self) -> bool:
        """Whether the client could be heard."""
        return self._transport is not None and self._transport.is_reading()

    def _read_on(self) -> None:
        may_read = not self._is_writing_paused and not self._is_reading_paused
        if may_read and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- the transport of what serves it ---------------------------------------------------------------------------

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
        self.served_by = None
        self._expect_greeting()
        self._received(data)

    def close(self) -> None:
        """Close once everything is written."""
        if self._websocket is not None:
            self._websocket.close()
        if self._transport is not None:
            close_in_time(self._transport)

    def reset(self) -> None:
        """Abort the connection with a TCP reset."""
        if self._transport is None or (self._transport.is_closing() and not self._transport.get_write_buffer_size()):
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
        if self.served_by is not None:
            self.served_by.receive(data)
        elif data:
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
        if self.served_by is None or not self.served_by.is_open:
            self.reset()

    def _sniff(self) -> None:
        first = self._first
        if self.listener.requires_tls and self._tls is None and first[:1] != b"\x16":
            log.info("a client does not use TLS")
            self.reset()
        elif first[:4] == b"AMQP":
            self._begin(self.listener.serve_amqp)
        elif b"AMQP".startswith(first) or b"\x16\x03".startswith(first):
            return
        elif self._websocket is not None:
            log.info("a client of a WebSocket does not speak AMQP")
            self.close()
        elif first[:2] == b"\x16\x03" and self.listener.tls is not None and self._tls is None:
            self._first = b""
            self._tls = TlsChannel(self.listener.tls, self._write_raw)
            self._read(first)
        elif 65 <= first[0] <= 90:
            self._begin(self.listener.serve_http)
        else:
            log.info(
                "a client speaks neither AMQP nor HTTP%s", "" if self.listener.tls else " (TLS has no certificate)"
            )
            self.close()

    def _begin(self, serve: Serve) -> None:
        self.served_by = serve(self)
        data, self._first = self._first, b""
        self.served_by.receive(data)
