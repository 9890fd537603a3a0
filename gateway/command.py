"""The command line: a gateway as its options and the environment say, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from amqp10.transport.origin import is_loopback
from gateway.access import KEY_NAME, read_keys
from gateway.pairs import PairError, read_pair, text_of
from gateway.server import Gateway
from pairing.telemetry import exporting

COMMAND = "paired-namespaces-gateway"
PREFIX = "GATEWAY_"
LOOPBACK = "127.0.0.1"
HEALTH = f"{LOOPBACK}:8081"
PLAIN = "UseDevelopmentEmulator=true;"
DESCRIPTION = """\
Accepts clients of Azure Service Bus in any language and passes them on to the primary namespace of a pair. One line is
printed for each listener once it accepts clients.
"""
EXAMPLES = f"""\
Each option is also read from the environment: --pairs-file from {PREFIX}PAIRS_FILE; or from the file that the variable
with _FILE names: --coordination from that of {PREFIX}COORDINATION_FILE. SIGTERM ends the process.
"""
_TRUE = ("1", "true", "yes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gateway; returns the exit code."""
    exporting.begin(COMMAND)
    try:
        given = parser(os.environ).parse_args(arguments)
        level = logging.INFO if given.verbose else logging.WARNING
        logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        asyncio.run(_serve(given, os.environ))
    except (PairError, OSError) as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 2
    finally:
        exporting.end()
    return 0


async def _serve(given: argparse.Namespace, variables: Mapping[str, str]) -> None:
    if not given.pair:
        raise PairError("No pair is named: give --pair NAME.")
    shared = {"coordination": given.coordination, "enable_syphon": given.enable_syphon}
    pair = read_pair(given.pairs_file, given.pair, variables, **shared)
    if not (given.listen or given.listen_tls or given.listen_websocket):
        given.listen = f"{LOOPBACK}:5672"
    tls, keys = _tls(given), _keys(given)
    gateway = Gateway(pair, keys, given.primary_address)
    if tls is not None:
        from cryptography.x509 import load_pem_x509_certificate  # 9 MB, which only TLS needs

        certificate = load_pem_x509_certificate(given.tls_cert.read_bytes())
        gateway.certificate_ends = certificate.not_valid_after_utc.timestamp()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        gateway.start()
        await _listen(gateway, given, tls, keys)
        await ended.wait()
    finally:
        await gateway.stop()


async def _listen(
    gateway: Gateway, given: argparse.Namespace, tls: ssl.SSLContext | None, keys: Mapping[str, str]
) -> None:
    """Open each listener that is asked for, then say so."""
    name, pair = next(iter(keys), ""), given.pair
    key = f"SharedAccessKeyFile={given.key_file}" if given.key_file else f"SharedAccessKey={keys.get(name)}"
    plain = f";SharedAccessKeyName={name};{key};{PLAIN}"  # a key is only shown if it was made here
    encrypted = partial(gateway.listen, tls=tls)
    lines = []
    for option, text, listen, before, after in (
        ("--health", given.health, gateway.listen_health, "health http://", ""),
        ("--listen", given.listen, partial(gateway.listen, tls=None), f"ready {pair} Endpoint=sb://", plain),
        ("--listen-tls", given.listen_tls, encrypted, f"ready {pair} amqps://", ""),
        ("--listen-websocket", given.listen_websocket, encrypted, f"ready {pair} wss://", "/$servicebus/websocket"),
    ):
        if text:
            host, port = _split(option, text)
            lines.append(f"{before}{_reachable(host)}:{await listen(host, port)}{after}")
    gateway.is_ready = True
    print(*lines, sep="\n", flush=True)


def _keys(given: argparse.Namespace) -> Mapping[str, str]:
    """The keys of clients: from the file, or one that is made for this process where plain clients need one."""
    if given.key_file:
        return read_keys(given.key_file)
    return {KEY_NAME: secrets.token_urlsafe(32)} if given.listen else {}


def _tls(given: argparse.Namespace) -> ssl.SSLContext | None:
    if given.listen and not given.insecure and not is_loopback(_split("--listen", given.listen)[0]):
        raise PairError(
            f"--listen {given.listen} would send keys and messages unencrypted beyond this machine: listen with "
            "--listen-tls, or say --insecure."
        )
    if not (given.listen_tls or given.listen_websocket):
        return None
    if not (given.tls_cert and given.tls_key):
        raise PairError("--listen-tls and --listen-websocket need --tls-cert and --tls-key.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(given.tls_cert, given.tls_key)
    except OSError as error:
        raise PairError(f"The certificate {given.tls_cert} and its key cannot be used: {error}.") from None
    return context


def _split(option: str, text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, [HOST]:PORT or PORT."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise PairError(f"{option} {text} is not understood: give an address and a port, as in {LOOPBACK}:5672.")
    return host.strip("[]") or LOOPBACK, int(port)


def _reachable(host: str) -> str:
    """The address by which a client of this machine reaches a listener."""
    host = LOOPBACK if host in ("0.0.0.0", "::") else host  # noqa: S104
    return f"[{host}]" if ":" in host else host


def parser(variables: Mapping[str, str]) -> argparse.ArgumentParser:
    """The options; their defaults are in these variables."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def variable(option: str) -> str:
        return text_of(PREFIX + option.removeprefix("--").replace("-", "_").upper(), variables)

    def add(option: str, metavar: str, *, help: str, default: str | None = None, type: type = str) -> None:
        parser.add_argument(option, metavar=metavar, help=help, default=variable(option) or default, type=type)

    def switch(option: str, *, help: str) -> None:
        parser.add_argument(option, action="store_true", help=help, default=variable(option).lower() in _TRUE)

    add("--pair", "NAME", help="the pair, as the pairs file names it")
    add("--pairs-file", "FILE", help="the pairs (default pairs.toml)", default="pairs.toml", type=Path)
    add("--listen", "HOST:PORT", help=f"accept clients without TLS (default {LOOPBACK}:5672 unless others are)")
    add("--listen-tls", "HOST:PORT", help="accept clients with TLS, as at 0.0.0.0:5671")
    add("--listen-websocket", "HOST:PORT", help="accept clients with TLS and WebSockets, as at 0.0.0.0:443")
    add("--tls-cert", "FILE", help="the certificate chain (PEM) for both", type=Path)
    add("--tls-key", "FILE", help="the certificate's private key (PEM)", type=Path)
    add("--primary-address", "HOST[:PORT]", help="where the primary is, if its name leads elsewhere")
    add("--key-file", "FILE", help="keys that clients sign with: NAME KEY on each line, or one key", type=Path)
    add("--coordination", "URL", help="the Redis through which the processes of the pair share health")
    add("--health", "HOST:PORT", help=f"/healthz, /readyz, /metrics (default {HEALTH})", default=HEALTH)
    switch("--enable-syphon", help="drain the backlog in this process")
    switch("--insecure", help="allow --listen beyond this machine")
    switch("--verbose", help="log connections to stderr")
    return parser


if __name__ == "__main__":
    sys.exit(main())
