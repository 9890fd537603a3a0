"""Integrations of channels: each converts a message to a request, without sending it."""

from dashboard.alerts.sending.channels import chats, email, pagerduty, webhook
from dashboard.alerts.sending.channels.base import Integration

INTEGRATIONS: dict[str, Integration] = {
    one.kind: one for one in (email.INTEGRATION, webhook.INTEGRATION, *chats.INTEGRATIONS, pagerduty.INTEGRATION)
}


def kinds() -> str:
    """The kinds of channels as part of a sentence: `email, webhook or slack`."""
    *others, last = INTEGRATIONS
    return f"{', '.join(others)} or {last}"
