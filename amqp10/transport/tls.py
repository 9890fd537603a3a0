"""TLS in memory: decrypts bytes from the socket and encrypts bytes for it."""

from __future__ import annotations

import ssl
from collections.abc import Callable

_PART = 64 * 1024


class TlsChannel:
    """The server's end of a TLS connection. `send` writes encrypted bytes to the socket."""

    def __init__(self, context: ssl.SSLContext, send: Callable[[bytes], None]) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._send = send
        self._is_ready = False

    def receive(self, data: bytes) -> bytes:
        """Decrypt bytes from the socket. Raises ssl.SSLError if the connection cannot continue."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self._is_ready:
                self._tls.do_handshake()
                self._is_ready = True
            while part := self._tls.read(_PART):
                plain.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        finally:
            self._flush()
        return b"".join(plain)

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())
