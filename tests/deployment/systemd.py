"""Reads units of systemd, and says what systemd would run: the commands and the environment, below another root."""

import shlex
import socket
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.deployment.product import DEPLOY

FOLDER = DEPLOY / "systemd"
SECRETS = FOLDER / "paired-namespaces-.service.d" / "secrets.conf"
EXAMPLE = FOLDER / "paired-namespaces.env"
ETC, STATE = "/etc/paired-namespaces", "/var/lib/paired-namespaces"
Values = dict[str, list[str]]


def read(*files: Path) -> Values:
    """The values of each key of a unit and its drop-ins, in their order. Keys are unique across sections here."""
    found: Values = defaultdict(list)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", ";", "[")):
                key, equals, value = line.partition("=")
                assert equals, f"{file.name}: {line}"
                found[key].append(value)
    return found


def assignments(text: str) -> dict[str, str]:
    """The variables of an Environment= line or of an environment file."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", ";"))]
    words = [word for line in lines for word in shlex.split(line)]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


@dataclass(frozen=True, slots=True)
class Host:
    """A host below a folder: its /etc/paired-namespaces, its state folder, and the credentials of a unit."""

    root: Path
    program: tuple[str, ...]
    """What stands for the installed command."""

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def state(self) -> Path:
        return self.root / "state" / "paired-namespaces"

    def environment(self, unit: Values, instance: str = "") -> dict[str, str]:
        """The variables of a unit's processes: of its files last, so that they win, as in systemd."""
        found = {}
        for line in unit["Environment"]:
            found |= assignments(self._expanded(line, instance))
        for name in unit["EnvironmentFile"]:
            file = Path(self._placed(self._expanded(name.removeprefix("-"), instance)))
            if file.exists() or not name.startswith("-"):
                found |= assignments(self._placed(file.read_text(encoding="utf-8")))
        return found

    def commands(self, unit: Values, instance: str = "") -> list[list[str]]:
        """The command lines of ExecStart=, with this host's program in the place of the installed one."""
        environment = self.environment(unit, instance)
        return [self._command(line, environment, instance) for line in unit["ExecStart"]]

    def _command(self, line: str, environment: dict[str, str], instance: str) -> list[str]:
        _, *words = shlex.split(self._expanded(line, instance))
        parts = [shlex.split(environment[word[1:]]) if word.startswith("$") else [word] for word in words]
        return [*self.program, *(word for part in parts for word in part)]

    def _expanded(self, text: str, instance: str) -> str:
        """The text with the specifiers that our units use; an unknown one stays, and fails what reads it."""
        for specifier, value in {
            "%S": str(self.state.parent),
            "%d": str(self.etc / "secrets"),
            "%i": instance,
            "%H": socket.gethostname(),
        }.items():
            text = text.replace(specifier, value)
        return text

    def _placed(self, text: str) -> str:
        return text.replace(ETC, str(self.etc)).replace(STATE, str(self.state))
