"""Dead letters sent again or discarded, by whichever worker claims the job.

A message is sent, the acknowledgement awaited, and only then is its dead letter completed: a worker killed in between
leaves one that is sent a second time under the same message_id, never one that is lost. A discarded message is on
record before it goes. Which ones a worker begins with is written down before: who finds them gone knows that they are
done, and counts each once.
"""

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from azure.servicebus import ServiceBusSubQueue

from dashboard.backlog.browsing import body_bytes, shown
from dashboard.backlog.places import Place, place
from dashboard.models import DeadLetterJob, DiscardedMessage
from dashboard.site.redis import RedisError, announce_change
from pairing import PairedServiceBusClient
from pairing.drain.actions import Item
from pairing.drain.dead_letter_results import SharedDecisions
from pairing.drain.ledger import Decision
from pairing.drain.refusals import why_refused
from pairing.drain.settlement import choose
from pairing.drain.sorting import groups
from pairing.health.faults import describe
from pairing.links import Link
from pairing.messages.rewriting import RESERVED, PoisonedMessage, restore, resubmission
from pairing.messages.sizes import received_size
from pairing.telemetry.metering import billing_units
from workers.celery import SLICE_S, app
from workers.connections import client, outages_told
from workers.slices import slice_of

log = structlog.get_logger(__name__)

CLAIM_S = 60.0
RETRY_S = 15.0
BATCH = 100
MOST_HELD, MOST_HELD_BYTES = 10_000, 64 * 1024**2  # kept locked to reach what is behind them
REACH_S = 40.0  # without anything done; less than a slice
_PAGE = 250
_WAIT_S, _OPEN_S, _SEND_S, _SETTLE_S = 2.0, 10.0, 10.0, 15.0


class Away(Exception):
    """A namespace does not do what it is asked now; the job waits and goes on. The text is for people."""


@app.task(name="backlog.dead_letters")
def dead_letters() -> None:
    """Wakes a task for each job that nobody carries on."""
    for row in DeadLetterJob.unclaimed(datetime.now(UTC)):
        carry_out.apply_async((row.pk,), expires=5)


@app.task(name="backlog.carry_out")
def carry_out(key: int) -> None:
    """Carries one job on for a slice of time; the next tick goes on where this one ended."""
    with slice_of(f"dead letters {key}", SLICE_S, room="errands") as stop:
        row = DeadLetterJob.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), CLAIM_S):
            return
        with outages_told("dead letters", row.pair.name):
            Job(row, client(row.pair.name), stop).run()
        announce_change()


class Job:
    """One run over the dead letters of one queue or subscription."""

    def __init__(self, row: DeadLetterJob, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        at = place(row.pair, row.path) or Place("secondary")
        self._end_of = connected.primary if at.role == "primary" else connected.secondary
        self._receiver = Link(self._make_receiver, connected.watchdog)
        self._senders: dict[str, Link] = {}
        self._left = set(row.numbers) - set(row.finished)
        self._under_way = set(row.under_way)
        self._sent: set[int] = set()
        self._refused: dict[int, str] = {}
        self._held: dict[int, tuple[Any, int]] = {}  # with their sizes
        self._has_lapsed = False
        self._done_before, self._useful_at = row.done, time.monotonic()

    def run(self) -> None:
        """Until all are done, the slice is over, no more can be reached, or somebody has stopped it."""
        try:
            self._recall()
            while not self._is_over():
                if self._stop.is_set():
                    return self._lay_down()
                if self._is_at_its_limit():
                    return self._turn_back()
                received = self._receive()
                fresh = self._hold(received)
                wanted = [message for message in received if self._is_wanted(message.sequence_number)]
                self._has_lapsed = not wanted and len(fresh) < len(received)
                self._under_way.update(message.sequence_number for message in wanted)
                if not self._keep():
                    return None
                self._take(wanted)
                if not self._has_lapsed and not self._may_bring_more(fresh):
                    self._require_that_none_is_left()
                    return self._end()
            self._end()
        except Away as error:
            until = datetime.now(UTC) + timedelta(seconds=RETRY_S)
            self._save(detail=f"{error} It is tried again.", claimed_until=until, claimed_by="")
        finally:
            self._give_back()
        return None

    def _is_over(self) -> bool:
        """Whether none is left to deal with. Raises Away.

        Where all are wanted, a peek says so once there were as many as were confirmed: a receive would only wait.
        """
        if self._row.numbers:
            return not self._left - self._refused.keys()
        return self._row.done + len(self._refused) >= self._row.total and not self._remaining()

    def _hold(self, received: list[Any]) -> list[int]:
        """Which of them were not held before."""
        fresh = [message.sequence_number for message in received if message.sequence_number not in self._held]
        self._held |= {message.sequence_number: (message, received_size(message)) for message in received}
        return fresh

    def _take(self, wanted: list[Any]) -> None:
        if self._row.kind == DeadLetterJob.Kind.DISCARD:
            self._discard(wanted)
        else:
            self._resubmit(wanted)

    def _may_bring_more(self, fresh: list[int]) -> bool:
        return bool(fresh) and (bool(self._row.numbers) or min(fresh) <= self._row.upto)

    def _is_wanted(self, number: int) -> bool:
        if number in self._refused:
            return False
        return number in self._left if self._row.numbers else number <= self._row.upto

    def _is_at_its_limit(self) -> bool:
        """Whether the first locks have lapsed, or soon will, or more is kept locked than there is room for."""
        is_full = len(self._held) >= MOST_HELD or sum(size for _, size in self._held.values()) >= MOST_HELD_BYTES
        is_late = bool(self._held) and time.monotonic() - self._useful_at >= REACH_S
        return self._has_lapsed or is_full or is_late

    def _turn_back(self) -> None:
        """What was done leaves fewer before the others: the next slice reaches further. After nothing, it would not."""
        if self._row.done > self._done_before:
            return self._lay_down()
        return self._end(self._remaining())

    # What is written down --------------------------------------------------------------------------------------------

    def _keep(self) -> bool:
        """How far it is, and which ones it begins with. False: it was stopped, or another carries it on."""
        kept = self._save(claimed_until=datetime.now(UTC) + timedelta(seconds=CLAIM_S), detail="")
        announce_change()
        return kept

    def _lay_down(self) -> None:
        self._save(claimed_until=None, claimed_by="")

    def _save(self, **changes: Any) -> bool:
        """Where an operator has stopped it, what was done until then counts all the same."""
        told: dict[str, Any] = {"done": self._row.done, "failed": len(self._refused)}
        told["finished"] = [number for number in self._row.numbers if number not in self._left]
        told["under_way"] = sorted(self._under_way)
        kept = self._row.keep(**told, **changes)
        if not kept:
            DeadLetterJob.objects.filter(pk=self._row.pk, claimed_by=self._row.claimed_by).update(**told)
        return kept

    def _finish(self, numbers: Collection[int]) -> None:
        """These are done."""
        self._row.done += len(numbers)
        self._left.difference_update(numbers)
        self._under_way.difference_update(numbers)
        for number in numbers:
            self._held.pop(number, None)
        if numbers:
            self._useful_at = time.monotonic()
            self._tell_books(sorted(numbers))

    def _recall(self) -> None:
        """What was begun and is gone is done; its worker died, or a link, before that was heard. Raises Away."""
        if self._under_way:
            self._finish(self._under_way - self._there(self._under_way))

    def _end(self, unreached: Collection[int] = ()) -> None:
        self._recall()
        missing = len(self._left - self._refused.keys() - set(unreached))
        count = f"{len(unreached):,}" if self._row.numbers else "Some"
        told = [
            f"{self._row.done:,} {'discarded' if self._row.kind == DeadLetterJob.Kind.DISCARD else 'sent again'}.",
            f"{len(self._refused):,} not: {next(iter(self._refused.values()))}." if self._refused else "",
            f"{missing:,} were not there any more." if missing else "",
            f"{count} could not be reached behind {len(self._held):,} others: see to these first." if unreached else "",
        ]
        self._save(ended_at=datetime.now(UTC), detail=" ".join(filter(None, told)))

    # What is still there ---------------------------------------------------------------------------------------------

    def _require_that_none_is_left(self) -> None:
        """Nothing new is handed out; what a peek still finds is locked, by a worker that died maybe. Raises Away."""
        if self._remaining():
            raise Away("Somebody else has locked some of them, for a minute or so.")

    def _remaining(self) -> set[int]:
        """What is wanted and a peek still finds, whoever has locked it; where all are wanted, some of it."""
        if self._row.numbers:
            return self._there(self._left - self._refused.keys())
        number = 1
        while number <= self._row.upto and (page := self._peeked(number)):
            found = [message.sequence_number for message in page]
            if wanted := {one for one in found if self._is_wanted(one)}:
                return wanted
            number = found[-1] + 1
        return set()

    def _there(self, numbers: Collection[int]) -> set[int]:
        """Those of these that a peek still finds."""
        asked, found = sorted(numbers), set[int]()
        while asked and (page := self._peeked(asked[0])):
            seen = {message.sequence_number for message in page}
            found |= seen.intersection(asked)
            asked = [number for number in asked if number > max(seen)]
        return found

    # What is done --------------------------------------------------------------------------------------------------

    def _resubmit(self, messages: list[Any]) -> None:
        items = [item for message in messages if (item := self._restored(message)) is not None]
        again = [item for item in items if item.number in self._sent]  # sent, and its completion was not heard
        try:
            self._complete([item.received for item in again])
            for path, group in groups([item for item in items if item.number not in self._sent]):
                sent = self._send(path, group)
                self._sent.update(item.number for item in sent)
                self._complete([item.received for item in sent])
        finally:  # nobody may take for done what was not sent and another receiver takes away
            self._under_way -= {message.sequence_number for message in messages} - self._sent

    def _restored(self, message: Any) -> Item | None:
        """The message as it was sent; None where it does not tell where to, or cannot be sent."""
        try:
            copy = resubmission(message)
            path, restored = restore(copy)
        except PoisonedMessage as error:
            if not self._row.destination:
                self._refused[message.sequence_number] = f"{error}; choose a destination"
                return None
            carried = copy.application_properties or {}
            copy.application_properties = {name: value for name, value in carried.items() if name not in RESERVED}
            path, restored = "", copy
        except Exception as error:  # no message may stop the others
            self._refused[message.sequence_number] = describe(error)
            return None
        if not restored.message_id:
            told = f"{self._row.pair.name}/{self._row.path}/{message.sequence_number}"
            restored.message_id = str(uuid.uuid5(uuid.NAMESPACE_OID, told))
        return Item(message, message.sequence_number, self._row.destination or path, restored, received_size(message))

    def _send(self, path: str, items: list[Item]) -> list[Item]:
        """Those that were acknowledged: all at once, or singly where one spoils the batch. Raises Away."""
        if self._sent_at_once(path, [item.message for item in items], alone=len(items) == 1, items=items):
            return items
        if len(items) == 1:
            return []
        return [item for item in items if self._sent_at_once(path, [item.message], alone=True, items=[item])]

    def _sent_at_once(self, path: str, messages: list[Any], *, alone: bool, items: list[Item]) -> bool:
        def send(sender: Any, left_s: float) -> None:
            sender.send_messages(messages[0] if alone else messages, timeout=left_s)

        self._connected.meter.count("send", self._connected.primary.namespace, path, billing_units=1, messages=0)
        failure = self._sender(path).attempt(send, _SEND_S)
        if failure is None:
            sizes = [item.size for item in items]
            units = sum(map(billing_units, sizes)) - 1
            meter = self._connected.meter
            meter.count(
                "send",
                self._connected.primary.namespace,
                path,
                operations=0,
                messages=len(sizes),
                bytes=sum(sizes),
                billing_units=units,
            )
            return True
        if why_refused(failure.error) in ("outage", "busy"):
            raise Away(f"{path} does not take them: {describe(failure.error)}.")
        if alone:
            self._refused[items[0].number] = f"{path} refuses it: {describe(failure.error)}"
        return False

    def _discard(self, messages: list[Any]) -> None:
        DiscardedMessage.objects.bulk_create(map(self._record, messages), ignore_conflicts=True)
        self._complete(messages)

    def _record(self, message: Any) -> DiscardedMessage:
        one = shown(self._row.path, message)
        return DiscardedMessage(
            job=self._row,
            number=one.number,
            message_id=one.message_id,
            entity=one.entity,
            dead_letter_reason=one.reason,
            enqueued_at=one.enqueued_at,
            size=one.size,
            sha256=hashlib.sha256(_body(message)).hexdigest(),
            at=datetime.now(UTC),
        )

    def _complete(self, messages: list[Any]) -> None:
        if not messages:
            return
        outcomes = zip(messages, self._settled("complete", messages), strict=False)
        self._finish([message.sequence_number for message, outcome in outcomes if outcome == "done"])

    def _tell_books(self, numbers: list[int]) -> None:
        """So that the ledger of the backlog queue says what became of them in the end; others have no books."""
        coordination = self._connected.coordination
        if self._end_of is self._connected.primary or not numbers:
            return
        if coordination is None or coordination.shared is None:
            return
        decision: Decision = "discarded" if self._row.kind == DeadLetterJob.Kind.DISCARD else "restored"
        try:
            SharedDecisions(coordination.shared, self._row.path).report(decision, numbers)
        except RedisError as error:
            log.warning("the books do not tell what became of dead letters", queue=self._row.path, error=repr(error))

    # The queue -----------------------------------------------------------------------------------------------------

    def _make_receiver(self) -> Any:
        return self._end_of.sdk.get_queue_receiver(
            self._row.path, sub_queue=ServiceBusSubQueue.DEAD_LETTER, keep_alive=0
        )

    def _sender(self, path: str) -> Link:
        if path not in self._senders:
            self._senders[path] = Link(lambda: self._connected.sdk_sender("primary", path), self._connected.watchdog)
        return self._senders[path]

    def _receive(self) -> list[Any]:
        received: list[Any] = []

        def receive(receiver: Any, _: float) -> None:
            received.extend(receiver.receive_messages(max_message_count=BATCH, max_wait_time=_WAIT_S))

        self._with_receiver(receive, _OPEN_S + _WAIT_S)
        kind = "receive" if received else "receive_empty"
        sizes = [received_size(message) for message in received]
        self._connected.meter.count(
            kind,
            self._end_of.namespace,
            self._row.path,
            messages=len(sizes),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)) or 1,
        )
        return received

    def _peeked(self, number: int) -> list[Any]:
        page: list[Any] = []

        def peek(receiver: Any, left_s: float) -> None:
            page.extend(receiver.peek_messages(_PAGE, sequence_number=number, timeout=left_s))

        self._with_receiver(peek, _SETTLE_S)
        self._connected.meter.count("manage", self._end_of.namespace, self._row.path, operations=1, billing_units=1)
        return page

    def _settled(self, verb: Any, messages: list[Any]) -> list[str]:
        outcomes: list[str] = []

        def settle(receiver: Any, left_s: float) -> None:
            for outcome in choose(receiver).settle(receiver, verb, messages, "", "", left_s):
                outcomes.append(outcome)

        self._with_receiver(settle, _SETTLE_S)
        self._connected.meter.count(
            "settle",
            self._end_of.namespace,
            self._row.path,
            operations=len(messages),
            messages=len(messages),
            billing_units=len(messages),
        )
        return outcomes

    def _with_receiver(self, operation: Callable[[Any, float], None], timeout_s: float) -> None:
        failure = self._receiver.attempt(operation, timeout_s)
        if failure is not None:
            raise Away(f"{self._row.path} does not answer: {describe(failure.error)}.")

    def _give_back(self) -> None:
        """What was received and not dealt with is free for others at once, and not only when its lock ends."""
        try:
            if self._held:
                self._settled("abandon", [message for message, _ in self._held.values()])
        except Away:
            return
        finally:
            for link in (self._receiver, *self._senders.values()):
                link.close(1.0)


def _body(message: Any) -> bytes:
    try:
        return body_bytes(message)
    except Exception:  # of what cannot be decoded, nothing
        return b""
