"""Namespaces in a process of their own, for tests: start, inject faults, inspect, stop. Standard library only."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

SERVER_BUSY = "com.microsoft:server-busy"
RESETTABLE = ("attach", "send", "receive", "settle", "cbs", "manage", "admin")
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0


class EmulatorError(Exception):
    """The emulator did not start, or refused a fault; the text says why."""


@dataclass(frozen=True, slots=True)
class RunningNamespace:
    """One namespace that accepts connections. `url` is the address of its administration and its faults."""

    name: str
    connection_string: str = field(repr=False)

    @property
    def url(self) -> str:
        """`http://host:port`."""
        endpoint = self.connection_string.removeprefix("Endpoint=sb://").partition(";")[0]
        return f"http://{endpoint}"

    def fault(self, operation: str, effect: str, **more: Any) -> str:
        """Activate a fault; returns its id. Fields as in docs/emulator.md. Raises EmulatorError."""
        body = {"operation": operation, "effect": effect, **more}
        return str(self._call("POST", "faults", body)["id"])

    def faults(self) -> list[dict[str, Any]]:
        """All active faults."""
        return list(self._call("GET", "faults"))

    def mend(self, fault_id: str | None = None) -> None:
        """Remove one fault, or all of them."""
        self._call("DELETE", f"faults/{fault_id}" if fault_id else "faults")

    def stats(self) -> dict[str, dict[str, Any]]:
        """Counters by entity path."""
        return dict(self._call("GET", "stats"))

    # --- faults for the duration of a `with` block ------------------------------------------------------------------

    @contextmanager
    def faulty(self, operation: str, effect: str, **more: Any) -> Iterator[str]:
        """A fault until the block ends; gives its id. Fields as in docs/emulator.md. Raises EmulatorError."""
        fault_id = self.fault(operation, effect, **more)
        try:
            yield fault_id
        finally:
            if any(fault["id"] == fault_id for fault in self.faults()):
                self.mend(fault_id)

    def silent(self, entity: str | None = None, operation: str = "send") -> AbstractContextManager[str]:
        """Sends (or another operation) to an entity, or to all, are not answered and have no effect."""
        return self.faulty(operation, "silent", entity=entity)

    def rejecting(
        self, entity: str | None = None, condition: str = "amqp:internal-error"
    ) -> AbstractContextManager[str]:
        """Sends to an entity, or to all, are rejected with this condition."""
        return self.faulty("send", "reject", entity=entity, condition=condition)

    def busy(self, entity: str | None = None) -> AbstractContextManager[str]:
        """Sends to an entity, or to all, are rejected as the service rejects them when it throttles."""
        return self.rejecting(entity, SERVER_BUSY)

    def slow(
        self, entity: str | None = None, delay_s: float = 1.0, operation: str = "send"
    ) -> AbstractContextManager[str]:
        """Sends (or another operation) are answered after a delay."""
        return self.faulty(operation, "delay", entity=entity, delay_s=delay_s)

    def losing_acknowledgements(self, entity: str | None = None) -> AbstractContextManager[str]:
        """Sends to an entity, or to all, are stored and never acknowledged."""
        return self.faulty("send", "lose_ack", entity=entity)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """New connections are reset, and open ones as soon as they are used."""
        with ExitStack() as faults:
            faults.enter_context(self.faulty("connect", "refuse"))
            for operation in RESETTABLE:
                faults.enter_context(self.faulty(operation, "reset"))
            yield

    def replace_keys(self, keys: Mapping[str, str]) -> None:
        """From now on only these keys, by the names of their policies, are valid. Raises EmulatorError.

        Open links keep their rights until their tokens expire; `connection_string` is not changed.
        """
        self._call("PUT", "keys", dict(keys))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}/$emulator/{path}", data, method=method)
        key = self.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
        request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise EmulatorError(json.loads(error.read()).get("error", str(error))) from None


@contextmanager
def running(
    *names: str, entities: Sequence[str] = (), arguments: Sequence[str] = ()
) -> Iterator[dict[str, RunningNamespace]]:
    """Namespaces of these names, each on a free port (or `name:port`), until the block ends.

    `entities` as `--entity` takes them; `arguments` are further ones of `python -m emulator`. Raises EmulatorError.
    """
    command = [sys.executable, "-m", "emulator", *arguments]
    for name in names:
        command += ["--namespace", name if ":" in name else f"{name}:0"]
    for entity in entities:
        command += ["--entity", entity]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _read_ready(process, names)
        finally:
            _stop(process)


def _read_ready(process: subprocess.Popen[str], names: Sequence[str]) -> dict[str, RunningNamespace]:
    # The watchdog ends a process that hangs while starting, which also ends reading its output.
    watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    ready: dict[str, RunningNamespace] = {}
    try:
        assert process.stdout is not None
        while len(ready) < len(names):
            word, _, rest = process.stdout.readline().strip().partition(" ")
            if word != "ready":
                raise EmulatorError(f"The emulator did not start (exit code {process.wait()}); see its errors.")
            name, _, connection_string = rest.partition(" ")
            ready[name] = RunningNamespace(name, connection_string)
    finally:
        watchdog.cancel()
    return ready


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
