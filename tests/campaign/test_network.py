"""Each disturbance of the network, of a disk and of a clock does what its name says, and ends when it is mended."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dashboard.demo.processes import Program
from tests.campaign import clocks
from tests.campaign.disks import Disks
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


def test_a_full_disk_takes_nothing_until_there_is_room_and_its_files_are_kept(tmp_path: Path) -> None:
    with ExitStack() as resources:
        disks = Disks(tmp_path, resources)
        folder = disks.folder("primary")
        if not disks.can_be_filled:
            pytest.skip("this host does not allow mounting")
        (folder / "before").write_bytes(bytes(1_000_000))
        assert disks.fill("primary")
        with pytest.raises(OSError, match="No space left on device"):
            (folder / "meanwhile").write_bytes(bytes(100_000))
        disks.clear("primary")
        (folder / "after").write_bytes(bytes(1_000_000))
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == {
        "before": 1_000_000,
        "meanwhile": 0,
        "after": 1_000_000,
    }


LOOK = """
import json, time
began = time.monotonic()
time.sleep(0.02)
time.sleep(0.0)
slept = time.monotonic() - began
try:
    time.sleep(-1)
except ValueError:
    times = {"slept": slept, "clock": time.time(), "monotonic": time.monotonic()}
    print(json.dumps(times | {"is_replaced": time.sleep.__module__ == "sitecustomize"}))
"""


def look(environment: dict[str, str]) -> dict[str, float]:
    program = clocks.as_started(Program("it", (sys.executable, "-c", LOOK), {**os.environ, **environment}))
    done = subprocess.run(program.argv, env=dict(program.environment), capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_process_with_a_stepped_clock_sleeps_as_long_as_any_other() -> None:
    ours, stepped = look({}), look({"LD_PRELOAD": " "})  # no library: what replaces `time.sleep` is there all the same
    assert (ours["is_replaced"], stepped["is_replaced"]) == (False, True)
    assert ours["slept"] >= 0.02
    assert stepped["slept"] >= 0.02


@pytest.mark.skipif(clocks.library() is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("step_s", [-3600, 45])
def test_its_clock_is_stepped_and_its_monotonic_clock_is_not(step_s: int) -> None:
    library = clocks.library()
    assert library is not None
    before, stepped, after = look({}), look(clocks.stepped(library, step_s)), look(clocks.SAME)
    assert before["clock"] + step_s <= stepped["clock"] <= after["clock"] + step_s
    assert before["monotonic"] < stepped["monotonic"] < after["monotonic"]
    assert stepped["slept"] >= 0.02
