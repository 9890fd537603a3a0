"""The asyncio side of a namespace: its listener, its connections and its one timer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from ssl import SSLContext
from typing import cast

from emulator.administration import Administration
from emulator.broker.namespace import Namespace
from emulator.host import Host
from emulator.listening.sniffing import READ_BUFFER, Resettable, SniffingProtocol
from emulator.web.origin import is_loopback

NEVER = float("inf")
# The longest sleep of the timer, so that a change of the wall clock cannot make it late by more.
MAX_SLEEP_S = 60.0
MAX_SEGMENT = 32_000


class NamespaceServer:
    """One namespace, on one port or several."""

    def __init__(self, namespace: Namespace, key: str, *, clock: Callable[[], float] = time.time) -> None:
        self.host = Host(namespace, key, clock, self._later)
        self.administration = Administration(namespace, self.host.keys, clock())
        self.requires_key = False
        self.tls: SSLContext | None = None
        self.connections: set[Resettable] = set()
        self.read_buffer = bytearray(READ_BUFFER)
        self._listeners: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = NEVER

    async def start(self, address: str, port: int, tls: SSLContext | None = None) -> int:
        """Listen; returns the port. Raises OSError."""
        self.tls = tls
        self.requires_key = not is_loopback(address)
        opened = await self.listen(address, port)
        self.host.on_turn = self._arm
        self._arm()
        return opened

    async def listen(self, address: str, port: int) -> int:
        """Listen on a further port, for the same protocols; returns it. Raises OSError."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: SniffingProtocol(self), address, port, backlog=1024)
        self._listeners.append(listener)
        for listening in listener.sockets:
            _bound_segments(listening)
        return cast(int, listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and abort every connection; what was acknowledged is durable."""
        for listener in self._listeners:
            listener.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.reset()
        self.host.commit()

    def _later(self, delay_s: float, call: Callable[[], None]) -> object:
        loop = asyncio.get_running_loop()
        return loop.call_later(delay_s, call) if delay_s > 0 else loop.call_soon(call)

    def _arm(self) -> None:
        """Set the timer for what is due next; called at the end of each turn."""
        due = self.host.next_due()
        if due >= self._armed_for:
            return
        self._armed_for = due
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(due - self.host.clock(), 0.0), MAX_SLEEP_S)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer, self._armed_for = None, NEVER
        self.host.advance()
        self._arm()


def _bound_segments(listening: socket.socket) -> None:
    """Older SDKs for Python set the segment size of a connection to what they read, which Linux limits to 32,767."""
    with contextlib.suppress(OSError, AttributeError):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MAX_SEGMENT)
