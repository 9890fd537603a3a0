"""The channels of CHANNELS_FILE and their states, the same on the page and in the API; without secrets."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from dashboard.alerts.sending.config import Channel, load_channels
from dashboard.models import ChannelState


def channels() -> tuple[list[dict[str, Any]], str]:
    """The channels in file order, and why the file cannot be read."""
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
