"""Microsoft Teams, by a workflow that takes an adaptive card ("When a Teams webhook request is received")."""

from datetime import datetime
from typing import Any

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.message import Message

COLOURS = {"critical": "Attention", "warning": "Warning", "info": "Accent"}
ACTIVE = r"\`*_{}[]()#+!|<>~-"


def build(target: Target, message: Message, now: datetime) -> Post:
    """A message with one adaptive card."""
    colour = "Good" if message.phase == "resolved" else COLOURS[message.severity]
    title = _text(message.summary) | {"weight": "Bolder", "size": "Medium", "color": colour}
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, _text(message.sentence)],
    }
    if message.url:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the alerts", "url": message.url}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return json_post(target, {"type": "message", "attachments": [attachment]})


def _text(text: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": escaped(text), "wrap": True}


def escaped(text: str) -> str:
    """Escape untrusted text for the card's Markdown."""
    return "".join(f"\\{char}" if char in ACTIVE else char for char in text)


INTEGRATION = Integration("teams", "Microsoft Teams", keys=("url_env",), required=("url_env",), build=build)
