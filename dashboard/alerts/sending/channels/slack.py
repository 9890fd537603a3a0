"""Slack, by an incoming webhook."""

from datetime import datetime

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.message import Message

MARKS = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "info": ":large_blue_circle:"}
LONGEST = 2900  # Slack refuses a section of more than 3,000 characters


def build(target: Target, message: Message, now: datetime) -> Post:
    """The summary for notifications, and a section with the sentence."""
    mark = ":white_check_mark:" if message.phase == "resolved" else MARKS[message.severity]
    link = f"\n<{message.url}|Open the alerts>" if message.url else ""
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"{mark} *{escaped(message.summary)}*"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": escaped(message.sentence)[:LONGEST] + link}},
    ]
    return json_post(target, {"text": escaped(message.summary), "blocks": blocks})


def escaped(text: str) -> str:
    """Escape untrusted text, so that it contains no links, mentions (`<!channel>`) or formatting."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"{char}\N{ZERO WIDTH SPACE}" if char in "*_~`" else char for char in plain)


INTEGRATION = Integration("slack", "Slack", keys=("url_env",), required=("url_env",), build=build)
