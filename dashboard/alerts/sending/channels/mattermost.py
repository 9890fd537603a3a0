"""Mattermost, by an incoming webhook."""

from datetime import datetime

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.channels.teams import ACTIVE
from dashboard.alerts.sending.message import Message

COLOURS = {"critical": "#b3261e", "warning": "#a15c00", "info": "#1b5eab"}
DONE = "#1b7f4b"


def build(target: Target, message: Message, now: datetime) -> Post:
    """One attachment."""
    attachment = {
        "fallback": message.summary,
        "color": DONE if message.phase == "resolved" else COLOURS[message.severity],
        "title": escaped(message.summary),
        "text": escaped(message.sentence),
    }
    if message.url:
        attachment["title_link"] = message.url
    return json_post(target, {"attachments": [attachment]})


def escaped(text: str) -> str:
    """Escape untrusted text, so that it contains no formatting and no mentions (`@all`)."""
    marked = "".join(f"\\{char}" if char in ACTIVE else char for char in text)
    return marked.replace("@", "@\N{ZERO WIDTH SPACE}")


INTEGRATION = Integration("mattermost", "Mattermost", keys=("url_env",), required=("url_env",), build=build)
