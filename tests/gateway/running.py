"""Gateways in processes of their own, in front of local namespaces."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import forked

PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "PRIMARY", namespace = "contoso" }
secondary = { SECONDARY_END, namespace = "contoso-dr" }
failover_interval_s = 0
ping_primary_interval_s = 1
backlog_queue_count = 2
"""
WITHOUT_KEY = 'fully_qualified_namespace = "contoso-dr.servicebus.windows.net"'


@dataclass(frozen=True)
class RunningGateway:
    """A gateway that accepts clients: what it printed, and its process."""

    process: forked.Process
    health: str
    places: tuple[str, ...]
    """How clients reach each listener, in the order of the command's options."""

    @property
    def connection_string(self) -> str:
        """That of the plain listener."""
        return self.places[0]


@contextmanager
def gateway(
    folder: Path, primary: str, *options: str, secondary: str | None = None, listeners: int = 1, **variables: str
) -> Iterator[RunningGateway]:
    """A gateway before the namespace of this connection string, until the block ends. It guards with a secondary."""
    end = WITHOUT_KEY if secondary is None else 'connection_string_env = "SECONDARY"'
    (folder / "pairs.toml").write_text(PAIRS.replace("SECONDARY_END", end))
    command = ["-m", "gateway.command", "--pair", "contoso", "--pairs-file", str(folder / "pairs.toml")]
    if "--listen-tls" not in options:
        command += ["--listen", "127.0.0.1:0"]
    environment = os.environ | {"PRIMARY": primary, "SECONDARY": secondary or ""} | variables
    reading, writing = os.pipe()
    process = forked.start([*command, "--health", "127.0.0.1:0", *options], environment, writing, 2)
    os.close(writing)
    with open(reading) as printed:
        try:
            lines = [printed.readline().split() for _ in range(listeners + 1)]
            yield RunningGateway(process, lines[0][1], tuple(line[2] for line in lines[1:]))
        finally:
            process.terminate()
            process.wait(10)
