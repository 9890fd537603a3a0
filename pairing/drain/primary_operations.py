"""What a syphon does in the primary: it sends what it took from a backlog queue, and asks whose fault a refusal is."""

import math
import time
from collections.abc import Callable
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusAuthenticationError, ServiceBusError

from pairing.drain.backlog_queue import Item, Sent, Why
from pairing.drain.destinations import Connections
from pairing.drain.host import SyphonHost, World, attempt
from pairing.drain.refusals import require_lease, why_refused
from pairing.drain.shared.usage import Tally
from pairing.drive import Operation, call
from pairing.health.faults import describe, is_ambiguous
from pairing.links.failures import AnyLink, LinkFailure

SEND_S = 10.0
_SILENT_S = 30.0
"""For how long an administration that did not answer is not asked again."""


class PrimaryOperations:
    """Sends to the entities of the primary, and meters it."""

    def __init__(
        self,
        host: SyphonHost,
        world: World,
        queue: str,
        connections: Connections,
        holds: Callable[[], bool],
        tally: Tally,
    ) -> None:
        self._host, self._world, self._queue = host, world, queue
        self._connections, self._holds, self._tally = connections, holds, tally
        self._asking = world.lock()
        self._ask_again_at = 0.0

    def send(self, path: str, items: list[Item]) -> Operation[Sent]:
        """Send one group; returns how many were accepted, and why no more."""
        tracing = self._host.tracing
        if tracing is None:
            return (yield from self._transfer(path, items))
        with tracing.moving(self._queue, path, items) as ended:
            sent = yield from self._transfer(path, items)
            ended(sent.count, sent.why, sent.text)
            return sent

    def _transfer(self, path: str, items: list[Item]) -> Operation[Sent]:
        yield from self._close_idle(time.monotonic())
        link = self._connections.link(path)
        counts, failure = yield from self._send_some(link, items)
        if failure is not None and failure.reused and is_ambiguous(failure.error):  # a stale link says nothing of it
            counts, failure = yield from self._send_some(link, items)
        if failure is not None:
            self._tally.refused(path)
            why = yield from self._why(failure.error, path)
            self._host.pair_state.note_shortage(failure.error)
            if why == "shortage":
                yield from self._close_idle(math.inf)
            return Sent(0, why, describe(failure.error))
        self._tally.sent(path, items[: counts[0]])
        return Sent(counts[0])

    def _close_idle(self, now: float) -> Operation[None]:
        yield from call(self._world.close_links, self._connections.idle(now))

    def _send_some(self, link: AnyLink, items: list[Item]) -> Operation[tuple[list[int], LinkFailure | None]]:
        """As many as one transfer takes, from the first on: how many these were, or why they failed."""

        def send(sender: Any, left_s: float) -> Operation[int]:
            outgoing, count = items[0].message, 1
            if len(items) > 1:
                outgoing, count = filled((yield from call(sender.create_message_batch)), items)
            require_lease(self._holds)
            yield from call(sender.send_messages, outgoing, timeout=left_s)
            return count

        return attempt(self._world, link, send, SEND_S)

    def _why(self, error: Exception, path: str) -> Operation[Why]:
        """Whose fault it is; the service refuses the token for an entity that is gone as it refuses a wrong key."""
        why = why_refused(error)
        if isinstance(error, ServiceBusAuthenticationError) and (yield from self._is_gone(path)):
            return "final"
        return why

    def _is_gone(self, path: str) -> Operation[bool]:
        """Whether the primary's administration says that there is no such entity; False where it says nothing."""
        yield from call(self._asking.acquire)  # one question at a time, because each opens a connection
        try:
            return time.monotonic() >= self._ask_again_at and (yield from self._finds_nothing(path))
        finally:
            self._asking.release()

    def _finds_nothing(self, path: str) -> Operation[bool]:
        self._tally.asked(path, 2)
        try:
            administration = self._host.primary.administration
        except ServiceBusError:  # that end is closed
            return False
        for look in (administration.get_queue, administration.get_topic):
            try:
                yield from call(self._world.ask, look, path)
            except ResourceNotFoundError:
                continue
            except Exception:  # its silence would keep the places of all who ask
                self._ask_again_at = time.monotonic() + _SILENT_S
                return False
            return False
        return True


def filled(batch: Any, items: list[Item]) -> tuple[Any, int]:
    """What one transfer takes of these messages, from the first on, and how many they are."""
    for item in items:
        try:
            batch.add_message(item.message)
        except MessageSizeExceededError:
            break
    return (batch, len(batch)) if len(batch) else (items[0].message, 1)
