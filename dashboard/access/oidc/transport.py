"""The bounds of what a provider may answer: no redirect, no endless body, no answer that comes for ever."""

import socket
import threading
from contextlib import suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

LARGEST_BYTES = 2**20
LIMIT_S = 10.0
"""The time of an answer from the connection to its last byte. `timeout` of requests is that of a single read."""
PART_BYTES = 16 * 1024


def bound(session: requests.Session) -> None:
    """Bound the answers of this session. Beyond the bounds it raises a RequestException."""
    session.max_redirects = 0  # a redirect would take the secret of the client and the code elsewhere
    session.mount("http://", BoundedAdapter())
    session.mount("https://", BoundedAdapter())


class BoundedAdapter(HTTPAdapter):
    """An adapter whose answers are complete, of bounded size, and come in bounded time."""

    _opened: list[socket.socket]

    def send(self, request: requests.PreparedRequest, *given: Any, **options: Any) -> requests.Response:
        """The response with its body. Raises RequestException."""
        timer = threading.Timer(LIMIT_S, self._cut)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, *given, **options | {"stream": True})
            response._content = _body(response)
            return response
        finally:
            timer.cancel()
            self._forget()

    def init_poolmanager(self, *given: Any, **options: Any) -> None:
        super().init_poolmanager(*given, **options)
        self._opened = []
        self._watch(self.poolmanager)

    def proxy_manager_for(self, *given: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*given, **options)
        self._watch(manager)
        return manager

    def _watch(self, manager: PoolManager) -> None:
        opened = self._opened

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return _kept(super()._new_conn(), opened)

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return _kept(super()._new_conn(), opened)

        plain = type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": Plain})
        secure = type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": Secure})
        manager.pool_classes_by_scheme = {"http": plain, "https": secure}

    def _cut(self) -> None:
        """End the connections: whoever reads there gets an error."""
        for one in list(self._opened):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        while self._opened:
            self._opened.pop().close()


def _kept(connection: socket.socket, opened: list[socket.socket]) -> socket.socket:
    """The connection, of which `opened` gets a second handle: TLS takes the first one away."""
    opened.append(connection.dup())
    return connection


def _body(response: requests.Response) -> bytes:
    found = bytearray()
    for part in response.iter_content(PART_BYTES):
        found += part
        if len(found) > LARGEST_BYTES:
            response.close()
            raise requests.RequestException("The answer is too large.")
    return bytes(found)
