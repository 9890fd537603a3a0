"""The `$cbs` node: what a client's token opens on its connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emulator import signatures
from emulator.broker.namespace import strip_host

NODE = "$cbs"


@dataclass(frozen=True, slots=True)
class Grant:
    """A path in lower case that a token opens, with all below it (empty: everything), and until when (unix seconds)."""

    path: str
    until: float

    def covers(self, path: str, now: float) -> bool:
        """Whether this grant opens an entity or one of its nodes."""
        path = path.lower()
        return now < self.until and (not self.path or path == self.path or path.startswith(self.path + "/"))


def grant(token: Any, audience: str, keys: Mapping[str, str], now: float) -> Grant:
    """What a token put for this audience opens. Raises signatures.TokenError."""
    checked = signatures.verify(str(token), keys, now)
    if not checked.covers(audience):
        raise signatures.TokenError("The token is for another audience.")
    return Grant(audience.lower(), checked.expires_at)


def audience_path(name: Any) -> str:
    """The entity path of the audience a client put a token for."""
    return strip_host(name).strip("/") if isinstance(name, str) else ""
