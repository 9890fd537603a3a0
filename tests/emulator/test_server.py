"""Sockets and the timer of a namespace, inside the test's own loop."""

import asyncio
import socket
import sys
import time

import pytest

from emulator.broker.descriptions import QueueDescription
from emulator.broker.namespace import Namespace
from emulator.server import NamespaceServer

GREETING = b"AMQP\x03\x01\x00\x00"


@pytest.fixture
async def server():
    namespace = Namespace("contoso")
    namespace.create_queue("orders", QueueDescription("orders", lock_duration_s=0.1), time.time())
    server = NamespaceServer(namespace, "key")
    server.port = await server.start("127.0.0.1", 0)
    yield server
    await server.stop()


@pytest.fixture
async def connect(server):
    writers = []

    async def connect(data=b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.append(writer)
        writer.write(data)
        return reader

    yield connect
    for writer in writers:
        writer.close()


async def end_of(reader):
    """Waits until the other side ends the connection; returns what came before."""
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    "data", [b"", b"AM", GREETING, b"\x16"], ids=["nothing", "half a word", "only hello", "one byte"]
)
async def test_a_client_that_says_too_little_gives_its_place_to_others(connect, monkeypatch, data):
    monkeypatch.setattr("amqp10.transport.listener.GREETING_TIMEOUT_S", 0.05)
    await end_of(await connect(data))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the segment size has no such limit")
async def test_a_client_can_set_the_segment_size_to_what_it_reads(server):
    """SDKs for Python before 7.15 do so in asyncio; on the loopback it would be beyond what Linux takes."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    connection = writer.get_extra_info("socket")
    size = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, size)
    writer.close()
