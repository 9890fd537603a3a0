"""Chats, by an incoming webhook each: Slack, Mattermost, Discord, and a workflow of Microsoft Teams.

Texts are not trusted: they contain no links, mentions or formatting.
"""

from datetime import datetime
from typing import Any

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.message import Message

COLOURS, DONE = {"critical": "#b3261e", "warning": "#a15c00", "info": "#1b5eab"}, "#1b7f4b"
OF_TEAMS = {"critical": "Attention", "warning": "Warning", "info": "Accent"}
OF_SLACK = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "info": ":large_blue_circle:"}
ACTIVE = r"\`*_{}[]()#+!|<>~-"
LONGEST_OF_SLACK = 2900  # it refuses a section of more than 3,000 characters
LONGEST_TITLE, LONGEST = 250, 4000  # Discord refuses more than 256 and 4,096 characters


def escaped(text: str) -> str:
    """The text as Markdown without formatting."""
    return "".join(f"\\{char}" if char in ACTIVE else char for char in text)


def _of_slack(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"{char}\N{ZERO WIDTH SPACE}" if char in "*_~`" else char for char in plain)


def _of_mattermost(text: str) -> str:
    return escaped(text).replace("@", "@\N{ZERO WIDTH SPACE}")


def _colour(message: Message) -> str:
    return DONE if message.phase == "resolved" else COLOURS[message.severity]


def slack(target: Target, message: Message, now: datetime) -> Post:
    """The summary for notifications, and a section with the sentence."""
    mark = ":white_check_mark:" if message.phase == "resolved" else OF_SLACK[message.severity]
    link = f"\n<{message.url}|Open the alerts>" if message.url else ""
    texts = (f"{mark} *{_of_slack(message.summary)}*", _of_slack(message.sentence)[:LONGEST_OF_SLACK] + link)
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in texts]
    return json_post(target, {"text": _of_slack(message.summary), "blocks": blocks})


def mattermost(target: Target, message: Message, now: datetime) -> Post:
    """One attachment."""
    attachment = {
        "fallback": message.summary,
        "color": _colour(message),
        "title": _of_mattermost(message.summary),
        "text": _of_mattermost(message.sentence),
    }
    if message.url:
        attachment["title_link"] = message.url
    return json_post(target, {"attachments": [attachment]})


def discord(target: Target, message: Message, now: datetime) -> Post:
    """One embed, without mentions."""
    embed: dict[str, object] = {
        "title": escaped(message.summary)[:LONGEST_TITLE],
        "description": escaped(message.sentence)[:LONGEST],
        "color": int(_colour(message)[1:], 16),
        "timestamp": message.at,
    }
    if message.url:
        embed["url"] = message.url
    return json_post(target, {"embeds": [embed], "allowed_mentions": {"parse": []}})


def teams(target: Target, message: Message, now: datetime) -> Post:
    """A message with one adaptive card ("When a Teams webhook request is received")."""
    colour = "Good" if message.phase == "resolved" else OF_TEAMS[message.severity]
    summary, sentence = (
        {"type": "TextBlock", "text": escaped(text), "wrap": True} for text in (message.summary, message.sentence)
    )
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [summary | {"weight": "Bolder", "size": "Medium", "color": colour}, sentence],
    }
    if message.url:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the alerts", "url": message.url}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return json_post(target, {"type": "message", "attachments": [attachment]})


CHATS = (
    ("slack", "Slack", slack),
    ("teams", "Microsoft Teams", teams),
    ("mattermost", "Mattermost", mattermost),
    ("discord", "Discord", discord),
)
INTEGRATIONS = [
    Integration(kind, title, keys=("url_env",), required=("url_env",), build=build) for kind, title, build in CHATS
]
