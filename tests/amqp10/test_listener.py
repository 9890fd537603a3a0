"""The sockets that a listener has accepted."""

import asyncio
import socket
from unittest.mock import Mock

import pytest

from amqp10.frames import AMQP_HEADER
from amqp10.transport import listener


@pytest.mark.parametrize("end", ["close", "eof_received"])
async def test_a_client_that_does_not_read_is_aborted_in_time(monkeypatch, end):
    monkeypatch.setattr(listener, "CLOSING_TIMEOUT_S", 0)
    lost = asyncio.Event()

    def serve(connection):
        connection.write(bytes(1 << 24))
        getattr(connection, end)()
        return Mock(lost=lost.set)

    port = await (opened := listener.Listener(serve, serve)).open("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(AMQP_HEADER)
        await asyncio.wait_for(lost.wait(), 10)
    opened.close()
