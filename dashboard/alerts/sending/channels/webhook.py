"""A custom webhook, signed according to Standard Webhooks: id, timestamp and body with HMAC-SHA256."""

import base64
import binascii
import hashlib
import hmac
from dataclasses import asdict, replace
from datetime import datetime

from dashboard.alerts.sending.channels.base import Integration, Post, Target, json_post
from dashboard.alerts.sending.message import Message

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64


def build(target: Target, message: Message, now: datetime) -> Post:
    """The message as JSON. During the rotation of a secret there are two signatures; receivers accept either."""
    reported = {"type": f"alert.{message.phase}", "timestamp": message.at, "data": asdict(message)}
    post = json_post(target, reported)
    stamp = str(int(now.timestamp()))
    signatures = (sign(key_of(secret), message.id, stamp, post.body) for secret in target.secrets)
    return replace(
        post,
        headers={
            **post.headers,
            "webhook-id": message.id,
            "webhook-timestamp": stamp,
            "webhook-signature": " ".join(signatures),
        },
    )


def sign(key: bytes, identity: str, stamp: str, body: bytes) -> str:
    """`v1,` and the signature in base64."""
    digest = hmac.new(key, b".".join((identity.encode(), stamp.encode(), body)), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """The key in a secret, `whsec_` and base64. Raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if not SHORTEST <= len(key) <= LONGEST:
        raise ValueError("wrong length")
    return key


def check(target: Target) -> str:
    """Whether the secrets are valid."""
    try:
        keys = [key_of(secret) for secret in target.secrets]
    except ValueError:
        keys = []
    if not keys:
        return f"its secrets are one or more of {PREFIX} with {SHORTEST} to {LONGEST} bytes in base64, space-separated."
    return ""


INTEGRATION = Integration(
    "webhook",
    "Webhook",
    keys=("url_env", "secrets_env"),
    required=("url_env", "secrets_env"),
    build=build,
    check=check,
)
