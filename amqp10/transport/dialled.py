"""A connection that is opened to a namespace: a socket, with TLS where the namespace has it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Protocol, cast

from amqp10.transport.listener import WRITE_BUFFER, close_in_time
from amqp10.transport.tls import TlsChannel

DIAL_S = 10.0
_HALF_OPEN_S = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Namespace(Protocol):
    """Where a namespace is; its certificate is checked by its name."""

    @property
    def hostname(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def tls(self) -> ssl.SSLContext | None: ...


class Dialled(asyncio.BufferedProtocol, ABC):
    """Dials at once. `lost` is called once, unless `hang_up` was."""

    def __init__(self, namespace: Namespace, read_buffer: bytearray) -> None:
        self._namespace, self._read_buffer = namespace, read_buffer
        self._transport: asyncio.Transport | None = None
        self._tls: TlsChannel | None = None
        self._is_over = False
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    @abstractmethod
    def connected(self) -> None:
        """The connection is ready to be written to."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Process bytes of the namespace."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The connection could not be opened, failed or has ended."""

    # --- for those who dialled -------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the connection can be written to."""
        return self._transport is not None and (self._tls is None or self._tls.is_ready)

    def write_raw(self, data: bytes) -> None:
        """Write bytes, encrypted where the namespace has TLS."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport if self._tls is None else self._tls).write(data)

    def pause_reading(self) -> None:
        """Read nothing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """Close the connection once everything is written."""
        self._is_over = True
        self._dialling.cancel()
        if self._transport is not None:
            close_in_time(self._transport)

    def lose(self, reason: str) -> None:
        """Close the connection because of an error of the namespace."""
        if not self._is_over:
            self.hang_up()
            self.lost(reason)

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_S):
                await loop.create_connection(lambda: self, self._namespace.address, self._namespace.port)
        except (OSError, TimeoutError) as error:
            self.lose(f"it cannot be reached: {error or 'no answer'}")

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_over:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        _tune(self._transport.get_extra_info("socket"))
        if self._namespace.tls is None:
            self.connected()
        else:
            self._tls = TlsChannel(self._namespace.tls, self._transport.write, self._namespace.hostname)
            self._decrypt(b"")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(memoryview(self._read_buffer)[:nbytes])
        if self._tls is not None:
            data = self._decrypt(data)
        if data:
            self.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.lose("it closed the connection" if error is None else f"the connection failed: {error}")

    def _decrypt(self, data: bytes) -> bytes:
        assert self._tls is not None
        was_ready = self._tls.is_ready
        try:
            data = self._tls.receive(data)
        except ssl.SSLError as error:
            self.lose(f"TLS failed: {error.reason or error}")
            return b""
        if self._tls.is_ready and not was_ready:
            self.connected()
        return data


def _tune(connected: socket.socket) -> None:
    """Send at once, and notice a network that is gone within a minute although nothing is sent."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _HALF_OPEN_S:
        with suppress(OSError, AttributeError):  # not every system has them
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
