"""The gateway beside a direct connection, and beside the floor under it: what asyncio and OpenSSL take for the same.

The floor of time is a proxy that copies bytes; that of memory the two ends of TLS of one client. The client is made of
the engine, and sends one after the other: a client of an SDK takes longer itself, so that its ratios are smaller.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from azure.servicebus import ServiceBusMessage

from emulator.running import running
from gateway.guard.backlog import Outgoing, SharedConnection, SharedSender
from gateway.guard.rewriting import BATCH_FORMAT, batches
from gateway.namespace import Namespace
from pairing.ends import Endpoint
from tests.benchmarks.bench_emulator import Server
from tests.benchmarks.processes import resident_bytes, size
from tests.emulator.clients.conftest import serving
from tests.gateway.running import PAIRS, WITHOUT_KEY
from tests.pairing.test_messages_round_trip import encoded

ROUNDS, SINGLE, BATCHES, CLIENTS, IDLE_S = size(15, 2), size(200, 5), size(20, 2), size(1000, 10), size(30, 1)
MESSAGE = encoded(ServiceBusMessage(b"x" * 256, message_id="0af7651916cd43dd8448eb211c80319c"))
ONE = Outgoing((MESSAGE,), 0)
BATCH = Outgoing(tuple(batches(b"", [MESSAGE] * 100, 262_144)), BATCH_FORMAT)
IMPORTED = "import pairing.aio, redis.asyncio; print('ready contoso -', flush=True); input()"
WAYS = ("relayed", "guarded")
ROWS = [
    (
        "single send, added by the gateway",
        "at most 0.3 ms, CPU time 150 µs",
        "{single[guarded][added_ms]:.2f} ms, {single[guarded][cpu_us]:.0f} µs; "
        "only relayed {single[relayed][added_ms]:.2f} ms, {single[relayed][cpu_us]:.0f} µs; "
        "a bare proxy {single[proxy][added_ms]:.2f} ms, {single[proxy][cpu_us]:.0f} µs",
    ),
    (
        "batch of 100, beside a direct connection",
        "at most 1.10",
        "{batch[guarded][ratio]:.2f}; only relayed {batch[relayed][ratio]:.2f}; a bare proxy {batch[proxy][ratio]:.2f}",
    ),
    ("1,000 idle clients", "at most 2 % of a core", "{idle[plain][core_percent]:.2f} %"),
    (
        "memory of one of them; with TLS on both sides",
        "at most 15 KB; 40 KB",
        "{idle[plain][client_kb]:.1f} KB; {idle[tls][client_kb]:.1f} KB; two bare ends of TLS {bare_tls_kb:.1f} KB",
    ),
    ("memory without clients, above the library and Redis", "at most 15 MB", "{idle[plain][base_mb]:.1f} MB"),
]


@contextmanager
def process(*command: str, **variables: str) -> Iterator[Server]:
    """A process that says `ready NAME PLACE` on a line of its own."""
    environment = {**os.environ, **variables}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *command], env=environment, **pipes) as started:
        try:
            ready = next(line for line in started.stdout if line.startswith("ready "))
            yield Server(started, ready.split(maxsplit=2)[2].strip())
        finally:
            started.terminate()


def gateway(folder: Path, primary: str, secondary: str, *options: str, **variables: str) -> Any:
    """A gateway, which guards where there is a secondary."""
    end = 'connection_string_env = "SECONDARY"' if secondary else WITHOUT_KEY
    pairs = folder / f"pairs-{bool(secondary)}.toml"
    pairs.write_text(PAIRS.replace("SECONDARY_END", end), encoding="utf-8")
    options = options or ("--listen", "127.0.0.1:0")
    command = ("-m", "gateway.command", "--pair", "contoso", "--pairs-file", str(pairs), "--health", "127.0.0.1:0")
    return process(*command, *options, PRIMARY=primary, SECONDARY=secondary, **variables)


def place(connection_string: str, address: str | None = None) -> Namespace:
    return Namespace.of(Endpoint.from_connection_string("primary", connection_string, {}), address)


# --- time ------------------------------------------------------------------------------------------------------------


class Copied(asyncio.BufferedProtocol):
    """One side of a connection of the proxy, which copies what it reads to the other side."""

    read_buffer = bytearray(256 * 1024)

    def __init__(self, port: int, other: Copied | None = None) -> None:
        self._port, self._other = port, other

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._other is None:
            transport.pause_reading()
            other = self._other = Copied(self._port, self)
            loop = asyncio.get_running_loop()
            self._dialling = loop.create_task(loop.create_connection(lambda: other, "127.0.0.1", self._port))
        else:
            self._other.transport.resume_reading()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self._other is not None
        self._other.transport.write(bytes(memoryview(self.read_buffer)[:nbytes]))


async def proxy(port: int) -> None:
    listening = await asyncio.get_running_loop().create_server(lambda: Copied(port), "127.0.0.1", 0)
    print(f"ready proxy 127.0.0.1:{listening.sockets[0].getsockname()[1]}", flush=True)
    await listening.serve_forever()


async def rounds(senders: dict[str, SharedSender], servers: dict[str, Server], what: Outgoing, count: int) -> Any:
    """Medians of all rounds, in each of which all ways are taken in another order."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in senders}
    for number in range(ROUNDS + 1):
        for name in random.sample(sorted(senders), len(senders)):
            server = servers.get(name)
            cpu_s, began = server.cpu_s() if server else 0.0, time.perf_counter()
            for _ in range(count):
                assert await senders[name].send("orders", what, 10) is None
            took = (time.perf_counter() - began) / count, ((server.cpu_s() if server else 0.0) - cpu_s) / count
            if number:  # the first one opens the links
                found[name].append(took)
    direct = [took for took, _ in found.pop("direct")]
    return {
        name: {
            "ratio": median(took / beside for (took, _), beside in zip(each, direct, strict=True)),
            "added_ms": median(took - beside for (took, _), beside in zip(each, direct, strict=True)) * 1e3,
            "cpu_us": median(cpu for _, cpu in each) * 1e6,
        }
        for name, each in found.items()
    } | {"direct_ms": median(direct) * 1e3}


async def times(folder: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, secondary = (namespaces[name].connection_string for name in ("contoso", "contoso-dr"))
        direct = place(primary)
        servers = {
            "proxy": stack.enter_context(process("-m", "tests.benchmarks.bench_gateway", str(direct.port))),
            "relayed": stack.enter_context(gateway(folder, primary, "")),
            "guarded": stack.enter_context(gateway(folder, primary, secondary)),
        }
        places = {"direct": direct, "proxy": place(primary, servers["proxy"].connection_string)}
        places |= {name: place(servers[name].connection_string) for name in WAYS}
        senders = {name: SharedSender(each) for name, each in places.items()}
        return {
            "single": await rounds(senders, servers, ONE, SINGLE),
            "batch": await rounds(senders, servers, BATCH, BATCHES),
        }


# --- idle clients ----------------------------------------------------------------------------------------------------


async def idle(server: Server, through: Namespace) -> dict[str, float]:
    """What a gateway takes for clients that have connected and do nothing."""
    with process("-c", IMPORTED) as imported:
        base = server.resident_bytes() - imported.resident_bytes()
    before, buffer = server.resident_bytes(), bytearray(65536)
    clients = []
    for _ in range(CLIENTS // 10):
        some = [SharedConnection(through, buffer) for _ in range(10)]
        await asyncio.gather(*(asyncio.shield(client.ready) for client in some))
        clients += some
    took, cpu_s = server.resident_bytes() - before, server.cpu_s()
    await asyncio.sleep(IDLE_S)
    cpu_s = server.cpu_s() - cpu_s
    for client in clients:
        client.lose("it is over")
    return {"client_kb": took / 1024 / CLIENTS, "core_percent": cpu_s / IDLE_S * 100, "base_mb": base / 2**20}


async def idles(folder: Path) -> dict[str, Any]:
    with serving(folder) as served, running("contoso-dr") as namespaces:
        os.environ["SSL_CERT_FILE"] = str(served.authority)
        primary, secondary = served.namespace.connection_string, namespaces["contoso-dr"].connection_string
        with gateway(folder, primary, secondary) as plain:
            found = {"plain": await idle(plain, place(plain.connection_string))}
        named = served.over_tls
        options = ("--primary-address", f"localhost:{place(primary).port}", "--listen-tls", "127.0.0.1:0")
        files = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
        with gateway(folder, named, secondary, *options, *files) as encrypted:
            port = encrypted.connection_string.rpartition(":")[2]
            found["tls"] = await idle(encrypted, place(named, f"localhost:{port}"))
    return {"idle": found, "bare_tls_kb": bare_tls_kb(folder)}


def bare_tls_kb(folder: Path) -> float:
    """The memory of a server's end of TLS and a client's, once their handshake is over, without the gateway's code."""
    listens, dials = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=folder / "ca.pem")
    listens.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    before, ends = resident_bytes(), []
    for _ in range(CLIENTS):
        buffers = [ssl.MemoryBIO() for _ in range(2)]
        server = listens.wrap_bio(*buffers, server_side=True)
        client = dials.wrap_bio(*reversed(buffers), server_hostname="localhost")
        ends += [client, server]
        for end in (client, server, client, server, client):
            try:
                end.do_handshake()
                end.read()
            except ssl.SSLWantReadError:
                continue
    return (resident_bytes() - before) / 1024 / CLIENTS


def run() -> dict[str, Any]:
    """All figures."""
    with TemporaryDirectory() as folder:
        return asyncio.run(times(Path(folder))) | asyncio.run(idles(Path(folder)))


if __name__ == "__main__":
    asyncio.run(proxy(int(sys.argv[1])))
