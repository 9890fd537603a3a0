"""The channels of CHANNELS_FILE and their states, for programs; without addresses and secrets."""

from __future__ import annotations

from typing import Any

from dashboard.alerts.sending.config import Channel, load_channels
from dashboard.models import ChannelState


def described() -> list[dict[str, Any]]:
    """One entry per channel, in file order. Raises ChannelsFileError."""
    states = {row.channel: row for row in ChannelState.objects.all()}
    return [_described(channel, states.get(name)) for name, channel in load_channels().items()]


def _described(channel: Channel, row: ChannelState | None) -> dict[str, Any]:
    problem = channel.problem() or (row.reason if row else "")
    return {
        "channel": channel.name,
        "kind": channel.kind,
        "state": state_of(channel, row),
        "problem": problem,
        "failing_since": row.failing_since if row else None,
        "sent_at": row.sent_at if row else None,
    }


def state_of(channel: Channel, row: ChannelState | None) -> str:
    """`not ready` (incomplete), `disabled` (its target is gone), `failing`, `works` or `never used`."""
    if channel.problem():
        return "not ready"
    if row is None:
        return "never used"
    if row.disabled_at:
        return "disabled"
    return "failing" if row.failing_since else "works"
