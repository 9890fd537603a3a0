"""Ports for the servers that tests start."""

import secrets
import socket
from contextlib import closing, suppress

LOWEST_PORT, PORTS = 10_240, 22_000
"""Below those of outgoing connections, which thousands of tests open while a server is still starting."""


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody who asks for any: it is free a while later."""
    while True:
        port = LOWEST_PORT + secrets.randbelow(PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
