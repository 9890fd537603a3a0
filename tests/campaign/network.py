"""The network between processes and servers: `python -m tests.campaign.network NAME=LISTEN:TO …`, a process.

Lines of JSON on its standard input disturb one route, `{"route": …, "effect": …}`; the effect `mend` ends that. `cut`
ends connections and refuses new ones; `half_open` forwards nothing more, and what was open is reset when it is mended;
`delay`, `throttle` and `reorder` (new connections arrive late and in another order) forward everything in the end.
"""

import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
from typing import Any

CHUNK = 65_536
REORDERED_S = 1.0


class Route:
    """One port that leads to another."""

    def __init__(self, name: str, to: int) -> None:
        self.name, self.to = name, to
        self._disturbance: dict[str, Any] = {}
        self._open: set[asyncio.StreamWriter] = set()
        self._dead: set[asyncio.StreamWriter] = set()
        self._is_mended = asyncio.Event()
        self._chance = random.Random(name)

    def disturb(self, disturbance: dict[str, Any]) -> None:
        """From now on, and until it is mended."""
        effect = disturbance["effect"]
        self._disturbance = {} if effect == "mend" else disturbance
        if effect == "mend":
            for writer in self._dead:
                _reset(writer)
            self._dead.clear()
            self._is_mended.set()
        else:
            self._is_mended.clear()
        if effect == "cut":
            for writer in self._open:
                _reset(writer)
        if effect == "half_open":
            self._dead |= self._open

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        effect = self._disturbance.get("effect")
        if effect == "cut":
            _reset(writer)
            return
        if effect == "reorder":
            await asyncio.sleep(self._chance.uniform(0, REORDERED_S))
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            _reset(writer)
            return
        both = {writer, there_writer}
        self._open |= both
        if effect == "half_open":
            self._dead |= both
        try:
            await asyncio.gather(self._pour(reader, there_writer), self._pour(there_reader, writer))
        finally:
            self._open -= both
            self._dead -= both
            for one in both:
                one.transport.abort()

    async def _pour(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._hindered(writer, len(data))
                writer.write(data)
                await writer.drain()
        if writer in self._dead:  # nobody learns that the other side has ended
            await self._is_mended.wait()
        writer.close()

    async def _hindered(self, writer: asyncio.StreamWriter, size: int) -> None:
        if writer in self._dead:
            await self._is_mended.wait()
            raise ConnectionResetError
        if delay_s := self._disturbance.get("delay_s"):
            await asyncio.sleep(delay_s)
        if rate := self._disturbance.get("bytes_per_s"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_mended.wait(), size / rate)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a router does that knows it no more: with a reset, not with an orderly end."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def serve(arguments: list[str]) -> None:
    """Until the standard input ends."""
    routes = {}
    for argument in arguments:
        name, _, ports = argument.partition("=")
        listen, _, to = ports.partition(":")
        routes[name] = Route(name, int(to))
        await asyncio.start_server(routes[name].accept, "127.0.0.1", int(listen))
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        disturbance = json.loads(line)
        routes[disturbance["route"]].disturb(disturbance)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
