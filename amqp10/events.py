"""The events of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amqp10.link import Link

MIN_HEARTBEAT_S, MAX_HEARTBEAT_S = 0.5, 60.0


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The peer's `open` arrived; ours was sent."""

    container_id: str
    hostname: str | None
    idle_time_out_ms: int | None
    properties: dict[Any, Any]

    @property
    def heartbeat_s(self) -> float | None:
        """How often something must be sent to a peer that announced an idle time-out; it may have announced any."""
        idle = self.idle_time_out_ms
        return min(max(idle / 2000, MIN_HEARTBEAT_S), MAX_HEARTBEAT_S) if idle else None


@dataclass(frozen=True, slots=True)
class LinkRequested:
    """The client asks for a link: answer with `link.accept(...)` or `link.refuse(...)`, now or later."""

    link: Link


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The server has accepted a link of ours."""

    link: Link


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A whole message arrived on a link the peer sends on."""

    link: Link
    delivery_id: int
    message_format: int
    payload: bytes
    settled: bool
    tag: bytes = b""
    transaction: bytes | None = None


@dataclass(frozen=True, slots=True)
class CreditGranted:
    """A receiver set its credit; `link.credit` is what remains open."""

    link: Link
    drain: bool


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """The session window of the peer opened: deliveries on this link may continue."""

    link: Link


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a delivery we sent, or the answer to the one of ours for a delivery we received.

    Where `settled` is false the peer waits for our answer: `session.settle(...)`. It can send no other
    outcome, unless a transaction is rolled back: `session.restore_delivery(...)`.
    """

    link: Link
    delivery_id: int
    tag: bytes
    outcome: int
    fields: list[Any]
    settled: bool
    transaction: bytes | None = None


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link ended, by the peer's `detach`, its `end` or the end of the connection; `condition` is its error."""

    link: Link
    condition: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection ended; `condition` is None for an orderly close."""

    condition: str | None
    description: str = ""


Event = (
    ConnectionOpened
    | LinkRequested
    | LinkOpened
    | MessageReceived
    | CreditGranted
    | WindowOpened
    | Settled
    | LinkDetached
    | ConnectionClosed
)
