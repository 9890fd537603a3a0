"""The syphon over the blocking SDK: brings the backlog queues of a pair home, each on a thread of its own.

What happens to a message is decided in ``pairing.drain.flow``; here its actions are performed, on links that never
hang. With coordination each queue is served under a lease, and pauses are obeyed.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

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
from pairing.drain.settlement import Settlement, choose
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
from pairing.drive import drive
from pairing.health.faults import describe, is_ambiguous
from pairing.links import Link, LinkFailure
from pairing.messages.undecodable import Undecoded, dead_lettering, undecoded
from pairing.sessions.drain import Bar, Barred, Lift, SessionMove

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient


class Syphon(Syphoning):
    """Brings messages home from the backlog queues of an open client's pair, at least once and never losing one.

    ``queues`` names the backlog queues where it shall not be all of the client's: orphans, say.
    """

    def __init__(self, client: "PairedServiceBusClient", *, queues: Iterable[str] | None = None) -> None:
        super().__init__(client, queues=queues)
        self._client = client
        self._senders: dict[str, Link] = {}
        self._lock = threading.Lock()

    def run(self, stop: threading.Event) -> None:
        """Moves messages until ``stop``, or until the client is closed; within 2 s no new receive or send begins.

        What is in flight gets the close grace. Raises nothing because of an outage: it waits, and says so in
        ``progress``.
        """
        tenure, threads, ending = self._tenure(), list[threading.Thread](), threading.Event()
        self.tell("syphon_started", "*", f"at {self._client.process}")
        try:
            while not stop.is_set() and not self._is_over:
                tenure.look()
                threads = [thread for thread in threads if thread.is_alive()]
                threads += [self._begin(queue, tenure, stop, ending) for queue in tenure.vacant()]
                stop.wait(LOOK_S)
        finally:
            ending.set()
            until = time.monotonic() + seconds(self._client.options.close_grace)
            while (left := until - time.monotonic()) > 0 and (busy := [one for one in threads if one.is_alive()]):
                tenure.look(leaving=True)
                busy[0].join(min(left, LOOK_S))
            tenure.give_up()
            for link in self._senders.values():
                link.close(0)
            self.tell("syphon_stopped", "*", f"at {self._client.process}")

    def _begin(self, queue: str, tenure: Tenure, stop: threading.Event, ending: threading.Event) -> threading.Thread:
        token = tenure.begin(queue)

        def is_leaving() -> bool:
            return stop.is_set() or ending.is_set() or self._is_over

        def holds() -> bool:
            return tenure.holds(queue, token)

        def may_work() -> bool:
            return not is_leaving() and tenure.may_serve(queue, token)

        def serve() -> None:
            try:
                self._serve(queue, token, holds, may_work, stop.wait)
            finally:
                tenure.end(queue, leaving=is_leaving())

        name = f"pairing-syphon-{queue.rsplit('/', 1)[-1]}"
        thread = threading.Thread(target=serve, name=name, daemon=True)
        thread.start()
        return thread

    def _serve(
        self,
        queue: str,
        token: int | None,
        holds: Callable[[], bool],
        may_work: Callable[[], bool],
        rest: Callable[[float], object],
    ) -> None:
        """One backlog queue, as long as it is this process's to serve."""
        hands = Hands(self._client, queue, self._sender, rest, holds)
        try:
            hands.books = Books(self._client, queue, hands.created_at(), token, holds)
            homecoming = self._homecoming(hands.books, queue, may_work)
            drive(self._in_turn(homecoming, may_work), hands.perform)
        finally:
            hands.close()
            if queue in self.progress:
                self.progress[queue].state = "stopped"

    def _sender(self, path: str) -> Link:
        with self._lock:
            link = self._senders.get(path)
            if link is None:
                client = self._client
                link = self._senders[path] = Link(lambda: client.sdk_sender("primary", path), client.watchdog)
            return link


class Hands:
    """Performs the actions of one queue's homecoming, and meters them."""

    def __init__(
        self,
        client: "PairedServiceBusClient",
        queue: str,
        sender: Callable[[str], Link],
        rest: Callable[[float], object],
        holds: Callable[[], bool],
    ) -> None:
        self._client, self._queue, self._sender, self._rest = client, queue, sender, rest
        self._holds = holds
        self.books: Books | None = None
        self._tally = Tally(client, queue)
        self._settlement: Settlement | None = None
        self._link = self._new_link()

    def perform(self, action: Action | SessionMove) -> Any:
        """The outcome of one action; nothing is raised."""
        match action:
            case Receive():
                return self._receive(action)
            case Send():
                return self._send(action)
            case Settle():
                return self._settle(action)
            case Fetch():
                return self._fetch(action.numbers)
            case Peek():
                return self._peek(action.number)
            case Count():
                return self._waiting()
            case Keep():
                return self.books is None or self.books.keep(action.ledger)
            case Renew():
                return self._renew(action.items)
            case Rest():
                return self._rest(action.seconds)
            case Barred() | Bar() | Lift():
                return told_sessions(self._client, self._queue, action)

    def created_at(self) -> str:
        """When the queue was created, which with its path is its identity; empty where the namespace does not say."""
        self._tally.managed()
        try:
            look = self._client.secondary.administration.get_queue_runtime_properties
            return str(look(self._queue, connection_timeout=ASK_S, read_timeout=ASK_S).created_at_utc)
        except Exception:
            return ""

    def close(self) -> None:
        """Gives the link up: what was granted and not delivered goes back to the queue."""
        self._tally.grant_ended()
        self._link.close(1.0)

    # The backlog queue ---------------------------------------------------------------------------------------------

    def _new_link(self) -> Link:
        return Link(cast("Callable[[], Any]", self._make_receiver), self._client.watchdog)

    def _make_receiver(self) -> ServiceBusReceiver:
        """With prefetch the SDK grants credit once, for a whole batch, and waits for it without sending anything."""
        return self._client.secondary.sdk.get_queue_receiver(self._queue, prefetch_count=BATCH - 1, keep_alive=0)

    def _with_receiver(self, operation: Callable[[ServiceBusReceiver, float], Any], timeout_s: float) -> Any:
        """What the operation returns, or Failed."""
        answers: list[Any] = []

        def attempt(receiver: Any, left_s: float) -> None:
            answers.append(operation(receiver, left_s))

        opening_s = 0.0 if self._link.sender is not None else OPEN_S
        failure = self._link.attempt(attempt, timeout_s + opening_s)
        return Failed(describe(failure.error)) if failure is not None else answers[0]

    def _receive(self, action: Receive) -> Any:
        if self._tally.grant_is_over:
            self.close()
            self._link = self._new_link()

        used: list[ServiceBusReceiver] = []
        began = time.monotonic()

        def receive(receiver: ServiceBusReceiver, left_s: float) -> list[Any]:
            used.append(receiver)
            self._tally.granted(receiver)
            return receiver.receive_messages(max_message_count=action.count, max_wait_time=action.wait_s)

        received = self._with_receiver(receive, action.wait_s + 5.0)
        messages = [] if isinstance(received, Failed) else received
        self._tally.received(messages)
        found = undecoded(used[0], messages) if used else []
        stumbled = not messages and time.monotonic() - began < action.wait_s / 2
        if isinstance(received, Failed) or stumbled:
            self.close()
            self._link = self._new_link()
        return messages + found or received

    def _fetch(self, numbers: list[int]) -> Any:
        found: list[Any] = []
        for part in by_partition(numbers):
            fetched = self._with_receiver(partial(_fetch_all, numbers=part), SETTLE_S)
            if isinstance(fetched, Failed):
                return fetched
            found += fetched
        self._tally.received(found)
        return found

    def _peek(self, number: int) -> Any:
        self._tally.managed()
        return self._with_receiver(
            lambda receiver, left: receiver.peek_messages(PAGE, sequence_number=number, timeout=left), SETTLE_S
        )

    def _renew(self, items: list[Item]) -> None:
        for item in items:
            self._tally.managed()
            renewed = self._with_receiver(partial(_renew, message=item.received), SETTLE_S)
            if isinstance(renewed, Failed):
                return

    def _settle(self, action: Settle) -> list[Settled]:
        if isinstance(action.items[0].received, Undecoded):
            return self._set_aside(action)
        outcomes: list[Settled] = []
        messages = [item.received for item in action.items]

        def settle(receiver: ServiceBusReceiver, left_s: float) -> None:
            self._heed(action)
            self._settlement = way = self._settlement or choose(receiver)
            for outcome in way.settle(receiver, action.verb, messages, action.reason, action.description, left_s):
                outcomes.append(outcome)  # one by one: they count as far as they come, should the link break

        self._with_receiver(settle, SETTLE_S)
        self._tally.settled(action.items, outcomes)
        return outcomes + ["unknown"] * (len(messages) - len(outcomes))

    def _heed(self, action: Settle) -> None:
        """What takes messages away, or aside, is done under a lease only; giving them back is always right."""
        if action.verb != "abandon":
            heed(self._holds)

    def _set_aside(self, action: Settle) -> list[Settled]:
        """Dead-letters, by its lock, what could not be decoded."""
        found: Any = action.items[0].received
        arguments = dead_lettering(found, action.reason, action.description)

        def settle(receiver: Any, left_s: float) -> None:
            self._heed(action)
            receiver._settle_message_via_mgmt_link(**arguments)

        if isinstance(self._with_receiver(settle, SETTLE_S), Failed):
            return ["unknown"]
        self._tally.settled(action.items, ["done"])
        return ["done"]

    def _waiting(self) -> Any:
        self._tally.managed()
        try:
            properties = self._client.secondary.administration.get_queue_runtime_properties(
                self._queue, connection_timeout=ASK_S, read_timeout=ASK_S
            )
        except Exception as error:
            return Failed(describe(error))
        return properties.active_message_count or 0

    # The primary ---------------------------------------------------------------------------------------------------

    def _send(self, action: Send) -> Sent:
        tracing = self._client.tracing
        if tracing is None:
            return self._transfer(action)
        with tracing.moving(self._queue, action.path, action.items) as ended:
            sent = self._transfer(action)
            ended(sent)
            return sent

    def _transfer(self, action: Send) -> Sent:
        link = self._sender(action.path)
        count, failure = self._send_some(link, action.items)
        if failure is not None and failure.reused and is_ambiguous(failure.error):
            count, failure = self._send_some(link, action.items)  # a link gone stale says nothing of the destination
        if failure is not None:
            self._tally.refused(action.path)
            return Sent(0, self._why(failure.error, action.path), describe(failure.error))
        self._tally.sent(action.path, action.items[:count])
        return Sent(count)

    def _send_some(self, link: Link, items: list[Item]) -> tuple[int, LinkFailure | None]:
        """As many as one transfer takes, from the first on: how many these were, or why they failed."""
        counts: list[int] = []

        def send(sender: Any, left_s: float) -> None:
            outgoing, count = filled(sender.create_message_batch(), items) if len(items) > 1 else (items[0].message, 1)
            heed(self._holds)
            sender.send_messages(outgoing, timeout=left_s)
            counts.append(count)

        failure = link.attempt(send, SEND_S)
        return (counts[0] if failure is None else 0), failure

    def _why(self, error: Exception, path: str) -> Why:
        """Whose fault it is; the service refuses the token for an entity that is gone as it refuses a wrong key."""
        why = why_refused(error)
        return "final" if isinstance(error, ServiceBusAuthenticationError) and self._is_gone(path) else why

    def _is_gone(self, path: str) -> bool:
        """Whether the primary's administration says that there is no such entity; False where it says nothing."""
        self._tally.asked(path, 2)
        try:
            administration = self._client.primary.administration
        except ServiceBusError:  # that end is closed
            return False
        for look in (administration.get_queue, administration.get_topic):
            try:
                look(path, connection_timeout=ASK_S, read_timeout=ASK_S)
            except ResourceNotFoundError:
                continue
            except Exception:
                return False
            return False
        return True


def _renew(receiver: ServiceBusReceiver, timeout_s: float, *, message: Any) -> None:
    with contextlib.suppress(MessageLockLostError):  # the others' locks may still stand
        receiver.renew_message_lock(message, timeout=timeout_s)


def _fetch_all(receiver: ServiceBusReceiver, timeout_s: float, *, numbers: list[int]) -> list[Any]:
    """Those deferred messages that are still there: one that is gone makes the service refuse them all."""
    try:
        return receiver.receive_deferred_messages(numbers, timeout=timeout_s)
    except MessageNotFoundError:
        if len(numbers) == 1:
            return []
        half = len(numbers) // 2
        halves = numbers[:half], numbers[half:]
        return [message for part in halves for message in _fetch_all(receiver, timeout_s, numbers=part)]
