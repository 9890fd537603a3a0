"""TLS in memory: decrypts bytes from the socket and encrypts bytes for it."""

from __future__ import annotations

import ssl
from collections.abc import Callable

_PART = 64 * 1024


class TlsChannel:
    """One end of a TLS connection. `send` writes encrypted bytes to the socket.

    It is the client's end if there is a `server_name`, which the server's certificate has to have; `receive` begins it.
    """

    def __init__(self, context: ssl.SSLContext, send: Callable[[bytes], None], server_name: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._send = send
        self.is_ready = False
        """Whether the handshake is over: nothing may be written before."""

    def receive(self, data: bytes) -> bytes:
        """Decrypt bytes from the socket. Raises ssl.SSLError if the connection cannot continue."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.is_ready:
                self._tls.do_handshake()
                self.is_ready = True
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
