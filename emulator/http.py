"""The part of HTTP/1.1 that administration clients use, from bytes to requests and from answers to bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

MAX_HEAD = 32 * 1024
MAX_BODY = 1024 * 1024
WEBSOCKET_VERSION = "13"


class HttpError(Exception):
    """A malformed request, answered with this status; the connection is closed."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        return self.headers.get("connection", "").lower() != "close"

    @property
    def asks_for_websocket(self) -> bool:
        """Whether what follows on the connection is to be no HTTP."""
        return self.headers.get("upgrade", "").lower() == "websocket"


class RequestReader:
    """Collects bytes and returns whole requests of limited size; the last one is that for a WebSocket."""

    __slots__ = ("_data", "_is_over")

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_over = False

    def feed(self, data: bytes) -> list[Request]:
        """The requests that are complete with these bytes. Raises HttpError."""
        self._data += data
        requests = []
        while not self._is_over and (request := self._take()) is not None:
            requests.append(request)
            self._is_over = request.asks_for_websocket
        return requests

    def take_rest(self) -> bytes:
        """The bytes that follow the last request."""
        rest, self._data = bytes(self._data), bytearray()
        return rest

    def _take(self) -> Request | None:
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEAD:
            if len(self._data) > MAX_HEAD:
                raise HttpError(431, "The head of the request is too large.")
            return None
        method, target, headers = _head(bytes(self._data[:end]))
        body, size = self._body(end + 4, headers)
        if body is None:
            return None
        del self._data[:size]
        return Request(method, target, headers, body)

    def _body(self, start: int, headers: dict[str, str]) -> tuple[bytes | None, int]:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks(start)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            raise HttpError(400, "The content length is not a number.")
        if int(length) > MAX_BODY:
            raise HttpError(413, f"A body has at most {MAX_BODY} bytes.")
        end = start + int(length)
        return (bytes(self._data[start:end]), end) if len(self._data) >= end else (None, 0)

    def _chunks(self, position: int) -> tuple[bytes | None, int]:
        body = bytearray()
        while True:
            line = self._data.find(b"\r\n", position, position + 20)
            if line < 0:
                if len(self._data) - position >= 20:
                    raise HttpError(400, "A chunk has no size.")
                return None, 0
            size = _chunk_size(bytes(self._data[position:line]))
            if len(body) + size > MAX_BODY:
                raise HttpError(413, f"A body has at most {MAX_BODY} bytes.")
            end = line + 2 + size
            if len(self._data) < end + 2:
                return None, 0
            body += self._data[line + 2 : end]
            position = end + 2
            if size == 0:
                return bytes(body), position


def _chunk_size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise HttpError(400, "A chunk has no size.") from None


def _head(data: bytes) -> tuple[str, str, dict[str, str]]:
    lines = data.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HttpError(400, "This is not an HTTP request.")
    headers = {}
    for line in lines[1:]:
        name, separator, value = line.partition(":")
        if not separator:
            raise HttpError(400, "A header has no colon.")
        headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1], headers


def response(status: int, body: bytes = b"", content_type: str = "", *, close: bool = False) -> bytes:
    """The bytes of an answer."""
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Status"
    lines = [f"HTTP/1.1 {status} {reason}"]
    if status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {len(body)}")
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    if status == HTTPStatus.UPGRADE_REQUIRED:
        lines.append(f"Sec-WebSocket-Version: {WEBSOCKET_VERSION}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
