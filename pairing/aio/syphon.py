"""The syphon over the asyncio SDK: the same rules as the blocking one's, each backlog queue in a task of its own."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.aio import ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from pairing.aio.links import Link
from pairing.clock import seconds
from pairing.drain.actions import (
    BATCH,
    Action,
    Count,
    Failed,
    Fetch,
    Item,
    Keep,
    Peek,
    Receive,
    Renew,
    Rest,
    Send,
    Sent,
    Settle,
    Settled,
    Why,
)
from pairing.drain.lease_holder import LOOK_S, Tenure
from pairing.drain.stored_ledger import Books
from pairing.drain.syphons import (
    ASK_S,
    OPEN_S,
    PAGE,
    SEND_S,
    SETTLE_S,
    Syphoning,
    Tally,
    by_partition,
    filled,
    heed,
    told_sessions,
    why_refused,
)
from pairing.drive import drive_async
from pairing.health.faults import describe, is_ambiguous
from pairing.links import LinkFailure
from pairing.messages.undecodable import Undecoded, dead_lettering, undecoded
from pairing.sessions.drain import Bar, Barred, Lift, SessionMove

if TYPE_CHECKING:
    from pairing.aio.client import PairedServiceBusClient


class Syphon(Syphoning):
    """Brings messages home from the backlog queues of an open client's pair, at least once and never losing one.

    ``queues`` names the backlog queues where it shall not be all of the client's: orphans, say.
    """

    def __init__(self, client: "PairedServiceBusClient", *, queues: Iterable[str] | None = None) -> None:
        super().__init__(client, queues=queues)
        self._client = client
        self._senders: dict[str, Link] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Moves messages until ``stop``, or until the client is closed; within 2 s no new receive or send begins.

        What is in flight gets the close grace. Raises nothing because of an outage: it waits, and says so in
        ``progress``.
        """
        tenure, tasks, ending = self._tenure(), set[asyncio.Task[None]](), asyncio.Event()
        self.tell("syphon_started", "*", f"at {self._client.process}")
        try:
            while not stop.is_set() and not self._is_over:
                await asyncio.to_thread(tenure.look)
                tasks = {task for task in tasks if not task.done()}
                tasks |= {self._begin(queue, tenure, stop, ending) for queue in tenure.vacant()}
                await _rest(stop, LOOK_S)
        finally:
            ending.set()
            await self._end(tasks, tenure)
            await asyncio.to_thread(tenure.give_up)
            self.tell("syphon_stopped", "*", f"at {self._client.process}")

    def _begin(self, queue: str, tenure: Tenure, stop: asyncio.Event, ending: asyncio.Event) -> "asyncio.Task[None]":
        token = tenure.begin(queue)

        def is_leaving() -> bool:
            return stop.is_set() or ending.is_set() or self._is_over

        def holds() -> bool:
            return tenure.holds(queue, token)

        def may_work() -> bool:
            return not is_leaving() and tenure.may_serve(queue, token)

        async def serve() -> None:
            try:
                await self._serve(queue, token, holds, may_work, partial(_rest, stop))
            finally:
                await asyncio.to_thread(tenure.end, queue, leaving=is_leaving())

        return asyncio.create_task(serve(), name=f"pairing-syphon-{queue.rsplit('/', 1)[-1]}")

    async def _serve(
        self,
        queue: str,
        token: int | None,
        holds: Callable[[], bool],
        may_work: Callable[[], bool],
        rest: Callable[[float], Awaitable[None]],
    ) -> None:
        """One backlog queue, as long as it is this process's to serve."""
        hands = Hands(self._client, queue, self._sender, rest, holds)
        try:
            hands.books = Books(self._client, queue, await hands.created_at(), token, holds)
            homecoming = await asyncio.to_thread(self._homecoming, hands.books, queue, may_work)
            await drive_async(self._in_turn(homecoming, may_work), hands.perform)
        finally:
            await hands.close()
            if queue in self.progress:
                self.progress[queue].state = "stopped"

    async def _end(self, tasks: "set[asyncio.Task[None]]", tenure: Tenure) -> None:
        until, busy = time.monotonic() + seconds(self._client.options.close_grace), tasks
        while busy and (left := until - time.monotonic()) > 0:
            await asyncio.to_thread(tenure.look, leaving=True)
            _, busy = await asyncio.wait(busy, timeout=min(left, LOOK_S))
        await self._client.background.cancel(busy)
        await asyncio.gather(*(link.close(0.5) for link in self._senders.values()))

    def _sender(self, path: str) -> Link:
        link = self._senders.get(path)
        if link is None:
            make = cast("Callable[[], Awaitable[Any]]", partial(self._client.sdk_sender, "primary", path))
            link = self._senders[path] = Link(make, self._client.background)
        return link


async def _rest(stop: asyncio.Event, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await stop.wait()
    except TimeoutError:
        return


class Hands:
    """Performs the actions of one queue's homecoming, and meters them."""

    def __init__(
        self,
        client: "PairedServiceBusClient",
        queue: str,
        sender: Callable[[str], Link],
        rest: Callable[[float], Awaitable[None]],
        holds: Callable[[], bool],
    ) -> None:
        self._client, self._queue, self._sender, self._rest = client, queue, sender, rest
        self._holds = holds
        self.books: Books | None = None
        self._tally = Tally(client, queue)
        self._link = self._new_link()

    async def perform(self, action: Action | SessionMove) -> Any:
        """The outcome of one action; nothing is raised but cancellation."""
        match action:
            case Receive():
                return await self._receive(action)
            case Send():
                return await self._send(action)
            case Settle():
                return await self._settle(action)
            case Fetch():
                return await self._fetch(action.numbers)
            case Peek():
                return await self._peek(action.number)
            case Count():
                return await self._waiting()
            case Keep():
                return await self._keep(action)
            case Renew():
                return await self._renew(action.items)
            case Rest():
                return await self._rest(action.seconds)
            case Barred() | Bar() | Lift():
                return await asyncio.to_thread(told_sessions, self._client, self._queue, action)

    async def created_at(self) -> str:
        """When the queue was created, which with its path is its identity; empty where the namespace does not say."""
        self._tally.managed()
        try:
            asked = self._client.secondary.administration.get_queue_runtime_properties(self._queue)
            return str((await asyncio.wait_for(asked, ASK_S)).created_at_utc)
        except Exception:
            return ""

    async def _keep(self, action: Keep) -> bool:
        if self.books is None or self._client.coordination is None:
            return True
        return await asyncio.to_thread(self.books.keep, action.ledger)

    async def close(self) -> None:
        """Gives the link up: what was granted and not delivered goes back to the queue."""
        self._tally.grant_ended()
        await self._link.close(1.0)

    # The backlog queue ---------------------------------------------------------------------------------------------

    def _new_link(self) -> Link:
        return Link(cast("Callable[[], Awaitable[Any]]", self._make_receiver), self._client.background)

    async def _make_receiver(self) -> ServiceBusReceiver:
        """With prefetch the SDK grants credit once, for a whole batch, and waits for it without sending anything."""
        return self._client.secondary.sdk.get_queue_receiver(self._queue, prefetch_count=BATCH - 1, keep_alive=0)

    async def _with_receiver(self, operation: Callable[[Any, float], Awaitable[Any]], timeout_s: float) -> Any:
        """What the operation returns, or Failed."""
        answers: list[Any] = []

        async def attempt(receiver: Any, left_s: float) -> None:
            answers.append(await operation(receiver, left_s))

        opening_s = 0.0 if self._link.sender is not None else OPEN_S
        failure = await self._link.attempt(attempt, timeout_s + opening_s)
        return Failed(describe(failure.error)) if failure is not None else answers[0]

    async def _receive(self, action: Receive) -> Any:
        if self._tally.grant_is_over:
            await self.close()
            self._link = self._new_link()

        used: list[Any] = []
        began = time.monotonic()

        async def receive(receiver: Any, left_s: float) -> Any:
            used.append(receiver)
            self._tally.granted(receiver)
            return await receiver.receive_messages(max_message_count=action.count, max_wait_time=action.wait_s)

        received = await self._with_receiver(receive, action.wait_s + 5.0)
        messages = [] if isinstance(received, Failed) else received
        self._tally.received(messages)
        found = undecoded(used[0], messages) if used else []
        stumbled = not messages and time.monotonic() - began < action.wait_s / 2
        if isinstance(received, Failed) or stumbled:
            await self.close()
            self._link = self._new_link()
        return messages + found or received

    async def _fetch(self, numbers: list[int]) -> Any:
        found: list[Any] = []
        for part in by_partition(numbers):
            fetched = await self._with_receiver(partial(_fetch_all, numbers=part), SETTLE_S)
            if isinstance(fetched, Failed):
                return fetched
            found += fetched
        self._tally.received(found)
        return found

    async def _peek(self, number: int) -> Any:
        self._tally.managed()
        return await self._with_receiver(
            lambda receiver, left: receiver.peek_messages(PAGE, sequence_number=number, timeout=left), SETTLE_S
        )

    async def _renew(self, items: list[Item]) -> None:
        for item in items:
            self._tally.managed()
            renewed = await self._with_receiver(partial(_renew, message=item.received), SETTLE_S)
            if isinstance(renewed, Failed):
                return

    async def _settle(self, action: Settle) -> list[Settled]:
        """All at once: the answers overlap, so that a wide-area round trip does not set the pace."""
        if isinstance(action.items[0].received, Undecoded):
            return await self._set_aside(action)
        outcomes: list[Settled] = ["unknown"] * len(action.items)

        async def settle(receiver: Any, left_s: float) -> None:
            self._heed(action)
            one = _settler(receiver, action)

            async def settle_one(at: int, item: Item) -> None:
                try:
                    await one(item.received)
                except (MessageLockLostError, MessageNotFoundError):
                    outcomes[at] = "lost"
                except MessageAlreadySettled:
                    outcomes[at] = "done"
                else:
                    outcomes[at] = "done"

            await asyncio.gather(*(settle_one(at, item) for at, item in enumerate(action.items)))

        await self._with_receiver(settle, SETTLE_S)
        self._tally.settled(action.items, outcomes)
        return outcomes

    def _heed(self, action: Settle) -> None:
        """What takes messages away, or aside, is done under a lease only; giving them back is always right."""
        if action.verb != "abandon":
            heed(self._holds)

    async def _set_aside(self, action: Settle) -> list[Settled]:
        """Dead-letters, by its lock, what could not be decoded."""
        found: Any = action.items[0].received
        arguments = dead_lettering(found, action.reason, action.description)

        async def settle(receiver: Any, left_s: float) -> None:
            self._heed(action)
            await receiver._settle_message_via_mgmt_link(**arguments)

        if isinstance(await self._with_receiver(settle, SETTLE_S), Failed):
            return ["unknown"]
        self._tally.settled(action.items, ["done"])
        return ["done"]

    async def _waiting(self) -> Any:
        self._tally.managed()
        try:
            asked = self._client.secondary.administration.get_queue_runtime_properties(self._queue)
            properties = await asyncio.wait_for(asked, ASK_S)
        except Exception as error:
            return Failed(describe(error))
        return properties.active_message_count or 0

    # The primary ---------------------------------------------------------------------------------------------------

    async def _send(self, action: Send) -> Sent:
        tracing = self._client.tracing
        if tracing is None:
            return await self._transfer(action)
        with tracing.moving(self._queue, action.path, action.items) as ended:
            sent = await self._transfer(action)
            ended(sent)
            return sent

    async def _transfer(self, action: Send) -> Sent:
        link = self._sender(action.path)
        count, failure = await self._send_some(link, action.items)
        if failure is not None and failure.reused and is_ambiguous(failure.error):
            count, failure = await self._send_some(link, action.items)  # a stale link says nothing of the destination
        if failure is not None:
            self._tally.refused(action.path)
            return Sent(0, await self._why(failure.error, action.path), describe(failure.error))
        self._tally.sent(action.path, action.items[:count])
        return Sent(count)

    async def _send_some(self, link: Link, items: list[Item]) -> tuple[int, LinkFailure | None]:
        """As many as one transfer takes, from the first on: how many these were, or why they failed."""
        counts: list[int] = []

        async def send(sender: Any, left_s: float) -> None:
            outgoing, count = items[0].message, 1
            if len(items) > 1:
                outgoing, count = filled(await sender.create_message_batch(), items)
            heed(self._holds)
            await sender.send_messages(outgoing, timeout=left_s)
            counts.append(count)

        failure = await link.attempt(send, SEND_S)
        return (counts[0] if failure is None else 0), failure

    async def _why(self, error: Exception, path: str) -> Why:
        """Whose fault it is; the service refuses the token for an entity that is gone as it refuses a wrong key."""
        why = why_refused(error)
        return "final" if isinstance(error, ServiceBusAuthenticationError) and await self._is_gone(path) else why

    async def _is_gone(self, path: str) -> bool:
        """Whether the primary's administration says that there is no such entity; False where it says nothing."""
        self._tally.asked(path, 2)
        try:
            administration = self._client.primary.administration
        except ServiceBusError:  # that end is closed
            return False
        for look in (administration.get_queue, administration.get_topic):
            try:
                await asyncio.wait_for(look(path), ASK_S)
            except ResourceNotFoundError:
                continue
            except Exception:
                return False
            return False
        return True


def _settler(receiver: ServiceBusReceiver, action: Settle) -> Callable[[Any], Awaitable[None]]:
    match action.verb:
        case "complete":
            return receiver.complete_message
        case "defer":
            return receiver.defer_message
        case "abandon":
            return receiver.abandon_message
        case "dead_letter":
            return partial(receiver.dead_letter_message, reason=action.reason, error_description=action.description)


async def _renew(receiver: ServiceBusReceiver, timeout_s: float, *, message: Any) -> None:
    with contextlib.suppress(MessageLockLostError):  # the others' locks may still stand
        await receiver.renew_message_lock(message, timeout=timeout_s)


async def _fetch_all(receiver: ServiceBusReceiver, timeout_s: float, *, numbers: list[int]) -> list[Any]:
    """Those deferred messages that are still there: one that is gone makes the service refuse them all."""
    try:
        return await receiver.receive_deferred_messages(numbers, timeout=timeout_s)
    except MessageNotFoundError:
        if len(numbers) == 1:
            return []
        half = len(numbers) // 2
        first = await _fetch_all(receiver, timeout_s, numbers=numbers[:half])
        return first + await _fetch_all(receiver, timeout_s, numbers=numbers[half:])
