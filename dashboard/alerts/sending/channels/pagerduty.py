"""PagerDuty, by an integration of its Events API v2. It groups, escalates and keeps quiet hours."""

from datetime import datetime
from typing import Any

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.message import Message

URL = "https://events.pagerduty.com/v2/enqueue"


def build(target: Target, message: Message, now: datetime) -> Post:
    """Open an incident, or resolve the one of the same alert."""
    event: dict[str, Any] = {
        "routing_key": " ".join(target.secrets),
        "event_action": "resolve" if message.phase == "resolved" else "trigger",
        "dedup_key": message.condition,
        "payload": {
            "summary": message.summary,
            "source": message.pair if message.entity == "*" else f"{message.pair}/{message.entity}",
            "severity": message.severity,
            "timestamp": message.at,
            "class": message.kind,
            "custom_details": {"text": message.sentence},
        },
    }
    if message.url:
        event["client_url"] = message.url
    return json_post(Target(target.url or URL), event)


INTEGRATION = Integration(
    "pagerduty", "PagerDuty", keys=("secrets_env", "url_env"), required=("secrets_env",), build=build
)
