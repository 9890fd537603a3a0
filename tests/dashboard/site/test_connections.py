"""Connections of the web process end: without a request, with an unread answer, and where there are too many."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import uvicorn

from dashboard.site import connections
from dashboard.site.connections import BoundedConnection, bound_connections_of, most_connections

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ONLY = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LONG_S = 60
"""Only what hangs reaches it."""


class Site:
    """An application that answers when it may, and says who has come."""

    def __init__(self) -> None:
        self.came, self.may_answer, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.parts = 1
        self.may_answer.set()
        self.meets: Callable[[], object] = lambda: None

    async def __call__(self, scope, receive, send) -> None:
        self.came.set()
        self.meets()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self.parts):
            await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


class Server(NamedTuple):
    """Its port, and the connections that it has now."""

    port: int
    connections: Collection[BoundedConnection]


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[Server]:
    """uvicorn with bounded connections."""
    config = uvicorn.Config(site, port=0, lifespan="off", log_config=None, http="h11", timeout_keep_alive=LONG_S)
    config.load()
    bound_connections_of(config)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(LONG_S):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield Server(server.servers[0].sockets[0].getsockname()[1], server.server_state.connections)
    finally:
        server.should_exit = server.force_exit = True
        async with asyncio.timeout(LONG_S):
            await serving


class Client:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int, said: bytes = b"") -> "Client":
        client = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1))
        client.writer.write(said)
        await client.writer.drain()
        return client

    async def until_the_end(self) -> bytes:
        """What comes until the server ends the connection."""
        said = b""
        async with asyncio.timeout(LONG_S):
            try:
                while part := await self.reader.read(2**16):
                    said += part
            except ConnectionResetError:
                pass
        self.writer.close()
        return said


@pytest.mark.parametrize("said", [b"", b"GET / HT", GET[:-2], GET[:-2] + b"X: y\r\n"], ids=repr)
async def test_a_connection_ends_where_no_request_begins(monkeypatch, said):
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    async with served(Site()) as server:
        client = await Client.to(server.port, said)
        assert await client.until_the_end() == b""


async def test_a_connection_ends_where_the_second_request_does_not_begin(monkeypatch):
    site = Site()
    site.meets = lambda: monkeypatch.setattr(connections, "HEAD_S", 0.1)  # not before the first has come
    async with served(site) as server:
        client = await Client.to(server.port, GET + GET[:-2])
        said = await client.until_the_end()
    assert said.count(b"HTTP/1.1 200") == 1


async def test_an_answer_may_take_longer_than_its_request():
    site = Site()
    site.may_answer.clear()
    async with served(site) as server:
        client = await Client.to(server.port, ONLY)
        await site.came.wait()
        (connection,) = server.connections
        connection.end_if_unbegun()
        site.may_answer.set()
        assert b"end" in await client.until_the_end()


async def test_a_client_that_reads_nothing_is_left(monkeypatch):
    monkeypatch.setattr(connections, "UNREAD_S", 0.1)
    site = Site()
    site.parts = 2**16  # 4 GB: more than any buffer takes
    async with served(site) as server:
        client = await Client.to(server.port, GET)
        async with asyncio.timeout(LONG_S):
            await site.left.wait()
        client.writer.close()


async def test_a_connection_that_had_a_request_is_kept_before_those_that_had_none(monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 2)
    async with served(Site()) as server:
        known = await Client.to(server.port, GET)
        await until_answered(known)
        silent = [await Client.to(server.port) for _ in range(3)]
        assert await silent[0].until_the_end() == b""
        known.writer.write(GET)
        await until_answered(known)
        for one in (known, *silent):
            one.writer.close()


async def until_answered(client: Client) -> None:
    said = b""
    async with asyncio.timeout(LONG_S):
        while not said.endswith(b"end\r\n0\r\n\r\n"):
            said += await client.reader.read(2**16)


async def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest(monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 3)
    site = Site()
    site.may_answer.clear()
    async with served(site) as server:
        answered = await Client.to(server.port, GET)
        await site.came.wait()
        waiting = [await Client.to(server.port) for _ in range(20)]
        for one in waiting[:18]:
            assert await one.until_the_end() == b""
        late = await Client.to(server.port, GET)
        site.may_answer.set()
        for one in (answered, late):
            async with asyncio.timeout(LONG_S):
                assert await one.reader.read(12) == b"HTTP/1.1 200"
            one.writer.close()


def test_half_of_the_files_of_the_process_are_connections(monkeypatch):
    for soft, most in ((1024, 512), (1, 1), (20000, 4096), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert most_connections() == most


def test_nothing_is_bounded_where_no_server_loads_the_application():
    bound_connections_of(None)
