"""A guarded link: deliveries pass at once and are kept until the primary has settled them; then the rules decide."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from azure.servicebus.exceptions import MessageSizeExceededError, OperationTimeoutError, ServiceBusError

from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.frame_fields import FrameFields, outcome_of
from amqp10.types import AmqpError
from gateway.guard.backlog import Outgoing, sdk_error
from gateway.guard.client import GatewayClient, GuardedSends
from gateway.guard.session import ACCEPTED, RETRY_S, GuardedSession
from gateway.guard.work import Delivery
from pairing.drive import run_async
from pairing.health.availability import FAILED_OVER, HEALTHY
from pairing.health.faults import condition
from pairing.health.flows import LONGEST_ATTEMPT_S
from pairing.links.failures import LinkCrowdedError, LinkFailure

CREDIT = 500
MOST_KEPT = 8 * 1024 * 1024
_TOO_MUCH, MOST_EARLY = 4 * MOST_KEPT, 1024 * 1024  # incomplete of one client; before the primary has answered
_OF_FRAME, _OF_DELIVERY = 500, 4000  # beside the bytes of the client
RETRYABLE, UNAUTHORIZED = "com.microsoft:timeout", "amqp:unauthorized-access"
SIZE_EXCEEDED = "amqp:link:message-size-exceeded"


@dataclass(slots=True, eq=False)
class Kept:
    """A delivery of the client, until it has an outcome."""

    number: int
    size: int
    delivery: Delivery
    began_at: float
    pending: asyncio.TimerHandle | asyncio.Task[None] | None = None  # ends the wait, or sends by the rules
    rejected: bytes | None = None  # what the primary said when it last refused it


class GuardedLink:
    """Implements `AnyLink`'s sending part: `send` makes an attempt on the primary by the rules."""

    def __init__(self, session: Session, attach: FrameFields, client: GatewayClient, path: str) -> None:
        self._relay, self._session, self._attach = session.relay, session, attach
        self.name: str = attach.value("name")
        self.has_left = self.is_asked = False
        self.handle: int = attach.value("handle")
        self._now, self._path, self._client = client.clock.now, path, client
        self._sends = GuardedSends(client, path, self)  # type: ignore[arg-type]
        self.back_handle: int | None = None  # now, at the primary
        self.reply_handle = -1  # the one that the client knows, once it does
        self._is_attached = False
        self._count = self._count_at_primary = attach.value("initial_delivery_count") or 0
        self._credit = self._max_size = 0
        self._granted = 0
        self._parts: list[FrameFields] = []
        self._parts_size = self._held = 0
        self._kept: dict[Kept, None] = {}
        self._kept_size = 0
        self._by_rules = 0

    @property
    def retained(self) -> int:
        """How many deliveries wait for an outcome."""
        return len(self._kept)

    @property
    def is_known(self) -> bool:
        """Whether the client knows that the primary has accepted the link."""
        return self.reply_handle >= 0

    # --- the link at the primary -----------------------------------------------------------------------------------

    def attached(self, answer: FrameFields) -> None:
        """The primary has answered the attach."""
        handle = self.back_handle = answer.value("handle")
        self._is_attached, self.is_asked = True, False
        if self.has_left:
            return
        self._relay.proofs.attached(self._path, answer)
        self._max_size = answer.value("max_message_size") or 0
        if self.is_known:
            self._session.shown[handle] = self.reply_handle
        else:
            self.reply_handle = self._session.shown[handle]
            self._grant_again()

    def refused(self, answer: FrameFields) -> bool:
        """The primary refuses the link, which it detaches next; whether the client is not to know."""
        self.back_handle, self._is_attached, self.is_asked = answer.value("handle"), True, False
        return self.is_known

    def detached_by_primary(self, detach: FrameFields) -> bool:
        """The primary has detached the link, or answered that; whether the client is not to know."""
        name, description = p.reason(detach.value("error"))
        self.back_handle = None
        if self.has_left:
            if not self.is_asked:
                self._session.leaving.remove(self)
            return True
        if name == UNAUTHORIZED:
            self._relay.proofs.refused(self._path)
        if not self.is_known:  # refused
            self.end()
            self._session.links.pop(self.handle, None)
            return False
        if self._is_attached:  # nobody asked for it
            self._relay.to_primary(self._session.channel, p.encode_performative(p.Detach(self.handle, closed=True)))
        if self._is_attached or name is not None:
            self.lost(sdk_error(name, description or "The link is detached."))
        return True

    def detached_by_client(self, detach: FrameFields) -> bool:
        """The client leaves, and is answered if the primary has no link; whether the primary is not to know."""
        self.end()
        if self._is_attached or not self.is_known:
            return False
        answer = p.Detach(self.reply_handle, closed=detach.value("closed"))
        self._relay.to_client(self._session.back, p.encode_performative(answer))
        if self.is_asked or self.back_handle is not None:  # it will answer nevertheless
            self.has_left = True
            self._session.leaving.append(self)
        return not self.is_asked

    def flow(self, fields: FrameFields) -> None:
        """Credit of the primary."""
        seen = fields.value("delivery_count") or 0
        credit = (seen + (fields.value("link_credit") or 0) - self._count_at_primary) & 0xFFFFFFFF
        self._credit = credit if credit < 0x80000000 else 0

    @property
    def _may_send(self) -> bool:
        """Whether the primary takes a delivery now."""
        return self._is_attached and self._relay.is_primary_there and self._credit > 0 and self._session.has_room

    def lost(self, error: ServiceBusError) -> None:
        """The link or the connection to the primary is lost: what it has not settled fails."""
        self._is_attached, self._credit = False, 0  # an attach on its way will be answered
        for failed in self._session.forget(self):
            if isinstance(failed, Kept):
                self._decide(failed, LinkFailure(error, reused=True))
            else:
                self._session.settle(failed, rejection(error))

    # --- deliveries ------------------------------------------------------------------------------------------------

    def transfer(self, fields: FrameFields) -> None:
        """A transfer of the client. Raises AmqpError."""
        if self._parts_size <= MOST_KEPT:
            self._hold(len(fields.body) + _OF_FRAME)
        self._parts.append(fields)
        self._parts_size += len(fields.body) - fields.payload
        if self._parts_size > MOST_KEPT:
            self._parts[1:] = [fields]  # read to its end, not kept
        if fields.value("more") and not fields.value("aborted"):
            return
        parts, size = self._parts, self._parts_size
        self._parts, self._parts_size = [], 0
        self._hold(-self._held)
        if not fields.value("aborted"):
            self._count = (self._count + 1) & 0xFFFFFFFF
            self._granted -= 1
            self._delivery(parts, size)
            self._grant_again()

    def _hold(self, size: int) -> None:
        """Account for frames of incomplete deliveries. Raises AmqpError."""
        self._held += size
        self._relay.partial += size
        self._client.kept += size
        most = _TOO_MUCH if self.is_known and not self._client.is_full else MOST_EARLY
        if size > 0 and self._relay.partial > most:
            raise AmqpError("amqp:resource-limit-exceeded", "too many deliveries are incomplete, or before credit")

    def _delivery(self, parts: list[FrameFields], size: int) -> None:
        first = parts[0]
        number = first.value("delivery_id")
        if number is None:
            raise AmqpError("amqp:invalid-field", "the first transfer of a delivery has no delivery-id")
        is_hopeless = 0 < self._max_size < size  # the primary refuses it
        if size > MOST_KEPT or (is_hopeless and not self._may_send):  # parts of the former are gone
            self._refuse(number, MessageSizeExceededError(message=f"The message has {size} bytes."))
            return
        if is_healthy := self._sends.state is HEALTHY:
            self._attach_again()
        is_healthy = is_healthy and self._may_send and not self._by_rules
        in_transaction = first.value("state") is not None
        if ((in_transaction or is_hopeless) and self._may_send) or (first.value("settled") and is_healthy):
            self._pass_on(parts, number)
            return
        if in_transaction or not self._has_right:  # it has ended, or a token
            self._refuse(number, ServiceBusError("The primary namespace is away, or does not let the client send."))
            return
        payload = b"".join(part.body[part.payload :] for part in parts)
        try:
            delivery = self._sends.delivery(payload, first.value("message_format") or 0)
        except (MessageSizeExceededError, ValueError) as error:
            self._refuse(number, error)
            return
        kept = Kept(number, size + _OF_DELIVERY, delivery, self._now())
        self._kept[kept] = None
        self._keep(kept.size)
        if is_healthy:
            self._pass_on(parts, kept)
            kept.pending = asyncio.get_running_loop().call_later(LONGEST_ATTEMPT_S, self._overdue)
        else:
            self._decide(kept, None)

    @property
    def _has_right(self) -> bool:
        """Whether the primary lets the client send, or has before."""
        is_there = self._is_attached and self._sends.state is not FAILED_OVER
        return is_there or self._relay.proofs.may_send(self._path)

    def _pass_on(self, parts: list[FrameFields], delivery: Kept | int) -> None:
        self._count_at_primary = (self._count_at_primary + 1) & 0xFFFFFFFF
        self._credit -= 1
        self._session.pass_on(parts, (self, delivery))

    def _overdue(self) -> None:
        """The primary has not settled a delivery in time: a link that does not answer is given up."""
        late = OperationTimeoutError(message="The primary has not answered in time.")
        error = late if self._relay.primary_overdue() else LinkCrowdedError()  # where the client does not read
        if self._is_attached and self._relay.is_primary_there:
            self._relay.to_primary(self._session.channel, p.encode_performative(p.Detach(self.handle, closed=True)))
        self.lost(error)
        self._relay.flush()

    def _attach_again(self) -> None:
        """Attach at the primary as the client did; the answer is not for the client."""
        if not (self._is_attached or self.is_asked) and self._relay.is_primary_there and self.is_known:
            self.is_asked = True
            body = self._attach.replaced(initial_delivery_count=self._count_at_primary)
            self._relay.to_primary(self._session.channel, body)

    def outcome(self, kept: Kept, state: bytes) -> None:
        """The primary's outcome of a delivery."""
        code, name, description = (p.ACCEPTED, None, "") if state == ACCEPTED else outcome_of(state)
        if code == p.ACCEPTED:
            self._sends.accepted(kept.delivery)
            self._settle(kept, state)
            return
        if code == p.REJECTED:
            kept.rejected = state
        error = sdk_error(name or "amqp:internal-error", description or "The primary did not accept the message.")
        self._decide(kept, LinkFailure(error, reused=True))

    # --- the rules -------------------------------------------------------------------------------------------------

    def _decide(self, kept: Kept, failure: LinkFailure | None) -> None:
        """Let the library deliver it."""
        if kept.pending is not None:
            kept.pending.cancel()
        self._by_rules += 1
        kept.pending = asyncio.get_running_loop().create_task(self._deliver(kept, failure))

    async def _deliver(self, kept: Kept, failure: LinkFailure | None) -> None:
        try:
            await run_async(self._sends.deliver(kept.delivery, failure, kept.began_at))
            state = ACCEPTED
        except Exception as error:
            state = kept.rejected or rejection(error)
            self._relay.busy_until = self._now() + RETRY_S
        finally:
            self._by_rules -= 1
        kept.pending = None
        self._settle(kept, state)
        self._relay.flush()

    async def send(self, outgoing: Outgoing, timeout_s: float) -> LinkFailure | None:
        """An attempt on the primary, by the rules: on a connection of the gateway's own."""
        if not self._has_right:
            return LinkFailure(sdk_error(UNAUTHORIZED, "The primary does not let the client send any more."), False)
        return await self._client.direct.send(self._path, outgoing, timeout_s)

    # --- the client ------------------------------------------------------------------------------------------------

    def _settle(self, kept: Kept, state: bytes) -> None:
        """Tell the client the outcome."""
        if self._release(kept):
            self._session.settle(kept.number, state)
            self._grant_again()

    def _release(self, kept: Kept) -> bool:
        """Keep a delivery no longer; whether it was kept."""
        if kept.pending is not None:
            kept.pending.cancel()
        if self._kept.pop(kept, kept) is not None:
            return False
        self._keep(-kept.size)
        return True

    def _keep(self, size: int) -> None:
        self._kept_size += size
        self._relay.kept += size
        self._client.kept += size

    def end(self) -> None:
        """The client gets no outcome any more, and the primary nothing."""
        self._session.forget(self)
        self._hold(-self._held)
        for kept in list(self._kept):
            self._release(kept)

    def _refuse(self, number: int, error: Exception) -> None:
        self._sends.refused(1)
        self._session.settle(number, rejection(error))

    def report(self) -> None:
        """The client asked for the state of the link."""
        if self.is_known:
            self._session.grant(self.reply_handle, self._count, self._granted)

    def _grant_again(self) -> None:
        if self._granted <= CREDIT // 2 and self._kept_size < MOST_KEPT:
            self._granted = CREDIT
            self.report()


Session = GuardedSession[GuardedLink]


def rejection(error: Exception) -> bytes:
    """The client's outcome for an error that the primary has not said: one that SDKs retry, unless it is theirs."""
    name = SIZE_EXCEEDED if isinstance(error, MessageSizeExceededError) else condition(error)
    if name is None:
        name = "amqp:not-allowed" if isinstance(error, ValueError | TypeError) else RETRYABLE
    return encode(p.rejected(p.error(name, str(error))))
