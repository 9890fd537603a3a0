"""HTTP of a gateway: the way to a WebSocket on the port of clients, and health on a port of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

import h11

from amqp10.transport.listener import AcceptedConnection
from amqp10.transport.websocket import WebSocketChannel, WebSocketRefused

MAX_HEAD = 32 * 1024
TEXT = b"text/plain; charset=utf-8"
Page = Callable[[], tuple[int, str]]
Objection = Callable[[Mapping[str, str]], str | None]


class WebConversation:
    """Answers requests without a body, one after the other; `pages` are texts by their paths.

    `objection` says why a WebSocket is refused by its headers; None if it is not.
    """

    def __init__(self, connection: AcceptedConnection, pages: dict[str, Page], objection: Objection) -> None:
        self._connection, self._pages, self._objection = connection, pages, objection
        self.is_open = bool(pages)  # a port of clients keeps no place for who only speaks HTTP
        self._is_head = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    def receive(self, data: bytes) -> None:
        """Process bytes of the client."""
        if not data:  # what came is TLS's own
            return
        self._http.receive_data(data)
        try:
            while isinstance(request := self._http.next_event(), h11.Request | h11.EndOfMessage):
                if isinstance(request, h11.Request):
                    asked, self._is_head = request, request.method == b"HEAD"
                elif not self._answer(asked):
                    return
            if request is not h11.NEED_DATA:
                self._connection.close()
        except h11.RemoteProtocolError:
            self._connection.close()

    def pause(self) -> None:
        """Answers are short: there is nothing to stop, nor to end."""

    resume = lost = pause

    def _answer(self, request: h11.Request) -> bool:
        """Answer a request; False if nothing more is read as HTTP."""
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        target = request.target.decode()
        if headers.get("upgrade", "").lower() == "websocket":
            return self._begin_websocket(target, headers)
        page = self._pages.get(target.partition("?")[0])
        status, text = page() if page is not None else (404, "not found\n")
        self._write(status, text, [])
        if self._http.our_state is h11.MUST_CLOSE:
            self._connection.close()
            return False
        self._http.start_next_cycle()
        return True

    def _begin_websocket(self, target: str, headers: dict[str, str]) -> bool:
        channel = WebSocketChannel()
        try:
            if (reason := self._objection(headers)) is not None:
                raise WebSocketRefused(reason, 403, [])
            self._connection.write(channel.accept(target, headers))
            self._connection.begin_websocket(channel, self._http.trailing_data[0])
        except WebSocketRefused as refused:
            self._write(refused.status, f"{refused}\n", [*refused.headers, (b"Connection", b"close")])
            self._connection.close()
        return False

    def _write(self, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
        body = text.encode()
        described = [*headers, (b"Content-Type", TEXT), (b"Content-Length", b"%d" % len(body))]
        reason = HTTPStatus(status).phrase.encode()
        head = h11.Response(status_code=status, headers=described, reason=reason)
        parts = [
            self._http.send(event) or b""
            for event in (head, h11.Data(data=b"" if self._is_head else body), h11.EndOfMessage())
        ]
        self._connection.write(b"".join(parts))
