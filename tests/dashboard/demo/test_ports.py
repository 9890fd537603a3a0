"""The demo's port is its own from the first second, though its web process starts much later."""

import errno
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.demo.stage import HOST, reserved_port

IP_LOCAL_PORT_RANGE = 51
"""Of Linux 6.3 (linux/in.h): from which ports the system chooses for this socket; socket has no name for it."""

NONE_LEFT = f"Errno ({errno.EADDRINUSE}|{errno.EADDRNOTAVAIL})"


def asking_among(port: int) -> socket.socket:
    """A socket for which the system has one port to choose from."""
    asking = socket.socket()
    try:
        asking.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
    except OSError:
        asking.close()
        pytest.skip("this kernel cannot limit the ports of one socket")
    return asking


def listening_on_any(asking: socket.socket) -> None:
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    asking.bind((HOST, 0))


def connecting(asking: socket.socket) -> None:
    with socket.create_server((HOST, 0)) as server:
        asking.connect(server.getsockname())


@pytest.mark.parametrize("takes", [listening_on_any, connecting])
def test_nobody_who_asks_for_any_port_gets_it(takes: Callable[[socket.socket], Any]) -> None:
    with reserved_port() as port, asking_among(port) as asking, pytest.raises(OSError, match=NONE_LEFT):
        takes(asking)

    with asking_among(port) as asking:
        takes(asking)  # it is the reservation that kept it
        assert asking.getsockname()[1] == port


def test_the_server_it_is_meant_for_listens_on_it() -> None:
    with (
        reserved_port() as port,
        socket.create_server((HOST, port)),
        socket.create_connection((HOST, port)) as connection,
    ):
        assert connection.getpeername()[1] == port
