"""The events of a connection, from the server's point of view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amqp10.link import Link


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The client's `open` arrived; ours was sent."""

    container_id: str
    hostname: str | None
    idle_time_out_ms: int | None
    properties: dict[Any, Any]


@dataclass(frozen=True, slots=True)
class LinkRequested:
    """The client asks for a link: answer with `link.accept(...)` or `link.refuse(...)`, now or later."""

    link: Link


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A whole message arrived on a link the client sends on."""

    link: Link
    delivery_id: int
    message_format: int
    payload: bytes
    settled: bool


@dataclass(frozen=True, slots=True)
class CreditGranted:
    """A receiver set its credit; `link.credit` is what remains open."""

    link: Link
    drain: bool


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """The session window of the client opened: deliveries on this link may continue."""

    link: Link


@dataclass(frozen=True, slots=True)
class Settled:
    """A receiver sent an outcome. Where `settled` is false it waits for our answer: `session.settle(...)`."""

    link: Link
    delivery_id: int
    tag: bytes
    outcome: int
    fields: list[Any]
    settled: bool


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link ended, by the client's `detach`, its `end` or the end of the connection."""

    link: Link


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection ended; `condition` is None for an orderly close."""

    condition: str | None
    description: str = ""


Event = (
    ConnectionOpened
    | LinkRequested
    | MessageReceived
    | CreditGranted
    | WindowOpened
    | Settled
    | LinkDetached
    | ConnectionClosed
)
