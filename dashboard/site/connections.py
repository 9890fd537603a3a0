"""Limits of connections: requests that do not begin, answers that nobody reads, and more connections than descriptors.

uvicorn waits for the head of a request without an end, and keeps an answer until its client has read it.
"""

import asyncio
import resource
from collections.abc import Iterable
from typing import Any

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.importer import import_from_string

HEAD_S = 20.0
"""How long the head of a request may take, from the connection or from the answer before."""
UNREAD_S = 60.0
"""How long a client may leave an answer unread that does not fit into the buffers of the operating system."""
MOST = 4096
"""The number of connections of a process, if it may open twice as many files."""
GRACE_S = 0.5
"""How long there may be more, up to half as many: what has just been accepted has not been read."""


def bound_connections_of(server: Any) -> None:
    """Give the connections of the uvicorn that is loading this application the limits of this module."""
    if server is not None:
        served = _protocol_of(server)
        # It takes `http` where it has not chosen the protocol yet, and the other where it has.
        server.http = server.http_protocol_class = type(f"Bounded{served.__name__}", (BoundedConnection, served), {})


def _protocol_of(server: Any) -> Any:
    chosen = getattr(server, "http_protocol_class", server.http)
    return import_from_string(HTTP_PROTOCOLS.get(chosen, chosen)) if isinstance(chosen, str) else chosen


def most_connections() -> int:
    """Half of the files that the process may open: Redis, the database and files need the others."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, max(1, soft // 2))


class BoundedConnection(asyncio.Protocol):
    """Before an HTTP protocol of uvicorn, as a base class: a connection that ends if its client does not go on."""

    # What uvicorn's protocols have, for h11 as for httptools
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    connections: set[asyncio.Protocol]
    cycle: Any

    is_full = False
    """Of the class, which is that of one server: whether connections are about to be ended for others."""
    waits_since = 0.0
    _unbegun: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait_for_a_request()
        most = most_connections()
        if len(self.connections) > most + most // 2:
            make_room(self.connections)
        elif len(self.connections) > most and not type(self).is_full:
            type(self).is_full = True
            self.loop.call_later(GRACE_S, self._make_room)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._unbegun, self._unread)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._wait_for_a_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.end)

    def resume_writing(self) -> None:
        _cancel(self._unread)
        super().resume_writing()

    def is_answering(self) -> bool:
        """Whether a request has come whose answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def end(self) -> None:
        """End the connection at once; what has not been sent is dropped."""
        self.transport.abort()

    def end_if_unbegun(self) -> None:
        """The time for the head of a request is over."""
        if not self.is_answering():
            self.end()

    def _make_room(self) -> None:
        type(self).is_full = False
        make_room(self.connections)

    def _wait_for_a_request(self) -> None:
        """Also where the connection is being closed: that waits until the client has read everything."""
        _cancel(self._unbegun)
        delay = UNREAD_S if self.transport.get_write_buffer_size() else HEAD_S
        self.waits_since = self.loop.time()
        self._unbegun = self.loop.call_later(delay, self.end_if_unbegun)


def make_room(connections: Iterable[asyncio.Protocol]) -> None:
    """End as many as are too many, of those without a request: first those that never had one, the oldest before."""
    known = [one for one in connections if isinstance(one, BoundedConnection) and not one.transport.is_closing()]
    waiting = [one for one in known if not one.is_answering()]
    waiting.sort(key=lambda one: (one.cycle is not None, one.waits_since))
    for one in waiting[: max(0, len(known) - most_connections())]:
        one.end()


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
