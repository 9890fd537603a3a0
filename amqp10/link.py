"""One link: its credit, and the message that is arriving in parts.

Credit is computed as AMQP specifies: the receiver states the delivery count it has seen and how many more deliveries
it accepts; the sender compares that with what it has sent. Credit is therefore set, never added, and a lost or
repeated `flow` does no harm. A client that sends without credit is not stopped: the SDK's senders ignore credit.

The same link serves both roles: `attach` is the client's, and `sends` says whether messages go from us to the peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from amqp10 import performatives as p
from amqp10.types import AmqpError

SENDER_CREDIT = 1000


class LinkSession(Protocol):
    """The session of a link, as the link and its user see it."""

    channel: int
    max_message_size: int

    @property
    def links(self) -> Mapping[int, Link]:
        """The open links by handle."""

    @property
    def has_room(self) -> bool:
        """Whether the peer's window lets another transfer out."""

    def send(self, performative: Any) -> None:
        """Send a performative on the session's channel."""

    def send_flow(self, link: Link | None, *, drain: bool = False) -> None:
        """Send the session's windows, and a link's credit."""

    def send_transfer(self, link: Link, payload: bytes, tag: bytes, *, settled: bool, message_format: int = 0) -> int:
        """Send a message; returns its delivery id."""

    def accept(self, delivery_id: int) -> None:
        """Acknowledge a message the peer sent."""

    def settle(
        self, first: int, state: bytes, *, last: int | None = None, role: bool = True, settled: bool = True
    ) -> None:
        """Send a disposition."""

    def restore_delivery(self, link: Link, delivery_id: int, tag: bytes) -> None:
        """Let a delivery be settled again."""

    def hold(self, size: int) -> None:
        """Account for so many more (or fewer) bytes of incomplete messages. Raises AmqpError beyond the limit."""

    def forget(self, link: Link) -> None:
        """Remove a link that has ended."""


class Link:
    """A link of a session."""

    __slots__ = (
        "_incoming_delivery",
        "_incoming_parts",
        "_incoming_size",
        "answer",
        "attach",
        "credit",
        "delivery_count",
        "handle",
        "is_attached",
        "is_open",
        "max_message_size",
        "name",
        "owner",
        "remote_handle",
        "renewed_credit",
        "sends",
        "session",
        "source",
        "target",
    )

    def __init__(self, session: LinkSession, attach: p.Attach, *, sends: bool) -> None:
        self.session = session
        self.attach = attach
        self.sends = sends
        self.name, self.handle = attach.name, attach.handle
        self.remote_handle = attach.handle
        self.source, self.target = p.terminus(attach.source), p.terminus(attach.target)
        self.credit = 0
        self.delivery_count = 0 if sends else attach.initial_delivery_count or 0
        self.renewed_credit = SENDER_CREDIT
        """What a sender is granted again once half of it is used up; 0 to grant it by hand."""
        self.max_message_size = 0
        self.is_attached = False  # our attach has been sent
        self.is_open = True
        self.owner: Any = None  # what serves the link
        self.answer: p.Attach | None = None  # the server's, to an attach of ours
        self._incoming_delivery: p.Transfer | None = None
        self._incoming_parts: list[bytes] = []
        self._incoming_size = 0

    @property
    def client_receives(self) -> bool:
        """Whether messages go from the server to the client."""
        return self.attach.role

    @property
    def address(self) -> str:
        """The address of the client's node: the source it receives from or the target it sends to; empty if none."""
        end = self.source if self.client_receives else self.target
        return end.address or "" if end is not None else ""

    def answered(self, attach: p.Attach) -> None:
        """The server has answered our attach: with its termini, limits and properties, which replace those asked for.

        Raises AmqpError.
        """
        self.remote_handle, self.answer = attach.handle, attach
        self.source, self.target = p.terminus(attach.source), p.terminus(attach.target)
        if self.sends:
            self.max_message_size = attach.max_message_size or 0
        else:
            self.max_message_size = self.session.max_message_size
            self.delivery_count = attach.initial_delivery_count or 0

    # --- answering an attach ---------------------------------------------------------------------------------------

    def accept(
        self,
        *,
        max_message_size: int | None = None,
        source: Any = None,
        properties: dict[Any, Any] | None = None,
        credit: int = SENDER_CREDIT,
    ) -> None:
        """Answer the attach with the client's own termini (or this source), and give a sender credit."""
        self.max_message_size = max_message_size or 0
        self._send_attach(source or _echo(self.source), _echo(self.target), max_message_size, properties)
        if not self.client_receives:
            self.grant(credit)

    def refuse(self, condition: str, description: str) -> None:
        """Answer the attach with a null terminus, then detach with the error: the client reports that condition."""
        self.announce_refusal()
        self.detach(condition, description)

    def announce_refusal(self) -> None:
        """Answer the attach with a null terminus; a detach with the error follows."""
        if self.client_receives:
            self._send_attach(None, _echo(self.target))
        else:
            self._send_attach(_echo(self.source), None)

    def _send_attach(
        self, source: Any, target: Any, size: int | None = None, properties: dict[Any, Any] | None = None
    ) -> None:
        self.is_attached = True
        self.session.send(
            p.Attach(
                name=self.name,
                handle=self.handle,
                role=not self.attach.role,
                snd_settle_mode=self.attach.snd_settle_mode,
                rcv_settle_mode=self.attach.rcv_settle_mode,
                source=source,
                target=target,
                initial_delivery_count=0 if self.attach.role else None,
                max_message_size=size,
                properties=properties,
            )
        )

    # --- receiving -------------------------------------------------------------------------------------------------

    def grant(self, credit: int) -> None:
        """Set the credit of a sender and send it."""
        self.credit = credit
        self.session.send_flow(self)

    def receive(self, transfer: p.Transfer, payload: bytes) -> tuple[p.Transfer, bytes] | None:
        """Add a fragment; returns the first transfer and the whole payload once it is complete. Raises AmqpError."""
        if self.sends:
            raise AmqpError("amqp:not-allowed", "a transfer on a link that receives")
        first = self._incoming_delivery
        if first is None and not transfer.more:
            self._count_delivery()
            return None if transfer.aborted else (transfer, payload)
        return self._receive_part(transfer, payload, first)

    def _receive_part(
        self, transfer: p.Transfer, payload: bytes, first: p.Transfer | None
    ) -> tuple[p.Transfer, bytes] | None:
        if first is None:
            first = self._incoming_delivery = transfer
        elif transfer.delivery_id not in (None, first.delivery_id):
            raise AmqpError("amqp:not-allowed", "a new delivery began before the previous one was complete")
        self._incoming_size += len(payload)
        # An oversized message is read to its end, so that it can be rejected by its delivery id, but not kept.
        if self._incoming_size <= (self.max_message_size or self.session.max_message_size) + 1:
            self._incoming_parts.append(payload)
            self.session.hold(len(payload))
        if transfer.more and not transfer.aborted:
            return None
        whole = b"".join(self._incoming_parts).ljust(min(self._incoming_size, self.max_message_size + 1), b"\0")
        self.drop_parts()
        self._count_delivery()
        return None if transfer.aborted else (first, whole)

    def drop_parts(self) -> None:
        """Discard the fragments of the incoming message."""
        self.session.hold(-sum([len(part) for part in self._incoming_parts]))
        self._incoming_delivery, self._incoming_parts, self._incoming_size = None, [], 0

    def _count_delivery(self) -> None:
        self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
        self.credit -= 1
        renewed = self.renewed_credit
        if renewed and self.credit <= renewed // 2 and self.is_attached and self.is_open:
            self.grant(renewed)

    # --- sending ---------------------------------------------------------------------------------------------------

    def set_credit(self, flow: p.Flow) -> None:
        """Compute the open credit from a flow of the receiver."""
        seen = flow.delivery_count if flow.delivery_count is not None else 0
        open_credit = (seen + (flow.link_credit or 0) - self.delivery_count) & 0xFFFFFFFF
        self.credit = open_credit if open_credit < 0x80000000 else 0

    def drain(self) -> None:
        """Use up the remaining credit without a delivery, and report it."""
        self.delivery_count = (self.delivery_count + self.credit) & 0xFFFFFFFF
        self.credit = 0
        self.session.send_flow(self, drain=True)

    def deliver(self, payload: bytes, tag: bytes, *, settled: bool, message_format: int = 0) -> int:
        """Send a message; returns its delivery id."""
        self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
        self.credit -= 1
        return self.session.send_transfer(self, payload, tag, settled=settled, message_format=message_format)

    # --- ending ----------------------------------------------------------------------------------------------------

    def detach(self, condition: str | None = None, description: str = "") -> None:
        """End the link from our side; its deliveries can no longer be settled on it."""
        if self.is_open:
            error = p.error(condition, description) if condition else None
            self.session.send(p.Detach(self.handle, closed=True, error=error))
            self.session.forget(self)


def _echo(end: p.Terminus | None) -> Any:
    return end.encoded() if end is not None else None
