"""AMQP over WebSockets: the answer to the request for one, and its messages as a stream of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

PATH = "/$servicebus/websocket"
SUBPROTOCOLS = ("AMQPWSB10", "amqp")


def _path(target: str) -> str:
    """The path of a request target, which is a whole URL from SDKs for Java."""
    return re.sub(r"^https?://[^/]*", "", target).partition("?")[0].replace("%24", "$").rstrip("/")


class WebSocketRefused(Exception):
    """The request begins no WebSocket: answer it with this status and these headers."""

    def __init__(self, reason: str, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


class WebSocketChannel:
    """The server's end of a WebSocket."""

    def __init__(self) -> None:
        self._connection = WSConnection(ConnectionType.SERVER)
        self._send: Callable[[bytes], None] = lambda data: None
        self.is_closed = False

    def accept(self, target: str, headers: Mapping[str, str]) -> bytes:
        """The answer to a GET request that begins the WebSocket. Raises WebSocketRefused."""
        if _path(target) != PATH:
            raise WebSocketRefused(f"WebSockets are at {PATH}.", 404, [])
        # The host is the caller's to check; wsproto reads nothing that is not ASCII.
        named = {**headers, "host": "localhost"}
        given = [(name.encode(), value.encode("ascii", "replace")) for name, value in named.items()]
        try:
            self._connection.initiate_upgrade_connection(given, target)
        except RemoteProtocolError as error:
            hint = error.event_hint if isinstance(error.event_hint, RejectConnection) else RejectConnection()
            raise WebSocketRefused(str(error), hint.status_code, list(hint.headers)) from None
        requests = [event for event in self._connection.events() if isinstance(event, Request)]
        offered = [name for request in requests for name in request.subprotocols]
        protocol = next((name for name in offered if name in SUBPROTOCOLS), None)
        if protocol is None:
            raise WebSocketRefused(f"The subprotocol must be {' or '.join(SUBPROTOCOLS)}.", 400, [])
        return self._connection.send(AcceptConnection(subprotocol=protocol))

    def begin(self, send: Callable[[bytes], None]) -> None:
        """From now on frames are written to the socket with `send`."""
        self._send = send

    def receive(self, data: bytes) -> bytes:
        """The bytes inside these frames; pings are answered. Once the client has closed, `is_closed` is true."""
        contents: list[bytes | bytearray] = []
        if not self.is_closed:
            self._connection.receive_data(data)
            for event in self._connection.events():
                match event:
                    case BytesMessage():
                        contents.append(event.data)
                    case TextMessage():
                        self.close(CloseReason.UNSUPPORTED_DATA)
                        break
                    case Ping():
                        self._send(self._connection.send(event.response()))
                    case CloseConnection():  # by the client, or because of an error of the client
                        self.close(event.code)
                        break
        return b"".join(contents)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self.is_closed:
            self._send(self._connection.send(BytesMessage(data)))

    def close(self, code: int = CloseReason.NORMAL_CLOSURE) -> None:
        """Send that nothing follows."""
        if not self.is_closed:
            self._send(self._connection.send(CloseConnection(code)))
            self.is_closed = True
