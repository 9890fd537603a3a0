"""The channels of an installation, from CHANNELS_FILE (TOML), which names variables with credentials; their states."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, Field, model_validator

from dashboard.alerts.sending.channels import INTEGRATIONS
from dashboard.alerts.sending.channels.base import Integration, Mail, Target
from dashboard.alerts.sending.message import Message
from dashboard.fleet.pairs.pairs_file import Table, Variable
from dashboard.models import ChannelState
from dashboard.site.environment import Environment, read_toml

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
Address = Annotated[str, Field(pattern="@")]


EXAMPLE = Message(
    id="example", condition="contoso/orders", phase="opened", kind="failover", severity="critical", pair="contoso",
    entity="orders", title="orders failed over", detail="the primary does not answer",
    began_at="2026-11-02T03:00:00+00:00", at="2026-11-02T03:00:05+00:00",
)  # fmt: skip


class Channel(Table):
    """A notification channel. Its secrets are read when a message is sent."""

    name: str = ""
    """The key of its table."""
    kind: str
    url_env: Variable = ""
    secrets_env: Variable = ""
    to: tuple[Address, ...] = ()
    sender: str = Field("", alias="from")

    @model_validator(mode="after")
    def _require_its_keys(self) -> Channel:
        if self.kind not in INTEGRATIONS:
            raise ValueError(f"write kind as one of {', '.join(INTEGRATIONS)}")
        given = self.model_dump(by_alias=True, exclude_unset=True).keys() - {"kind"}
        if given - set(self.integration.keys):
            raise ValueError(f"the keys of {self.kind} are {', '.join(self.integration.keys)}")
        if missing := set(self.integration.required) - given:
            raise ValueError(f"{missing.pop()} is missing")
        return self

    @property
    def integration(self) -> Integration:
        return INTEGRATIONS[self.kind]

    @property
    def variables(self) -> list[str]:
        """The names of the environment variables that it reads."""
        return sorted(filter(None, (self.url_env, self.secrets_env)))

    def target(self) -> Target:
        """URL and secrets, read from the environment. Raises ImproperlyConfigured, without secrets."""
        url, secrets = self._value(self.url_env), self._value(self.secrets_env)
        target = Target(url=url, secrets=tuple(secrets.split()), to=self.to, sender=self.sender)
        if problem := self.integration.problem(target):
            raise ImproperlyConfigured(f"Channel {self.name}: {problem}")
        return target

    def preview(self) -> str:
        """An example of what it sends, without URL and secrets."""
        target, at = Target(to=self.to, sender=self.sender), datetime.fromisoformat(EXAMPLE.at)
        built = self.integration.build(target, EXAMPLE, at)
        if isinstance(built, Mail):
            return f"{built.subject}\n\n{built.text}"
        return json.dumps(json.loads(built.body), indent=2, ensure_ascii=False)

    def problem(self) -> str:
        """Why it cannot be used; empty if it can."""
        try:
            self.target()
        except ImproperlyConfigured as error:
            return str(error)
        return ""

    def _value(self, variable: str) -> str:
        value = Environment().text(variable, "") if variable else ""
        if variable and not value:
            raise ImproperlyConfigured(f"Channel {self.name}: set {variable}.")
        return value


class _File(BaseModel):
    """The whole file."""

    channels: dict[Name, Channel]


def load_channels(file: Path | None = None) -> dict[str, Channel]:
    """The channels of CHANNELS_FILE, by name; none without channels.toml. Raises ImproperlyConfigured."""
    file = settings.CHANNELS_FILE if file is None else file
    if not file.exists() and file == settings.BASE_DIR / "channels.toml":
        return {}
    try:
        found = read_toml(file, _File).channels
    except ImproperlyConfigured as error:
        raise ImproperlyConfigured(f"{file}: {error}") from None
    return {name: channel.model_copy(update={"name": name}) for name, channel in found.items()}


def channel_states() -> tuple[list[dict[str, Any]], str]:
    """The channels in file order with their states, without secrets, and why the file cannot be read."""
    try:
        known = load_channels()
    except ImproperlyConfigured as error:
        return [], str(error)
    states = {row.channel: row for row in ChannelState.objects.all()}
    return [_described(channel, states.get(name)) for name, channel in known.items()], ""


def _described(channel: Channel, row: ChannelState | None) -> dict[str, Any]:
    problem = channel.problem()
    return {
        "channel": channel.name,
        "kind": channel.kind,
        "title": channel.integration.title,
        "to": channel.to,
        "variables": channel.variables,
        "preview": channel.preview,
        "state": "not ready" if problem else _state_of(row),
        "problem": problem or (row.reason if row else ""),
        "failing_since": row.failing_since if row else None,
        "sent_at": row.sent_at if row else None,
    }


def _state_of(row: ChannelState | None) -> str:
    if row is None:
        return "never used"
    if row.disabled_at:
        return "disabled"
    return "failing" if row.failing_since else "works"
