"""Injects faults into local namespaces, with the emulator's own interface. Never used on a real namespace."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from dashboard.fleet.pairs.pairs_file import EndpointConfig, PairsFileError

EVERYTHING = "*"
EFFECTS = {
    "rejects": (("send", "reject"),),
    "silent": (("send", "silent"),),
    "resets": (("send", "reset"), ("connect", "reset")),
}
TIMEOUT_S = 2.0


class EmulatorError(Exception):
    """The local namespace did not do what was requested; the text contains its response."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One scripted fault. `path` is `*` if it applies to every entity."""

    id: str
    path: str
    operation: str
    effect: str


@dataclass(frozen=True, slots=True)
class LocalNamespace:
    """One emulated namespace, by the connection string that names its port."""

    name: str
    url: str

    @classmethod
    def of(cls, endpoint: EndpointConfig) -> "LocalNamespace":
        """The namespace of an endpoint. Raises EmulatorError if it is not a local one."""
        try:
            end = endpoint.endpoint("primary")
        except PairsFileError as error:
            raise EmulatorError(str(error)) from error
        if not end.emulator:
            raise EmulatorError(f"{endpoint.namespace} is not a local namespace.")
        return cls(endpoint.namespace, f"http://{end.host}")

    def faults(self) -> list[Fault]:
        """The present faults."""
        found = self._ask("GET", "/$emulator/faults")
        rows = found.get("faults", []) if isinstance(found, dict) else found
        return [Fault(str(row["id"]), row.get("entity") or EVERYTHING, row["operation"], row["effect"]) for row in rows]

    def break_down(self, path: str, how: str) -> None:
        """From now on, sends to the entity (`*`: to all) are rejected, time out, or reset the connection."""
        entity = None if path == EVERYTHING else path
        steps = EFFECTS[how] if entity is None else EFFECTS[how][:1]
        for operation, effect in steps:
            self._ask("POST", "/$emulator/faults", {"entity": entity, "operation": operation, "effect": effect})

    def mend(self, path: str) -> None:
        """End the faults of the entity; `*` ends all of them."""
        if path == EVERYTHING:
            self._ask("DELETE", "/$emulator/faults")
            return
        for fault in self.faults():
            if fault.path.lower() == path.lower():
                self._ask("DELETE", f"/$emulator/faults/{fault.id}")

    def stats(self) -> dict[str, dict[str, int]]:
        """The operations and messages of each entity, by path."""
        found: dict[str, dict[str, int]] = self._ask("GET", "/$emulator/stats")
        return found

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise EmulatorError(f"{self.name} answered {error.code}: {error.read()[:200].decode()}") from None
        except OSError as error:
            raise EmulatorError(f"{self.name} does not answer: {error}") from error
        return json.loads(text) if text else None
