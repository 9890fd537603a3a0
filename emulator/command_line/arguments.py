"""The command line: its options, and what they ask for."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from amqp10.transport.origin import is_loopback
from emulator.command_line.config_file import ConfigError, NamespaceConfig, read_config
from emulator.command_line.fault_schedule import ScheduleError, Step, read_schedule

COMMAND = "servicebus-emulator"
DEFAULT_KEY = "local-namespace-key"
CONFIG_KEY = "SAS_KEY_VALUE"
"""The key in the connection strings of Microsoft's emulator, which is the default with its configuration file."""
CONFIG_PORT, CONFIG_ADMINISTRATION_PORT = 5672, 5300
LOOPBACK = "127.0.0.1"

DESCRIPTION = """\
Runs Service Bus namespaces on this machine, for the unmodified azure-servicebus SDK: messaging, administration, and
faults that are switched on and off over HTTP. For each namespace one line is printed when it accepts connections:

  ready contoso Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=...;SharedAccessKey=...;UseDevelopmentEmulator=true;
"""

EXAMPLES = """\
examples:
  {program} --namespace contoso:5672 --entity contoso/orders
  {program} --namespace contoso:0 --namespace contoso-dr:0 --entity contoso/topic:shipments/audit
  {program} --config Config.json
  curl -X POST 'http://127.0.0.1:5672/$emulator/faults' -d '{{"operation": "send", "effect": "reject"}}'
  curl 'http://127.0.0.1:5672/$emulator/stats'

Messages are kept in memory unless --store names a directory. Ctrl-C or SIGTERM ends the process.
"""


class UsageError(Exception):
    """Invalid arguments; the text is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Listening:
    """One namespace to run. `administration_port`: a further port for administration and health; None for none."""

    name: str
    port: int
    administration_port: int | None = None


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
    configs: Mapping[str, NamespaceConfig] = field(default_factory=dict)
    verbose: bool = False


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """The settings that arguments (those of the process if None) ask for. Raises UsageError."""
    return _settings(_parser().parse_args(arguments))


def _settings(arguments: argparse.Namespace) -> Settings:
    configs = _configs(arguments.config)
    given = tuple(_listening(text) for text in arguments.namespace)
    namespaces = _with_administration((*given, *_unnamed(configs, given)), arguments)
    names = [listening.name for listening in namespaces]
    if not names:
        raise UsageError("Nothing to run: give --namespace NAME:PORT or --config FILE.")
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
        configs,
        arguments.verbose,
    )


def _configs(path: Path | None) -> dict[str, NamespaceConfig]:
    try:
        found = read_config(path) if path is not None else ()
    except ConfigError as error:
        raise UsageError(str(error)) from None
    for config in found:
        if not _is_name(config.name):
            raise UsageError(f"The namespace {config.name} of {path} needs a name of letters, digits and hyphens.")
    if len({config.name for config in found}) < len(found):
        raise UsageError(f"Each namespace of {path} needs a name of its own.")
    return {config.name: config for config in found}


def _unnamed(configs: Iterable[str], given: Sequence[Listening]) -> tuple[Listening, ...]:
    """The namespace of the configuration to which no `--namespace` gives a port, on that of Microsoft's emulator."""
    rest = [name for name in configs if name not in {listening.name for listening in given}]
    if len(rest) > 1:
        raise UsageError(f"The configuration has several namespaces: give all but one a port: --namespace {rest[1]}:0.")
    return tuple(Listening(name, CONFIG_PORT, CONFIG_ADMINISTRATION_PORT) for name in rest)


def _with_administration(namespaces: tuple[Listening, ...], arguments: argparse.Namespace) -> tuple[Listening, ...]:
    """The namespaces, of which the one of the configuration, or else the first, has the `--admin-port`."""
    port = arguments.admin_port
    if port is None or not namespaces:
        return namespaces
    if not 0 <= port <= 65535:
        raise UsageError("--admin-port needs a number up to 65535, or 0 for no further port.")
    chosen = next((one for one in namespaces if one.administration_port), namespaces[0])
    changed = replace(chosen, administration_port=port or None)
    return tuple(changed if one is chosen else one for one in namespaces)


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
    if not _is_name(name) or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--namespace {text} is not understood: give a name and a port, as in contoso:5672.")
    return Listening(name, int(port))


def _is_name(name: str) -> bool:
    return name.replace("-", "").isalnum()


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
    return key or (CONFIG_KEY if arguments.config else DEFAULT_KEY)


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


def _parser() -> argparse.ArgumentParser:
    program = COMMAND if Path(sys.argv[0]).name == COMMAND else "python -m emulator"
    parser = argparse.ArgumentParser(
        prog=program,
        description=DESCRIPTION,
        epilog=EXAMPLES.format(program=program),
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
        default=[],
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
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="run and fill the namespaces of this Config.json of Microsoft's emulator, with its ports and its key: "
        f"{CONFIG_PORT}, and {CONFIG_ADMINISTRATION_PORT} for administration and health",
    )
    add("--store", type=Path, metavar="DIR", help="keep entities and messages in this directory across restarts")


def _add_access(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("who may reach it").add_argument
    add("--host", default=LOOPBACK, metavar="ADDRESS", help=f"the address to listen on (default {LOOPBACK})")
    add(
        "--admin-port",
        type=int,
        metavar="PORT",
        help="a further port of the (first) namespace, for administration and health; 0 for none. With --config: "
        f"{CONFIG_ADMINISTRATION_PORT}",
    )
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
