"""The command line: runs namespaces as its arguments say."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from emulator.broker.descriptions import DescriptionError
from emulator.broker.errors import BrokerError
from emulator.broker.namespace import Namespace
from emulator.command_line import entities
from emulator.command_line.arguments import LOOPBACK, Listening, Settings, UsageError, parse
from emulator.command_line.fault_schedule import Step
from emulator.host import KEY_NAME
from emulator.server import NamespaceServer
from emulator.store import Store, StoreError
from emulator.throttle import Throttle

log = logging.getLogger("emulator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the namespaces; returns the exit code."""
    try:
        settings = parse(arguments)
        level = logging.INFO if settings.verbose else logging.WARNING
        logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        asyncio.run(_serve(settings))
    except (UsageError, StoreError) as error:
        print(f"emulator: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


async def _serve(settings: Settings) -> None:
    with ExitStack() as stores:
        await _serve_until_signalled(settings, stores)


async def _serve_until_signalled(settings: Settings, stores: ExitStack) -> None:
    servers = [_server(listening.name, settings, stores) for listening in settings.namespaces]
    try:
        for listening, server in zip(settings.namespaces, servers, strict=True):
            port = await _start(server, listening, settings)
            _announce(listening.name, settings, port)
        for step in settings.schedule:
            _schedule_step(step, servers)
        await _until_signalled()
    finally:
        for server in servers:
            await server.stop()


def _server(name: str, settings: Settings, stores: ExitStack) -> NamespaceServer:
    namespace = _stored_namespace(name, settings.store, stores) if settings.store else Namespace(name)
    _create_entities(namespace, settings)
    namespace.journal.commit()
    server = NamespaceServer(namespace, settings.key)
    server.host.throttle = Throttle(settings.credits) if settings.credits is not None else None
    server.host.refuses_unknown_tokens = settings.refuses_tokens
    return server


def _create_entities(namespace: Namespace, settings: Settings) -> None:
    now, what = time.time(), "--config"
    try:
        if namespace.name in settings.configs:
            entities.create_configured(namespace, settings.configs[namespace.name], now)
        for name, path in settings.entities:
            what = f"--entity {name}/{path}"
            if name == namespace.name:
                entities.create(namespace, path, now)
    except (DescriptionError, BrokerError) as error:
        raise UsageError(f"{what}: {error}") from None


def _stored_namespace(name: str, directory: Path, stores: ExitStack) -> Namespace:
    """The restored namespace; its store is closed with the others."""
    store = Store(directory / f"{name}.sqlite3")
    stores.callback(store.close)
    namespace = Namespace(name, store)
    with _without_collections():
        store.restore(namespace, time.time())
    return namespace


@contextmanager
def _without_collections() -> Iterator[None]:
    """What is made in this block is never searched for cycles: a third of a restart, and messages have none."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _schedule_step(step: Step, servers: Sequence[NamespaceServer]) -> None:
    """Schedule a step of the fault schedule."""
    loop = asyncio.get_running_loop()
    for server in servers:
        if step.namespace in (None, server.host.namespace.name):
            loop.call_later(step.at_s, _perform, step, server)


def _perform(step: Step, server: NamespaceServer) -> None:
    fault = step.new_fault(server.host.clock())
    log.info("%s: %s", server.host.namespace.name, "faults removed" if fault is None else fault.as_json())
    if fault is None:
        server.host.faults.clear()
    else:
        server.host.add_fault(fault)


async def _start(server: NamespaceServer, listening: Listening, settings: Settings) -> int:
    port, advice = listening.port, "choose another port, or 0 for a free one."
    try:
        opened = await server.start(settings.address, port, settings.tls)
        if listening.administration_port is not None:
            port, advice = listening.administration_port, "choose another --admin-port, or 0 for none."
            await server.listen(settings.address, port)
        return opened
    except OSError as error:
        raise UsageError(
            f"{listening.name} cannot listen on {settings.address}:{port}: {error.strerror}; {advice}"
        ) from None


def _announce(name: str, settings: Settings, port: int) -> None:
    host = LOOPBACK if settings.address in ("0.0.0.0", "::") else settings.address
    host = f"[{host}]" if ":" in host else host
    print(
        f"ready {name} Endpoint=sb://{host}:{port};SharedAccessKeyName={KEY_NAME};"
        f"SharedAccessKey={settings.key};UseDevelopmentEmulator=true;",
        flush=True,
    )


async def _until_signalled() -> None:
    """Wait for SIGINT or SIGTERM. Raises StoreError if a store fails, as nothing can be acknowledged without it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end, ended)
    loop.set_exception_handler(lambda loop, context: _failed(loop, context, ended))
    await ended


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any], ended: asyncio.Future[None]) -> None:
    error = context.get("exception")
    if not isinstance(error, StoreError):
        loop.default_exception_handler(context)
    elif not ended.done():
        ended.set_exception(error)
