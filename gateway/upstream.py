"""The connection to the primary of one client: opened with what the client said, written once the primary agrees."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from typing import Protocol, cast

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.transport.listener import WRITE_BUFFER
from amqp10.transport.tls import TlsChannel
from amqp10.types import AmqpError
from gateway.primary import Primary
from gateway.side import Phase, Side

log = logging.getLogger("gateway")

DIAL_S = 10.0
_HALF_OPEN_S = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class UpstreamRelay(Protocol):
    """The relay of a client, as the connection to the primary sees it."""

    def from_primary(self, channel: int, body: bytes) -> None:
        """Pass a frame of the primary on. Raises AmqpError."""

    def flush(self) -> None:
        """Write what has been passed on since the last call."""

    def read_client(self, is_read: bool) -> None:
        """Read the client, or leave what it sends where it is."""

    def sasl_ended(self, outcome: bytes, *, is_accepted: bool) -> None:
        """The primary has accepted the client's SASL, or not."""

    def primary_lost(self, reason: str) -> None:
        """The connection to the primary failed or has ended."""


class Upstream(Side, asyncio.BufferedProtocol):
    """The primary's side of a relay. What is sent waits until the primary has accepted the client's SASL."""

    def __init__(self, primary: Primary, relay: UpstreamRelay, read_buffer: bytearray) -> None:
        super().__init__()
        self.primary, self.relay, self._read_buffer = primary, relay, read_buffer
        self._init: bytes | None = None
        self._has_begun = False
        self._transport: asyncio.Transport | None = None
        self._tls: TlsChannel | None = None
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_S):
                await loop.create_connection(lambda: self, self.primary.address, self.primary.port)
        except (OSError, TimeoutError) as error:
            self._lose(f"it cannot be reached: {error or 'no answer'}")

    def begin(self, init: bytes | None) -> None:
        """Speak as the client does: with this `sasl-init`, or without SASL."""
        self._init, self._has_begun = init, True
        self._greet()

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.phase is Phase.CLOSED:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        _tune(self._transport.get_extra_info("socket"))
        if self.primary.tls is not None:
            self._tls = TlsChannel(self.primary.tls, self._transport.write, self.primary.hostname)
            self._received(b"")
        else:
            self._greet()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.has_read = True
        self._received(bytes(memoryview(self._read_buffer)[:nbytes]))

    def connection_lost(self, error: Exception | None) -> None:
        self._lose("it closed the connection" if error is None else f"the connection failed: {error}")

    def pause_writing(self) -> None:
        self.relay.read_client(False)

    def resume_writing(self) -> None:
        self.relay.read_client(True)

    # --- the relay -------------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Read nothing of the primary."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read the primary again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport if self._tls is None else self._tls).write(data)

    def flush(self) -> None:
        if self.phase in (Phase.AMQP_HEADER, Phase.FRAMES):
            super().flush()

    def silent(self) -> None:
        self._lose("it sent nothing within the client's idle time-out")

    def end(self) -> None:
        """Close the connection once everything is written."""
        self.stop()
        self._dialling.cancel()
        if self._transport is not None:
            self._transport.close()

    def _lose(self, reason: str) -> None:
        if self.phase is not Phase.CLOSED:
            log.info("the primary of a client is lost: %s", reason)
            self.end()
            self.relay.primary_lost(reason)

    # --- layers ----------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        is_ready = self._transport is not None and (self._tls is None or self._tls.is_ready)
        if is_ready and self._has_begun and self.phase is Phase.HEADER:
            self.phase = Phase.AMQP_HEADER if self._init is None else Phase.SASL
            self.write(AMQP_HEADER if self._init is None else SASL_HEADER)
            self.flush()

    def _received(self, data: bytes) -> None:
        try:
            if self._tls is not None:
                was_ready, data = self._tls.is_ready, self._tls.receive(data)
                if not was_ready:
                    self._greet()
            if data:
                self.buffer.feed(data)
                self._process()
        except ssl.SSLError as error:
            self._lose(f"TLS failed: {error.reason or error}")
        except AmqpError as error:
            self._lose(f"it does not speak AMQP as agreed: {error}")
        self.relay.flush()

    def _process(self) -> None:
        while self.phase in (Phase.SASL, Phase.OUTCOME):
            if self.phase is Phase.SASL and not self._read_header(SASL_HEADER, Phase.OUTCOME):
                return
            for kind, _, body in self.buffer.frames():
                self._read_sasl(kind, body)
                if self.phase is not Phase.OUTCOME:
                    break
            else:
                return
        if self.phase is Phase.AMQP_HEADER and not self._read_header(AMQP_HEADER, Phase.FRAMES):
            return
        if self.phase is Phase.FRAMES:
            for _, channel, body in self.buffer.frames():
                if body:
                    self.relay.from_primary(channel, body)

    def _read_header(self, expected: bytes, then: Phase) -> bool:
        header = self.buffer.take(8)
        if header is not None and header != expected:
            raise AmqpError("amqp:connection:framing-error", "another protocol header")
        if header is not None:
            self.phase = then
        return header is not None

    def _read_sasl(self, kind: int, body: bytes) -> None:
        said, _ = p.decode_performative(body, sasl=True)
        if kind != SASL_FRAME or not isinstance(said, p.SaslMechanisms | p.SaslOutcome):
            raise AmqpError("amqp:not-allowed", "SASL was expected")
        if isinstance(said, p.SaslMechanisms):
            self.write(frame(0, self._init or b"", SASL_FRAME))
            return
        is_accepted = said.code == sasl.OK
        if is_accepted:
            self.phase = Phase.AMQP_HEADER
            self.write(AMQP_HEADER)
        self.relay.sasl_ended(body, is_accepted=is_accepted)


def _tune(connected: socket.socket) -> None:
    """Send at once, and notice a network that is gone within a minute although nothing is sent."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _HALF_OPEN_S:
        with suppress(OSError, AttributeError):  # not every system has them
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
