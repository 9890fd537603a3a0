"""What is below the links of the SDK: handlers, sockets found, interrupted and closed, and TLS contexts.

Private attributes of the SDK are used only if there is no public way; if one is missing, the socket is not touched.
"""

import contextlib
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import certifi

HANDSHAKE_S = 10.0
"""Time limit of a TLS handshake."""
_RENEW_AHEAD = 0.15  # of a token's life: before the SDK would renew it inside a send
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def raw_socket(sender: Any) -> Any:
    """The socket of an SDK sender, if it has one."""
    return _socket_of(getattr(sender, "_handler", None))


def _socket_of(handler: Any) -> Any:
    found = handler
    for name in ("_connection", "_transport", "sock"):
        found = getattr(found, name, None)
    found = getattr(found, "sock", found)  # a WebSocket wraps its socket
    return found if isinstance(found, socket.socket | socket.SocketType) else None


def on_each_handler(sender: Any, do: Callable[[Any], None]) -> None:
    """Call this with every handler, that is every connection, that the SDK will make for a sender or receiver."""
    create = getattr(sender, "_create_handler", None)
    if create is None:
        return

    def create_and_do(*arguments: Any, **keywords: Any) -> None:
        create(*arguments, **keywords)
        do(getattr(sender, "_handler", None))

    sender._create_handler = create_and_do


def close_socket_with(handler: Any) -> None:
    """From now on, closing this handler of the SDK closes its socket, too.

    The SDK itself leaves the socket open, and loses the reference to it, if the connection was reset or refused, or if
    it has no session yet: until the garbage collector finds it (docs/wire.md).
    """
    close = getattr(handler, "close", None)
    if close is None:
        return

    def close_both() -> None:
        found = _socket_of(handler)
        try:
            close()
        finally:
            if found is not None:
                found.close()

    handler.close = close_both


def break_transport(sender: Any) -> None:
    """Interrupt whatever waits on the sender's socket, from any thread; the socket must still be closed."""
    found = raw_socket(sender)
    if found is not None:
        below = getattr(found, "fd", found)  # of eventlet's socket
        class_ = socket.SocketType if isinstance(below, socket.SocketType) else socket.socket
        with contextlib.suppress(OSError):
            class_.shutdown(below, socket.SHUT_RDWR)  # not SSLSocket's own, which forgets its state


class _PunctualSocket(ssl.SSLSocket):
    """A TLS socket with a bounded handshake: the SDK lets it wait without a limit while the socket is not reachable."""

    def do_handshake(self, block: bool = False) -> None:
        self.settimeout(HANDSHAKE_S)
        super().do_handshake(block)


def tls_context(authorities: str | None) -> ssl.SSLContext:
    """The TLS context that the SDK would make for these certificate authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authorities or certifi.where())
    return context


def punctual_context(authorities: str | None) -> ssl.SSLContext:
    """The same, for blocking sockets: its handshake ends."""
    context = tls_context(authorities)
    context.sslsocket_class = _PunctualSocket
    return context


def is_alive(sender: Any, heartbeat: bool) -> bool:
    """Whether an idle link is still open: reads what the peer has sent, and sends a due heartbeat."""
    found, connection = raw_socket(sender), getattr(getattr(sender, "_handler", None), "_connection", None)
    if found is None or connection is None:
        return bool(getattr(sender, "_running", False))
    try:
        while heartbeat or _has_input(found):
            heartbeat = False
            connection.listen(wait=False)
        link = getattr(sender._handler, "_link", None)
        state = link.get_state() if link is not None else None
        return getattr(connection, "_error", None) is None and (state is None or state.value == 3)
    except Exception:
        return False


def _has_input(found: Any) -> bool:
    """Whether something can be read; by ``poll`` where there is one, as ``select`` refuses descriptors above 1023."""
    with _Selector() as selector:
        selector.register(found, selectors.EVENT_READ)
        return bool(selector.select(0))


def token_is_aging(sender: Any) -> bool:
    """Whether the SDK would soon fetch a token within a send; a fresh link fetches it on another thread."""
    authenticator = getattr(getattr(sender, "_handler", None), "_cbs_authenticator", None)
    expires_on, put_at = getattr(authenticator, "_expires_on", None), getattr(authenticator, "_token_put_time", None)
    if not isinstance(expires_on, int | float) or not isinstance(put_at, int | float):
        return False
    return time.time() > expires_on - _RENEW_AHEAD * (expires_on - put_at)
