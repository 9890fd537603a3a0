"""The command line: runs namespaces as its arguments say."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.broker.descriptions import (
    DescriptionError,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
    validate_queue,
    validate_topic,
)
from emulator.broker.errors import BrokerError
from emulator.broker.namespace import Namespace
from emulator.fault_schedule import ScheduleError, Step, read_schedule
from emulator.host import KEY_NAME
from emulator.server import NamespaceServer, is_loopback
from emulator.store import Store, StoreError
from emulator.throttle import Throttle

log = logging.getLogger("emulator")

TOPIC = "topic:"
DEFAULT_KEY = "local-namespace-key"
LOOPBACK = "127.0.0.1"

DESCRIPTION = """\
Runs Service Bus namespaces on this machine, for the unmodified azure-servicebus SDK: messaging, administration, and
faults that are switched on and off over HTTP. For each namespace one line is printed when it accepts connections:

  ready contoso Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=...;SharedAccessKey=...;UseDevelopmentEmulator=true;
"""

EXAMPLES = """\
examples:
  python -m emulator --namespace contoso:5672 --entity contoso/orders
  python -m emulator --namespace contoso:0 --namespace contoso-dr:0 --entity contoso/topic:shipments/audit
  curl -X POST 'http://127.0.0.1:5672/$emulator/faults' -d '{"operation": "send", "effect": "reject"}'
  curl 'http://127.0.0.1:5672/$emulator/stats'

Messages are kept in memory unless --store names a directory. Ctrl-C or SIGTERM ends the process.
"""


class UsageError(Exception):
    """Invalid arguments; the text is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Listening:
    """One namespace to run."""

    name: str
    port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed command line."""

    namespaces: tuple[Listening, ...]
    address: str
    key: str = field(repr=False)
    entities: tuple[tuple[str, str], ...] = ()
    tls: ssl.SSLContext | None = None
    store: Path | None = None
    schedule: tuple[Step, ...] = ()
    credits: int | None = None
    refuses_tokens: bool = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the namespaces; returns the exit code."""
    given = _parser().parse_args(arguments)
    level = logging.INFO if given.verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = _settings(given)
        asyncio.run(_serve(settings))
    except (UsageError, StoreError) as error:
        print(f"emulator: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_namespaces(parser)
    _add_access(parser)
    _add_behaviour(parser)
    return parser


def _add_namespaces(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to run").add_argument
    add(
        "--namespace",
        action="append",
        required=True,
        metavar="NAME:PORT",
        help="run this namespace; port 0 takes a free one; may be given several times",
    )
    add(
        "--entity",
        action="append",
        default=[],
        metavar="NAMESPACE/PATH",
        help="create this queue unless it exists, or a topic and subscription: NAMESPACE/topic:PATH/SUBSCRIPTION",
    )
    add("--store", type=Path, metavar="DIR", help="keep entities and messages in this directory across restarts")


def _add_access(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("who may reach it").add_argument
    add("--host", default=LOOPBACK, metavar="ADDRESS", help=f"the address to listen on (default {LOOPBACK})")
    add("--key", metavar="KEY", help="the shared access key of all namespaces (default on the loopback: a fixed one)")
    add(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="read the key from a file; arguments are visible to other users",
    )
    add("--tls-cert", type=Path, metavar="FILE", help="offer TLS on the same port, with this certificate chain (PEM)")
    add("--tls-key", type=Path, metavar="FILE", help="the certificate's private key (PEM)")


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how it behaves").add_argument
    add(
        "--fault-schedule",
        type=Path,
        metavar="FILE",
        help='begin faults at fixed times: JSON, [{"at_s": 10, "namespace": "contoso", "fault": {...}}, ...]',
    )
    add(
        "--throttle",
        type=int,
        metavar="CREDITS",
        help="refuse operations as server busy beyond this number per second and namespace (the service: 1000)",
    )
    add(
        "--unknown-entity",
        choices=("token", "link"),
        default="token",
        help="where an entity that does not exist is refused: with the token, as the service does, or with the link",
    )
    add("--verbose", action="store_true", help="log connections and faults to stderr")


def _settings(arguments: argparse.Namespace) -> Settings:
    namespaces = tuple(_listening(text) for text in arguments.namespace)
    names = [listening.name for listening in namespaces]
    if len(set(names)) < len(names):
        raise UsageError("Each --namespace needs a name of its own.")
    return Settings(
        namespaces,
        arguments.host,
        _key(arguments),
        tuple(_entity(text, names) for text in arguments.entity),
        _tls(arguments),
        arguments.store,
        _schedule(arguments.fault_schedule, names),
        _credits(arguments.throttle),
        arguments.unknown_entity == "token",
    )


def _schedule(path: Path | None, names: Sequence[str]) -> tuple[Step, ...]:
    try:
        return read_schedule(path, names) if path is not None else ()
    except ScheduleError as error:
        raise UsageError(str(error)) from None


def _credits(number: int | None) -> int | None:
    if number is not None and number < 1:
        raise UsageError("--throttle needs a number of credits above zero.")
    return number


def _listening(text: str) -> Listening:
    name, _, port = text.rpartition(":")
    if not name or not port.isdigit() or int(port) > 65535 or not name.replace("-", "").isalnum():
        raise UsageError(f"--namespace {text} is not understood: give a name and a port, as in contoso:5672.")
    return Listening(name, int(port))


def _entity(text: str, names: Sequence[str]) -> tuple[str, str]:
    namespace, _, path = text.partition("/")
    if namespace not in names or not path:
        raise UsageError(
            f"--entity {text} is not understood: give one of the namespaces and a path, as in {names[0]}/orders."
        )
    return namespace, path


def _key(arguments: argparse.Namespace) -> str:
    if arguments.key and arguments.key_file:
        raise UsageError("Give --key or --key-file, not both.")
    if arguments.key_file:
        try:
            key = arguments.key_file.read_text().strip()
        except OSError as error:
            raise UsageError(f"The key file {arguments.key_file} cannot be read: {error.strerror}.") from None
    else:
        key = arguments.key or ""
    if not key and not is_loopback(arguments.host):
        raise UsageError("On an address beyond the loopback the namespaces need a key of your own: give --key-file.")
    if ";" in key:
        raise UsageError("A key cannot contain a semicolon, the separator of connection strings.")
    return key or DEFAULT_KEY


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    if arguments.tls_cert is None:
        if arguments.tls_key is not None:
            raise UsageError("--tls-key needs --tls-cert.")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"The certificate {arguments.tls_cert} cannot be used: {error.strerror or error}.") from None
    return context


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
    for _, path in (entity for entity in settings.entities if entity[0] == name):
        _create(namespace, path)
    namespace.journal.commit()
    server = NamespaceServer(namespace, settings.key)
    server.host.throttle = Throttle(settings.credits) if settings.credits is not None else None
    server.host.refuses_unknown_tokens = settings.refuses_tokens
    return server


def _stored_namespace(name: str, directory: Path, stores: ExitStack) -> Namespace:
    """The restored namespace; its store is closed with the others."""
    store = Store(directory / f"{name}.sqlite3")
    stores.callback(store.close)
    namespace = Namespace(name, store)
    store.restore(namespace, time.time())
    return namespace


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
    try:
        return await server.start(settings.address, listening.port, settings.tls)
    except OSError as error:
        raise UsageError(
            f"{listening.name} cannot listen on {settings.address}:{listening.port}: {error.strerror}; "
            "choose another port, or 0 for a free one."
        ) from None


def _create(namespace: Namespace, path: str) -> None:
    """Create the queue, or topic and subscription, of an --entity, unless it exists."""
    try:
        if path.startswith(TOPIC):
            _create_topic(namespace, path.removeprefix(TOPIC))
        elif not namespace.exists(path):
            validate_queue(QueueDescription(path))
            namespace.create_queue(path, QueueDescription(path), time.time())
    except (DescriptionError, BrokerError) as error:
        raise UsageError(f"--entity {namespace.name}/{path}: {error}") from None


def _create_topic(namespace: Namespace, path: str) -> None:
    topic, separator, subscription = path.rpartition("/")
    if not separator:
        topic, subscription = path, ""
    now = time.time()
    if not namespace.exists(topic):
        validate_topic(TopicDescription(topic))
        namespace.create_topic(topic, TopicDescription(topic), now)
    if subscription and not namespace.topic(topic).has_subscription(subscription):
        namespace.create_subscription(topic, SubscriptionDescription(topic, subscription), now)


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
