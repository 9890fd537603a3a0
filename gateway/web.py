"""HTTP of a gateway: WebSockets and the primary's administration on the port of clients, health on one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

import h11

from amqp10.transport.dialled import Dialled
from amqp10.transport.listener import AcceptedConnection, Served
from amqp10.transport.websocket import WebSocketChannel, WebSocketRefused
from gateway.namespace import Namespace

MAX_HEAD = 32 * 1024
TEXT = b"text/plain; charset=utf-8"
Pages = dict[str, Callable[[], tuple[int, str]]]
Objection = Callable[[Mapping[str, str]], str | None]
Elsewhere = Callable[[AcceptedConnection, bytes], Served]


class WebConversation:
    """Answers requests without a body, one after the other; `pages` are texts by their paths.

    `objection` says why a WebSocket is refused by its headers; None if it is not. `elsewhere`: what serves the
    connection of anything else, from its first bytes.
    """

    def __init__(
        self, connection: AcceptedConnection, pages: Pages, objection: Objection, elsewhere: Elsewhere | None = None
    ) -> None:
        self._connection, self._pages, self._objection = connection, pages, objection
        self._elsewhere, self._first = elsewhere, b""
        self.is_open = bool(pages)  # a port of clients keeps no place for who only speaks HTTP
        self._is_head = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    def receive(self, data: bytes) -> None:
        """Process bytes of the client."""
        if not data:  # what came is TLS's own
            return
        self._http.receive_data(data)
        self._first += data if self._elsewhere is not None else b""
        try:
            while isinstance(request := self._http.next_event(), h11.Request | h11.EndOfMessage):
                if isinstance(request, h11.Request):
                    asked, self._is_head = request, request.method == b"HEAD"
                    if self._elsewhere is not None and b"upgrade" not in dict(request.headers):
                        self._connection.served_by = self._elsewhere(self._connection, self._first)
                        return
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
        events = (head, h11.Data(data=b"" if self._is_head else body), h11.EndOfMessage())
        self._connection.write(b"".join(self._http.send(event) or b"" for event in events))


class Splice(Dialled):
    """Passes the bytes of a client on to the HTTPS of the primary, from these on, and its answers back."""

    is_open = True
    receive = Dialled.write_raw  # of the client
    pause, resume = Dialled.pause_reading, Dialled.resume_reading  # of the primary, as the client reads

    def __init__(self, primary: Namespace, buffer: bytearray, connection: AcceptedConnection, first: bytes) -> None:
        super().__init__(primary, buffer)
        self._connection, self._first = connection, first
        connection.pause_reading()

    def lost(self, reason: str = "") -> None:
        """One of the two has ended: the other ends once everything is written."""
        self.hang_up()
        self._connection.close()

    def connected(self) -> None:
        self.write_raw(self._first)
        self._connection.resume_reading()

    def received(self, data: bytes) -> None:
        self._connection.write(data)

    def pause_writing(self) -> None:
        self._connection.pause_reading()

    def resume_writing(self) -> None:
        self._connection.resume_reading()
