"""The asyncio side of a namespace: its listener and its one timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ssl import SSLContext

from amqp10.transport.listener import AcceptedConnection, Listener
from amqp10.transport.origin import is_loopback
from emulator.administration import Administration
from emulator.broker.namespace import Namespace
from emulator.conversation import Conversation
from emulator.host import Host
from emulator.web.conversation import WebConversation

NEVER = float("inf")
# The longest sleep of the timer, so that a change of the wall clock cannot make it late by more.
MAX_SLEEP_S = 60.0


class NamespaceServer:
    """One namespace, on one port or several."""

    def __init__(self, namespace: Namespace, key: str, *, clock: Callable[[], float] = time.time) -> None:
        self.host = Host(namespace, key, clock, self._later)
        self.administration = Administration(namespace, self.host.keys, clock())
        self.requires_key = False
        self._listener = Listener(self._serve_amqp, lambda connection: WebConversation(self, connection))
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = NEVER

    async def start(self, address: str, port: int, tls: SSLContext | None = None) -> int:
        """Listen; returns the port. Raises OSError."""
        self._listener.tls = tls
        self.requires_key = not is_loopback(address)
        opened = await self.listen(address, port)
        self.host.on_turn = self._arm
        self._arm()
        return opened

    async def listen(self, address: str, port: int) -> int:
        """Listen on a further port, for the same protocols; returns it. Raises OSError."""
        return await self._listener.open(address, port)

    async def stop(self) -> None:
        """Close the listener and abort every connection; what was acknowledged is durable."""
        self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        self.host.commit()

    def _serve_amqp(self, connection: AcceptedConnection) -> Conversation:
        conversation = Conversation(self.host, connection)
        conversation.trigger("connect")
        return conversation

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
