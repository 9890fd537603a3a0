"""The part of HTTP/1.1 that administration clients use, from bytes to requests and from answers to bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus

MAX_HEAD = 32 * 1024
MAX_BODY = 1024 * 1024
WEBSOCKET_VERSION = "13"
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


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
    """Collects bytes and returns whole requests of limited size; the last one is that for a WebSocket.

    What was read is not read again, so that a request in many small pieces costs no more than its size.
    """

    __slots__ = ("_body", "_data", "_is_over", "_request")

    def __init__(self) -> None:
        self._data = bytearray()
        self._request: Request | None = None  # whose body is not complete yet
        self._body = bytearray()  # the chunks of that so far
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
        return self._take_bytes(len(self._data))

    def _take(self) -> Request | None:
        request = self._request = self._request or self._take_head()
        body = None if request is None else self._take_body(request.headers)
        if request is None or body is None:
            return None
        self._request = None
        return replace(request, body=body)

    def _take_head(self) -> Request | None:
        end = self._data.find(b"\r\n\r\n")
        if end > MAX_HEAD or (end < 0 and len(self._data) > MAX_HEAD):
            raise HttpError(431, "The head of the request is too large.")
        if end < 0:
            return None
        return _head(self._take_bytes(end, and_skip=4))

    def _take_body(self, headers: dict[str, str]) -> bytes | None:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._take_chunks()
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            raise HttpError(400, "The content length is not a number.")
        if int(length) > MAX_BODY:
            raise HttpError(413, f"A body has at most {MAX_BODY} bytes.")
        return self._take_bytes(int(length)) if len(self._data) >= int(length) else None

    def _take_chunks(self) -> bytes | None:
        while (chunk := self._take_chunk()) is not None:
            self._body += chunk
            if not chunk:
                body, self._body = bytes(self._body), bytearray()
                return body
        return None

    def _take_chunk(self) -> bytes | None:
        """The next chunk, once it is complete; the last one is empty."""
        line = self._data.find(b"\r\n", 0, 20)
        if line < 0:
            if len(self._data) >= 20:
                raise HttpError(400, "A chunk has no size.")
            return None
        size = _chunk_size(bytes(self._data[:line]))
        if len(self._body) + size > MAX_BODY:
            raise HttpError(413, f"A body has at most {MAX_BODY} bytes.")
        if len(self._data) < line + 2 + size + 2:
            return None
        del self._data[: line + 2]
        return self._take_bytes(size, and_skip=2)

    def _take_bytes(self, size: int, *, and_skip: int = 0) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[: size + and_skip]
        return taken


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or not _HEXADECIMAL.issuperset(digits):  # int() would also take a sign
        raise HttpError(400, "A chunk has no size.")
    return int(digits, 16)


def _head(data: bytes) -> Request:
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
    return Request(parts[0], parts[1], headers)


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
