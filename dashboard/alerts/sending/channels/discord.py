"""Discord, by a webhook of a channel."""

from datetime import datetime

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.channels.teams import escaped
from dashboard.alerts.sending.message import Message

COLOURS = {"critical": 0xB3261E, "warning": 0xA15C00, "info": 0x1B5EAB}
DONE = 0x1B7F4B
LONGEST_TITLE, LONGEST = 250, 4000  # Discord refuses more than 256 and 4,096 characters


def build(target: Target, message: Message, now: datetime) -> Post:
    """One embed, without mentions."""
    embed: dict[str, object] = {
        "title": escaped(message.summary)[:LONGEST_TITLE],
        "description": escaped(message.sentence)[:LONGEST],
        "color": DONE if message.phase == "resolved" else COLOURS[message.severity],
        "timestamp": message.at,
    }
    if message.url:
        embed["url"] = message.url
    return json_post(target, {"embeds": [embed], "allowed_mentions": {"parse": []}})


INTEGRATION = Integration("discord", "Discord", keys=("url_env",), required=("url_env",), build=build)
