"""Requests to the administration and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.administration import atom

ENTRY = "application/atom+xml;type=entry;charset=utf-8"
FEED = "application/atom+xml;type=feed;charset=utf-8"
PROBLEM = "application/xml;charset=utf-8"


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """An HTTP request: `target` as it stands in the request line, header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AdminResponse:
    """An answer. An empty body has no content type."""

    status: int
    body: bytes = b""
    content_type: str = ""


def refusal(status: int, detail: str) -> AdminResponse:
    """A refusal with its reason."""
    return AdminResponse(status, atom.error(status, detail), PROBLEM)
