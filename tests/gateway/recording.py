"""A point on the way of connections that records their frames, decrypted."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Recorded:
    """One connection: the bytes of the client, and those of the server."""

    said: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    def frames(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """The protocol headers and frames of both, without heartbeats."""
        return tuple(split(bytes(self.said))), tuple(split(bytes(self.answered)))


def split(data: bytes) -> Iterator[bytes]:
    """The protocol headers and frames of a stream, without heartbeats."""
    position = 0
    while position < len(data):
        size = 8 if data[position : position + 4] == b"AMQP" else int.from_bytes(data[position : position + 4])
        whole = data[position : position + size]
        if size > 8 or whole[:4] == b"AMQP":
            yield whole
        position += size


class Recorder:
    """Listens, and passes each connection on. With TLS both ways are encrypted."""

    def __init__(self, listens: ssl.SSLContext | None, dials: ssl.SSLContext | None) -> None:
        self.connections: list[Recorded] = []
        self.port, self.to = 0, 0
        self._listens, self._dials = listens, dials
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, started: threading.Event, ended: asyncio.Event) -> None:
        """Pass on until the event."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0, ssl=self._listens)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended.wait()
        server.close()
        for task in self._tasks:
            task.cancel()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recorded = Recorded()
        self.connections.append(recorded)
        self._tasks.add(asyncio.current_task())
        name = "localhost" if self._dials else None
        dialled = asyncio.open_connection("127.0.0.1", self.to, ssl=self._dials, server_hostname=name)
        far_reader, far_writer = await dialled
        await asyncio.gather(_copy(reader, far_writer, recorded.said), _copy(far_reader, writer, recorded.answered))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            record += data
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def recorder(listens: ssl.SSLContext | None = None, dials: ssl.SSLContext | None = None) -> Iterator[Recorder]:
    """A recorder in a thread; its `to` is the port that it passes connections on to."""
    record, started = Recorder(listens, dials), threading.Event()
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(record.serve(started, ended),))
    thread.start()
    try:
        assert started.wait(10)
        yield record
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
