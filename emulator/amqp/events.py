"""What happened on a connection, as the server's side sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.amqp.link import Link


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The client's `open` arrived; ours was sent."""

    container_id: str
    hostname: str | None
    idle_time_out_ms: int | None


@dataclass(frozen=True, slots=True)
class LinkRequested:
    """The client wants a link: answer with `link.accept(...)` or `link.refuse(...)`, now or later."""

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
    """A receiver said how many messages it takes. `link.credit` is what is open now."""

    link: Link
    drain: bool


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """The client takes more frames: what waited on this link for that may go on."""

    link: Link


@dataclass(frozen=True, slots=True)
class Settled:
    """A receiver decided on a delivery. Where `settled` is false it waits for our answer: `link.settle(...)`."""

    link: Link
    delivery_id: int
    tag: bytes
    outcome: int
    fields: list[Any]
    settled: bool


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link is gone, by the client's `detach`, its `end` or the end of the connection."""

    link: Link


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """Nothing more comes or goes: `condition` is None for an orderly end."""

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
