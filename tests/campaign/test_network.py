"""Each disturbance of the network does what its name says, and ends when it is mended."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.campaign.network import Route

PATIENCE_S = 30.0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


@pytest.fixture
async def route() -> AsyncIterator[tuple[Route, int]]:
    there = await asyncio.start_server(echo, "127.0.0.1", 0)
    route = Route("a-route", there.sockets[0].getsockname()[1])
    here = await asyncio.start_server(route.accept, "127.0.0.1", 0)
    yield route, here.sockets[0].getsockname()[1]
    route.disturb({"effect": "cut"})
    here.close()
    there.close()


async def says(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], word: bytes) -> bytes:
    reader, writer = streams
    writer.write(word)
    return await asyncio.wait_for(reader.read(100), PATIENCE_S)


async def connected(route: tuple[Route, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection through which everything is forwarded."""
    streams = await asyncio.open_connection("127.0.0.1", route[1])
    assert await says(streams, b"word") == b"word"
    return streams


async def test_a_cut_ends_connections_and_refuses_new_ones_until_it_is_mended(route) -> None:
    streams = await connected(route)
    route[0].disturb({"effect": "cut"})
    with pytest.raises(ConnectionResetError):
        await says(streams, b"word")
    fresh = await asyncio.open_connection("127.0.0.1", route[1])
    with pytest.raises(ConnectionResetError):
        await says(fresh, b"word")
    route[0].disturb({"effect": "mend"})
    streams = await connected(route)
    streams[1].close()


async def test_half_open_connections_are_silent_and_reset_when_it_is_mended(route) -> None:
    streams = await connected(route)
    route[0].disturb({"effect": "half_open"})
    streams[1].write(b"more")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(streams[0].read(100), 0.2)
    route[0].disturb({"effect": "mend"})
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(streams[0].read(100), PATIENCE_S)


@pytest.mark.parametrize("effect", [{"effect": "delay", "delay_s": 0.1}, {"effect": "throttle", "bytes_per_s": 40}])
async def test_what_is_delayed_or_throttled_arrives_late(route, effect: dict[str, object]) -> None:
    streams = await connected(route)
    route[0].disturb(effect)
    began = asyncio.get_running_loop().time()
    assert await says(streams, b"word") == b"word"
    assert asyncio.get_running_loop().time() - began > 0.15
    streams[1].close()


async def test_reordered_connections_arrive_in_another_order(route) -> None:
    route[0].disturb({"effect": "reorder"})
    arrived: list[int] = []

    async def one(number: int) -> None:
        streams = await connected(route)
        arrived.append(number)
        streams[1].close()

    await asyncio.gather(*map(one, range(8)))
    assert arrived != sorted(arrived)
