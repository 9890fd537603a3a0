"""The operations of a syphon on the two namespaces, on links that never hang, and metered.

``pairing.drain.flow`` decides what happens to a message.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError

from pairing.drain.backlog_queue import BATCH, Failed, Item, Kept, Sent, Settled, Verb
from pairing.drain.destinations import Connections
from pairing.drain.host import StopEvent, SyphonHost, World, attempt
from pairing.drain.ledger import Ledger, same_queue
from pairing.drain.primary_operations import PrimaryOperations
from pairing.drain.refusals import require_lease, why_refused
from pairing.drain.settlement import choose
from pairing.drain.shared.stored_ledger import StoredLedger
from pairing.drain.shared.usage import Tally
from pairing.drive import Operation, call
from pairing.health.faults import describe, is_gone, may_be_gone
from pairing.links.failures import AnyLink
from pairing.messages.undecodable import Undecoded, dead_lettering, undecoded
from pairing.sessions.shared import SharedSessions

R = TypeVar("R")
PAGE = 100
OPEN_S, SETTLE_S = 10.0, 15.0
STALE_S = 20.0
"""After a pause that is longer, messages that the open link was given meanwhile may have lost their locks of 60 s: they
would be delivered twice."""


class DrainOperations:
    """The operations of one queue's drain, ``BarredQueue`` for its rules; only cancellation is raised."""

    def __init__(
        self,
        host: SyphonHost,
        world: World,
        queue: str,
        connections: Connections,
        stop: StopEvent,
        holds: Callable[[], bool],
    ) -> None:
        self._host, self._world, self._queue = host, world, queue
        self._stop, self._holds = stop, holds
        self.stored: StoredLedger | None = None
        self.is_deleted = False
        """Whether the queue was deleted; messages of a new queue in its place are not handled here."""
        self._created_at = ""
        self._must_identify = False
        self._received_at: float | None = None
        self._held = set[bytes]()
        self._tally = Tally(host, queue)
        self._primary = PrimaryOperations(host, world, queue, connections, holds, self._tally)
        self._answers, self._has_answers = deque[tuple[str, Sent]](), world.event()
        self._link = self._new_link()

    def send(self, path: str, items: list[Item]) -> Operation[Sent | None]:
        """Begin to send messages to their entity, in order: as many as fit one transfer; ``answers`` tells."""

        def send() -> Operation[None]:
            sent = Sent(0, "lease", "interrupted")
            try:
                sent = yield from self._primary.send(path, items)
            finally:
                self._answers.append((path, sent))
                self._has_answers.set()

        yield from ()
        try:
            self._world.spawn(send(), "syphon-send")
        except RuntimeError as error:  # no thread can be started now
            self._host.pair_state.note_shortage(error)
            return Sent(0, why_refused(error), describe(error))
        return None

    def answers(self, wait_s: float) -> Operation[list[tuple[str, Sent]]]:
        """What became of sends that have ended, by entity; waits at most this long for the first."""
        if wait_s:
            yield from call(self._world.rest, self._has_answers, wait_s)
        self._has_answers.clear()
        return [self._answers.popleft() for _ in range(len(self._answers))]

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

    def rest(self, seconds: float) -> Operation[None]:
        """Wait, unless the syphon stops."""
        yield from call(self._world.rest, self._stop, seconds)

    # Redis ---------------------------------------------------------------------------------------------------------

    def keep(self, ledger: Ledger) -> Operation[Kept]:
        """Store the ledger for a later syphon of this queue, if there is a store."""
        if self.stored is None:
            return Kept.STORED
        return (yield from call(self._world.block, self.stored.keep, ledger))

    def barred(self) -> Operation[dict[str, int] | Failed | None]:
        """The sessions whose barrier names the queue; None where no order is kept."""
        return self._with_sessions(lambda sessions: sessions.barred(self._queue))

    def bar(self, keys: list[str]) -> Operation[Failed | None]:
        """Raise barriers for sessions found in the queue."""
        return self._with_sessions(lambda sessions: sessions.bar(self._queue, keys))

    def lift(self, drained: dict[str, int]) -> Operation[int | Failed | None]:
        """Lift the barriers of these sessions, unless somebody sent since; returns how many were."""
        return self._with_sessions(lambda sessions: sessions.lift(self._queue, drained))

    def hold(self, keys: list[str], seconds: float) -> Operation[Failed | None]:
        """Let the next sends of these sessions wait for a moment."""
        return self._with_sessions(lambda sessions: sessions.hold(self._queue, keys, seconds))

    def _with_sessions(self, do: Callable[[SharedSessions], R]) -> Operation[R | Failed | None]:
        """Access the barriers of sessions; Failed if Redis does not answer. May take 2 s."""
        coordination = self._host.coordination
        if coordination is None:
            return None
        if not coordination.is_connected:
            return Failed("Redis is away")
        shared = coordination.shared
        try:
            return (yield from call(self._world.block, lambda: do(SharedSessions(shared))))
        except Exception as error:
            return Failed(describe(error))

    # The backlog queue ---------------------------------------------------------------------------------------------

    def _new_link(self) -> AnyLink:
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
        self._host.pair_state.note_shortage(failure.error)
        self._note_refusal(failure.error, began)
        return Failed(describe(failure.error))

    def _note_refusal(self, error: Exception, began: float) -> None:
        if may_be_gone(error):
            self._must_identify, self.is_deleted = True, self.is_deleted or is_gone(error)
            self._host.pair_state.backlog_refused(self._queue, error, began)

    def _finds_another(self) -> Operation[bool]:
        """Whether the queue was deleted and created again; False as long as that is unknown."""
        found = yield from self._identity()
        self.is_deleted = self.is_deleted or not same_queue(found, self._created_at)
        self._must_identify = not found
        return self.is_deleted

    def receive(self, count: int, wait_s: float) -> Operation[list[Any] | Failed]:
        """Receive up to this many messages, waiting at most this long for the first."""
        if self._tally.grant_is_over or self._is_stale():
            yield from self._open_anew()
        used: list[Any] = []
        began = time.monotonic()

        def receive(receiver: Any, left_s: float) -> Operation[list[Any]]:
            used.append(receiver)
            self._tally.granted(receiver)
            return call(receiver.receive_messages, max_message_count=count, max_wait_time=wait_s)

        received = yield from self._with_receiver(receive, wait_s + 5.0)
        messages = [] if isinstance(received, Failed) else received
        self._tally.received(messages)
        found = undecoded(used[0], messages, self._held) if used else []
        self._received_at = time.monotonic()
        stumbled = not messages and time.monotonic() - began < wait_s / 2
        if isinstance(received, Failed) or stumbled:
            yield from self._open_anew()
        return messages + found or received

    def _is_stale(self) -> bool:
        return self._received_at is not None and time.monotonic() - self._received_at > STALE_S

    def _open_anew(self) -> Operation[None]:
        yield from self.close()
        self._link = self._new_link()

    def fetch(self, numbers: list[int]) -> Operation[list[Any] | Failed]:
        """Receive deferred messages by their numbers; missing ones are omitted."""
        found: list[Any] = []
        for part in by_partition(numbers):
            fetched = yield from self._with_receiver(partial(_fetch_all, numbers=part), SETTLE_S)
            if isinstance(fetched, Failed):
                return fetched
            found += fetched
        self._tally.received(found)
        return found

    def peek(self, number: int) -> Operation[list[Any] | Failed]:
        """Peek messages from this number on."""
        self._tally.managed()

        def peek(receiver: Any, left_s: float) -> Operation[list[Any]]:
            return call(receiver.peek_messages, PAGE, sequence_number=number, timeout=left_s)

        return (yield from self._with_receiver(peek, SETTLE_S))

    def renew(self, items: list[Item]) -> Operation[None]:
        """Renew the locks of these messages."""
        for item in items:
            self._tally.managed()
            renewed = yield from self._with_receiver(partial(_renew, message=item.received), SETTLE_S)
            if isinstance(renewed, Failed):
                return

    def settle(
        self, verb: Verb, items: list[Item], reason: str = "", description: str = ""
    ) -> Operation[list[Settled]]:
        """Settle messages, of which each outcome is recorded as soon as it is known."""
        outcomes: list[Settled] = ["unknown"] * len(items)
        messages = [item.received for item in items]

        def settle(receiver: Any, left_s: float) -> Operation[None]:
            if verb != "abandon":  # which only releases them
                require_lease(self._holds)
            if isinstance(messages[0], Undecoded):
                arguments = dead_lettering(messages[0], reason, description)
                yield from call(receiver._settle_message_via_mgmt_link, **arguments)
                outcomes[0] = "done"
            else:
                how = (verb, messages, reason, description)
                yield from choose(receiver)(receiver, how, outcomes, left_s)

        yield from self._with_receiver(settle, SETTLE_S)
        self._tally.settled(items, outcomes)
        return outcomes

    def count(self) -> Operation[int | Failed]:
        """The number of active messages in the queue."""
        try:
            properties = yield from self._properties()
        except Exception as error:
            return Failed(describe(error))
        return properties.active_message_count or 0

    def _properties(self) -> Operation[Any]:
        self._tally.managed()
        look = self._host.secondary.administration.get_queue_runtime_properties
        return (yield from call(self._world.ask, look, self._queue))


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
