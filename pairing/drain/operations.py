"""The operations of a syphon on the two namespaces, shared by threads and asyncio, which ``World`` executes.

``pairing.drain.flow`` decides what happens to a message. This module performs its actions on links that never hang, and
meters them.
"""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
)

from pairing.drain.actions import (
    BATCH,
    Count,
    DrainAction,
    Failed,
    Fetch,
    Item,
    Keep,
    Kept,
    Peek,
    Receive,
    Renew,
    Rest,
    Send,
    Settle,
    Settled,
)
from pairing.drain.host import SyphonHost, SyphonLink, World
from pairing.drain.ledger import same_queue
from pairing.drain.link_attempts import attempt
from pairing.drain.primary_operations import PrimaryOperations
from pairing.drain.refusals import require_lease
from pairing.drain.session_order import Bar, Barred, Hold, Lift, SessionAction
from pairing.drain.shared_sessions import session_outcome
from pairing.drain.stored_ledger import StoredLedger
from pairing.drain.usage import Tally
from pairing.drive import Operation, Reply, call
from pairing.health.faults import describe, is_gone, may_be_gone
from pairing.messages.undecodable import Undecoded, dead_lettering, undecoded

R = TypeVar("R")
PAGE = 100
OPEN_S, SETTLE_S = 10.0, 15.0
STALE_S = 20.0
"""After a pause that is longer, messages that the open link was given meanwhile may have lost their locks of 60 s: they
would be delivered twice."""


class DrainOperations:
    """Performs and meters the actions of one queue's drain."""

    def __init__(
        self,
        host: SyphonHost,
        world: World,
        queue: str,
        sender: Callable[[str], SyphonLink],
        rest: Callable[[float], object],
        holds: Callable[[], bool],
    ) -> None:
        self._host, self._world, self._queue = host, world, queue
        self._rest, self._holds = rest, holds
        self.stored: StoredLedger | None = None
        self.is_deleted = False
        """Whether the queue was deleted; messages of a new queue in its place are not handled here."""
        self._created_at = ""
        self._must_identify = False
        self._received_at: float | None = None
        self._tally = Tally(host, queue)
        self._primary = PrimaryOperations(host, world, queue, sender, holds, self._tally)
        self._link = self._new_link()

    def perform(self, action: DrainAction | SessionAction) -> Operation[Reply]:
        """The outcome of one action; only cancellation is raised."""
        match action:
            case Receive():
                return action.reply((yield from self._receive(action)))
            case Send():
                return action.reply((yield from self._primary.send(action)))
            case Settle():
                return action.reply((yield from self._settle(action)))
            case Fetch():
                return action.reply((yield from self._fetch(action.numbers)))
            case Peek():
                return action.reply((yield from self._peek(action.number)))
            case Count():
                return action.reply((yield from self._count()))
            case Keep():
                return action.reply((yield from self._keep(action)))
            case Renew():
                yield from self._renew(action.items)
                return action.reply(None)
            case Rest():
                yield from call(self._rest, action.seconds)
                return action.reply(None)
            case Barred() | Bar() | Lift() | Hold():
                return (yield from call(self._world.block, partial(session_outcome, self._host, self._queue, action)))

    def created_at(self) -> Operation[str]:
        """The creation time of the queue, its identity together with its path; empty if unknown."""
        self._created_at = yield from self._identity()
        return self._created_at

    def _identity(self) -> Operation[str]:
        began = self._host.clock.now()
        try:
            return str((yield from self._properties()).created_at_utc)
        except Exception as error:
            if isinstance(error, ResourceNotFoundError):
                self._note_refusal(error, began)
            return ""

    def close(self) -> Operation[None]:
        """Close the link: granted but undelivered messages return to the queue."""
        self._tally.grant_ended()
        yield from call(self._link.close, 1.0)

    def _keep(self, action: Keep) -> Operation[Kept]:
        if self.stored is None or self._host.coordination is None:
            return Kept.STORED
        return (yield from call(self._world.block, partial(self.stored.keep, action.ledger)))

    # The backlog queue ---------------------------------------------------------------------------------------------

    def _new_link(self) -> SyphonLink:
        return self._world.link(self._make_receiver)

    def _make_receiver(self) -> Any:
        """With prefetch, the SDK grants credit once for a whole batch, and then waits without sending anything."""
        return self._host.secondary.sdk.get_queue_receiver(self._queue, prefetch_count=BATCH - 1, keep_alive=0)

    def _with_receiver(
        self, operation: Callable[[Any, float], Operation[R]], timeout_s: float
    ) -> Operation[R | Failed]:
        """Call the operation with the receiver and the remaining time; returns its result, or Failed."""
        if self._must_identify and (yield from self._finds_another()):
            return Failed("the queue was created again")
        began = self._host.clock.now()
        opening_s = 0.0 if self._link.sender is not None else OPEN_S
        answers, failure = yield from attempt(self._world, self._link, operation, timeout_s + opening_s)
        if failure is None:
            return answers[0]
        self._note_refusal(failure.error, began)
        return Failed(describe(failure.error))

    def _note_refusal(self, error: Exception, began: float) -> None:
        if may_be_gone(error):
            self._must_identify, self.is_deleted = True, self.is_deleted or is_gone(error)
            self._host.backlog_refused(self._queue, error, began)

    def _finds_another(self) -> Operation[bool]:
        """Whether the queue was deleted and created again; False as long as that is unknown."""
        found = yield from self._identity()
        self.is_deleted = self.is_deleted or not same_queue(found, self._created_at)
        self._must_identify = not found
        return self.is_deleted

    def _receive(self, action: Receive) -> Operation[list[Any] | Failed]:
        if self._tally.grant_is_over or self._is_stale():
            yield from self._open_anew()
        used: list[Any] = []
        began = time.monotonic()

        def receive(receiver: Any, left_s: float) -> Operation[list[Any]]:
            used.append(receiver)
            self._tally.granted(receiver)
            return call(receiver.receive_messages, max_message_count=action.count, max_wait_time=action.wait_s)

        received = yield from self._with_receiver(receive, action.wait_s + 5.0)
        messages = [] if isinstance(received, Failed) else received
        self._tally.received(messages)
        found = undecoded(used[0], messages) if used else []
        self._received_at = time.monotonic()
        stumbled = not messages and time.monotonic() - began < action.wait_s / 2
        if isinstance(received, Failed) or stumbled:
            yield from self._open_anew()
        return messages + found or received

    def _is_stale(self) -> bool:
        return self._received_at is not None and time.monotonic() - self._received_at > STALE_S

    def _open_anew(self) -> Operation[None]:
        yield from self.close()
        self._link = self._new_link()

    def _fetch(self, numbers: list[int]) -> Operation[list[Any] | Failed]:
        found: list[Any] = []
        for part in by_partition(numbers):
            fetched = yield from self._with_receiver(partial(_fetch_all, numbers=part), SETTLE_S)
            if isinstance(fetched, Failed):
                return fetched
            found += fetched
        self._tally.received(found)
        return found

    def _peek(self, number: int) -> Operation[list[Any] | Failed]:
        self._tally.managed()

        def peek(receiver: Any, left_s: float) -> Operation[list[Any]]:
            return call(receiver.peek_messages, PAGE, sequence_number=number, timeout=left_s)

        return (yield from self._with_receiver(peek, SETTLE_S))

    def _renew(self, items: list[Item]) -> Operation[None]:
        for item in items:
            self._tally.managed()
            renewed = yield from self._with_receiver(partial(_renew, message=item.received), SETTLE_S)
            if isinstance(renewed, Failed):
                return

    def _settle(self, action: Settle) -> Operation[list[Settled]]:
        outcomes: list[Settled] = ["unknown"] * len(action.items)

        def settle(receiver: Any, left_s: float) -> Operation[None]:
            if (
                action.verb != "abandon"
            ):  # operations that remove messages or set them aside; releasing them is always allowed
                require_lease(self._holds)
            if isinstance(action.items[0].received, Undecoded):
                yield from _set_aside(receiver, action)
                outcomes[0] = "done"
            else:
                yield from call(self._world.settle, receiver, action, outcomes, left_s)

        yield from self._with_receiver(settle, SETTLE_S)
        self._tally.settled(action.items, outcomes)
        return outcomes

    def _count(self) -> Operation[int | Failed]:
        try:
            properties = yield from self._properties()
        except Exception as error:
            return Failed(describe(error))
        return properties.active_message_count or 0

    def _properties(self) -> Operation[Any]:
        self._tally.managed()
        look = self._host.secondary.administration.get_queue_runtime_properties
        return (yield from call(self._world.ask, look, self._queue))


def _set_aside(receiver: Any, action: Settle) -> Operation[None]:
    """Dead-letter an undecodable message by its lock."""
    found: Undecoded = action.items[0].received
    arguments = dead_lettering(found, action.reason, action.description)
    yield from call(receiver._settle_message_via_mgmt_link, **arguments)


def _renew(receiver: Any, timeout_s: float, *, message: Any) -> Operation[None]:
    with contextlib.suppress(MessageLockLostError):  # the locks of the others may still be valid
        yield from call(receiver.renew_message_lock, message, timeout=timeout_s)


def _fetch_all(receiver: Any, timeout_s: float, *, numbers: list[int]) -> Operation[list[Any]]:
    """The deferred messages that still exist; a missing one makes the service refuse all of them."""
    try:
        fetched: list[Any] = yield from call(receiver.receive_deferred_messages, numbers, timeout=timeout_s)
    except MessageNotFoundError:
        if len(numbers) == 1:
            return []
        half = len(numbers) // 2
        first = yield from _fetch_all(receiver, timeout_s, numbers=numbers[:half])
        return first + (yield from _fetch_all(receiver, timeout_s, numbers=numbers[half:]))
    return fetched


def by_partition(numbers: list[int]) -> list[list[int]]:
    """Sequence numbers in lists of one partition each, as a fetch requires."""
    parts: dict[int, list[int]] = {}
    for number in numbers:
        parts.setdefault(number >> 48, []).append(number)
    return list(parts.values())
