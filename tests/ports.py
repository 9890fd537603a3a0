"""Ports for the servers that tests start."""

import secrets
import socket
from contextlib import closing, suppress

LOWEST_PORT, PORTS = 10_240, 22_000
"""Below those of outgoing connections, which thousands of tests open while a server is still starting."""
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody who asks for any: it is free a while later.

    A process gets none twice: it may ask for several before the first is used.
    """
    while True:
        port = LOWEST_PORT + secrets.randbelow(PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            if port not in _given:
                probe.bind(("127.0.0.1", port))
                _given.add(port)
                return port
