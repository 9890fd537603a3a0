"""The channels of an installation, from CHANNELS_FILE (TOML), which names variables with credentials.

```toml
[channels.on-call]
kind = "webhook"
url_env = "ONCALL_URL"
secrets_env = "ONCALL_SECRETS"
```
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from dashboard.alerts.sending.channels import INTEGRATIONS
from dashboard.alerts.sending.channels.base import Integration, Target
from dashboard.site.environment import Environment

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ChannelsFileError(ImproperlyConfigured):
    """CHANNELS_FILE is invalid; the text names the file, the key and the expected value."""


class NotReady(Exception):
    """The channel cannot be used now; the text names what is missing, without secrets."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A notification channel. Its secrets are read when a message is sent."""

    name: str
    integration: Integration
    variables: Mapping[str, str] = field(default_factory=dict)
    """The names of environment variables by content: `url`, `secrets`."""
    to: tuple[str, ...] = ()
    sender: str = ""

    @property
    def kind(self) -> str:
        return self.integration.kind

    def target(self, environment: Mapping[str, str] | None = None) -> Target:
        """URL and secrets, read from the environment. Raises NotReady."""
        known = {name: self._value(variable, environment) for name, variable in self.variables.items()}
        target = Target(
            url=known.get("url", ""), secrets=tuple(known.get("secrets", "").split()), to=self.to, sender=self.sender
        )
        if problem := self.integration.problem(target):
            raise NotReady(f"Channel {self.name}: {problem}")
        return target

    def problem(self, environment: Mapping[str, str] | None = None) -> str:
        """Why it cannot be used; empty if it can."""
        try:
            self.target(environment)
        except NotReady as error:
            return str(error)
        return ""

    def _value(self, variable: str, environment: Mapping[str, str] | None) -> str:
        try:
            value = Environment(environment).text(variable, "")
        except ImproperlyConfigured as error:
            raise NotReady(f"Channel {self.name}: {error}") from None
        if not value:
            raise NotReady(f"Channel {self.name}: set {variable}.")
        return value


def load_channels(file: Path | None = None) -> dict[str, Channel]:
    """The channels of CHANNELS_FILE by name, in file order; empty without channels.toml. Raises ChannelsFileError."""
    file = settings.CHANNELS_FILE if file is None else file
    if not file.exists() and file == settings.BASE_DIR / "channels.toml":
        return {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ChannelsFileError(f"{file}: it cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChannelsFileError(f"{file}: it is not TOML: {error}.") from None
    tables = document.get("channels")
    if not isinstance(tables, dict):
        raise ChannelsFileError(f"{file}: it has no channel; write one table [channels.NAME] for each.")
    return {name: _channel(file, name, table) for name, table in tables.items()}


def _channel(file: Path, name: str, table: Any) -> Channel:
    def error(sentence: str) -> ChannelsFileError:
        return ChannelsFileError(f"{file}: [channels.{name}]: {sentence}")

    if not NAME.fullmatch(name):
        raise error("a name consists of at most 63 lower-case letters, digits, - and _.")
    if not isinstance(table, dict) or str(table.get("kind")) not in INTEGRATIONS:
        raise error(f"write kind as one of {', '.join(INTEGRATIONS)}.")
    integration = INTEGRATIONS[table["kind"]]
    unknown = next((key for key in table if key not in ("kind", *integration.keys)), None)
    if unknown:
        raise error(f"{unknown} is not known for {integration.kind}; the keys are {', '.join(integration.keys)}.")
    missing = next((key for key in integration.required if key not in table), None)
    if missing:
        raise error(f"{missing} is missing.")
    variables = {key.removesuffix("_env"): value for key, value in table.items() if key.endswith("_env")}
    wrong = next((key for key, value in variables.items() if not _is_variable(value)), None)
    if wrong:
        raise error(f"{wrong}_env is the name of a variable, not the value itself.")
    return Channel(
        name, integration, variables, to=_addresses(table.get("to"), error), sender=str(table.get("from", ""))
    )


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and VARIABLE.fullmatch(value) is not None


def _addresses(value: Any, error: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and "@" in one for one in value):
        raise error('to is a list of addresses, such as ["on-call@example.com"].')
    return tuple(value)
