"""AMQP over WebSockets (RFC 6455): the handshake, and frames in memory, as `tls` does it for TLS.

The standard library has no WebSockets, and the emulator needs no other package. What clients of Service Bus use is
little: binary frames, pings, and closing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from urllib.parse import urlsplit

from emulator.http import WEBSOCKET_VERSION, HttpError, Request

PATH = "/$servicebus/websocket"
SUBPROTOCOLS = ("AMQPWSB10", "amqp")
MAX_FRAME = 1024 * 1024
"""The longest frame of a client; those of SDKs are not longer than a frame of AMQP."""
PART = 64 * 1024
"""The longest frame that is sent: asyncio clients take no message above 4 MB."""

NORMAL, PROTOCOL_ERROR, UNSUPPORTED, TOO_BIG = 1000, 1002, 1003, 1009
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL, _MASKED, _MAX_CONTROL = 0x80, 0x80, 125
_ACCEPTED_WITH = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455, section 1.3


class WebSocketError(Exception):
    """The connection cannot continue; `code` is sent to the client."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


# --- the handshake --------------------------------------------------------------------------------------------------


def accepted(request: Request) -> bytes:
    """The answer that begins a WebSocket. Raises HttpError, with the sentence for the client."""
    headers = request.headers
    if request.target.partition("?")[0].replace("%24", "$").rstrip("/") != PATH:
        raise HttpError(404, f"WebSockets are at {PATH}.")
    if request.method != "GET" or "upgrade" not in headers.get("connection", "").lower():
        raise HttpError(400, "A WebSocket begins with GET and the header Connection: Upgrade.")
    if headers.get("sec-websocket-version") != WEBSOCKET_VERSION:
        raise HttpError(426, f"The WebSocket version must be {WEBSOCKET_VERSION}.")
    if _comes_from_a_foreign_page(headers):
        raise HttpError(403, "A page of another host may not open a WebSocket.")
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    protocol = next((name for name in offered if name in SUBPROTOCOLS), None)
    if protocol is None:
        raise HttpError(400, f"The subprotocol must be {' or '.join(SUBPROTOCOLS)}.")
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {_acceptance(headers.get('sec-websocket-key', ''))}",
        f"Sec-WebSocket-Protocol: {protocol}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def _acceptance(key: str) -> str:
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise HttpError(400, "The header Sec-WebSocket-Key has to be 16 bytes in base64.")
    digest = hashlib.sha1(key.encode("ascii") + _ACCEPTED_WITH, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


def _comes_from_a_foreign_page(headers: dict[str, str]) -> bool:
    """Whether a browser says that a page of another host asks: its visitor's namespace has a key that all know."""
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).hostname != urlsplit(f"//{headers.get('host', '')}").hostname
    except ValueError:
        return True


# --- frames ---------------------------------------------------------------------------------------------------------


class WebSocketChannel:
    """The server's end of a WebSocket. `send` writes frames to the socket; messages are a stream of bytes here."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._data = bytearray()
        self._is_in_message = False
        self.is_closed = False

    def receive(self, data: bytes) -> bytes:
        """The bytes inside the frames that are complete now; pings are answered. Raises WebSocketError.

        Once the client has closed, the answer to that is sent and `is_closed` is true.
        """
        self._data += data
        contents: list[bytes] = []
        while not self.is_closed and (taken := self._take()) is not None:
            contents.append(self._content(*taken))
        return b"".join(contents)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self.is_closed:
            for start in range(0, len(data), PART):
                self._send(_frame(_BINARY, data[start : start + PART]))

    def close(self, code: int = NORMAL) -> None:
        """Send that nothing follows."""
        if not self.is_closed:
            self._send(_frame(_CLOSE, code.to_bytes(2, "big")))
            self.is_closed = True

    def _take(self) -> tuple[int, bool, bytes] | None:
        """The opcode, whether it ends its message, and the payload of the next frame, once it is complete."""
        head = self._data
        if len(head) < 2:
            return None
        opcode, is_final, size, start = head[0] & 0x0F, bool(head[0] & _FINAL), head[1] & 0x7F, 2
        self._check(head[0], head[1])
        if size > _MAX_CONTROL:
            start += 2 if size == 126 else 8
            if len(head) < start:
                return None
            size = int.from_bytes(head[2:start], "big")
        if size > MAX_FRAME:
            raise WebSocketError(TOO_BIG, f"A frame has at most {MAX_FRAME} bytes.")
        end = start + 4 + size
        if len(head) < end:
            return None
        payload = _unmasked(bytes(head[start + 4 : end]), bytes(head[start : start + 4]))
        del self._data[:end]
        return opcode, is_final, payload

    def _check(self, first: int, second: int) -> None:
        """Raise WebSocketError for a frame that a client may not send."""
        opcode = first & 0x0F
        if first & 0x70:
            raise WebSocketError(PROTOCOL_ERROR, "No extension is in use.")
        if not second & _MASKED:
            raise WebSocketError(PROTOCOL_ERROR, "A client must mask its frames.")
        if opcode in (_CLOSE, _PING, _PONG):
            if not first & _FINAL or second & 0x7F > _MAX_CONTROL:
                raise WebSocketError(PROTOCOL_ERROR, "A control frame must be short and not fragmented.")
        elif opcode == _TEXT:
            raise WebSocketError(UNSUPPORTED, "AMQP is binary.")
        elif opcode not in (_CONTINUATION, _BINARY) or (opcode == _CONTINUATION) is not self._is_in_message:
            raise WebSocketError(PROTOCOL_ERROR, "This frame is not allowed here.")

    def _content(self, opcode: int, is_final: bool, payload: bytes) -> bytes:
        match opcode:
            case 0x8:
                self.close()
            case 0x9:
                self._send(_frame(_PONG, payload))
            case 0x0 | 0x2:
                self._is_in_message = not is_final
                return payload
        return b""


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _MAX_CONTROL:
        head = bytes([_FINAL | opcode, size])
    elif size < 1 << 16:
        head = bytes([_FINAL | opcode, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([_FINAL | opcode, 127]) + size.to_bytes(8, "big")
    return head + payload


def _unmasked(data: bytes, mask: bytes) -> bytes:
    """The exclusive or with the repeated mask, as one operation on long integers."""
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(len(data), "little")
