"""AMQP over WebSockets: the answer to the request for one, and its messages as a stream of bytes."""

from __future__ import annotations

from collections.abc import Callable

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from emulator.administration import AdminRequest

PATH = "/$servicebus/websocket"
SUBPROTOCOLS = ("AMQPWSB10", "amqp")


class WebSocketChannel:
    """The server's end of a WebSocket."""

    def __init__(self) -> None:
        self._connection = WSConnection(ConnectionType.SERVER)
        self._send: Callable[[bytes], None] = lambda data: None
        self.is_closed = False

    def accept(self, request: AdminRequest) -> bytes:
        """The answer that begins the WebSocket. Raises RemoteProtocolError with the refusal as its `event_hint`."""
        if request.target.partition("?")[0].replace("%24", "$").rstrip("/") != PATH:
            raise RemoteProtocolError(f"WebSockets are at {PATH}.", RejectConnection(status_code=404))
        # The host was checked before; wsproto takes none that is not ASCII.
        given = {**request.headers, "host": "localhost"}
        headers = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
        self._connection.initiate_upgrade_connection(headers, request.target)
        offered = [
            each for event in self._connection.events() if isinstance(event, Request) for each in event.subprotocols
        ]
        protocol = next((name for name in offered if name in SUBPROTOCOLS), None)
        if protocol is None:
            raise RemoteProtocolError(f"The subprotocol must be {' or '.join(SUBPROTOCOLS)}.", RejectConnection())
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
