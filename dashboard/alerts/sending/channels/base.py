"""The parts of an integration: a target, the request it builds, and its registration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from dashboard.alerts.sending.message import Message


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a channel's messages. The URL of a chat is a credential; neither it nor the secrets are shown."""

    url: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    to: tuple[str, ...] = ()
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Post:
    """A request over HTTP."""

    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail."""

    to: tuple[str, ...]
    sender: str
    subject: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


Request = Post | Mail


@dataclass(frozen=True, slots=True)
class Integration:
    """One kind of channel. `build` is pure: the same message, target and moment make the same request."""

    kind: str
    title: str
    keys: tuple[str, ...]
    required: tuple[str, ...]
    build: Callable[[Target, Message, datetime], Request]
    check: Callable[[Target], str] = lambda target: ""

    def problem(self, target: Target) -> str:
        """The problem of the target, without quoting it; empty if it is valid."""
        if (target.url or "url_env" in self.required) and (problem := url_problem(target.url)):
            return problem
        return self.check(target)


def url_problem(url: str) -> str:
    """The problem of a URL; empty if it is valid."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number
    except ValueError:
        return "its URL cannot be read."
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return "its URL does not begin with https:// and a host."
    if parts.username or parts.password:
        return "its URL has a user or a password before the host; that is not supported."
    if any(char <= " " or char == "\x7f" for char in url) or not url.isascii():
        return "its URL has characters that have to be percent-encoded."
    return ""


def json_post(target: Target, content: object) -> Post:
    """A request that posts the content as JSON to the target."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Post(target.url, body, {"Content-Type": "application/json; charset=utf-8"})
