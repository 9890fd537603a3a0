"""Dead letters sent again or discarded, by whichever worker claims the job.

A message is sent, the acknowledgement awaited, and only then is its dead letter completed: a worker killed in between
leaves one that is sent a second time under the same message_id, never one that is lost. A discarded message is on
record before it goes.
"""

import hashlib
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusSubQueue

from dashboard.browsing import body_bytes, shown
from dashboard.models import DeadLetterJob, DiscardedMessage
from dashboard.redis import announce_change
from pairing import PairedServiceBusClient
from pairing.faults import describe
from pairing.links import Link
from pairing.messages import RESERVED, PoisonedMessage, restore, resubmission
from pairing.metering import billing_units
from pairing.moves import Item
from pairing.settlement import choose
from pairing.sizes import received_size
from pairing.sorting import groups
from pairing.syphoning import why_refused
from workers.celery import SLICE_S, app
from workers.connections import client, outages_told
from workers.slices import slice_of

CLAIM_S = 60.0
RETRY_S = 15.0
BATCH = 100
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
    with slice_of(f"dead letters {key}", SLICE_S) as stop:
        row = DeadLetterJob.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), CLAIM_S):
            return
        with outages_told("dead letters", row.pair.name):
            Job(row, client(row.pair.name), stop).run()
        announce_change()


class Job:
    """One run over the dead letters of one queue."""

    def __init__(self, row: DeadLetterJob, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        self._receiver = Link(self._make_receiver, connected.watchdog)
        self._senders: dict[str, Link] = {}
        self._left = set(row.numbers)
        self._sent: set[int] = set()
        self._refused: dict[int, str] = {}
        self._held: dict[int, Any] = {}

    def run(self) -> None:
        """Until all are done, the slice is over, or somebody has stopped it."""
        try:
            while not self._stop.is_set() and not self._is_over():
                received = self._receive()
                if not self._take(received):
                    return self._end()
                if not self._keep():
                    return None
            if self._is_over():
                return self._end()
            self._row.lay_down()
        except Away as error:
            until = datetime.now(UTC) + timedelta(seconds=RETRY_S)
            told = f"{error} It is tried again."
            self._row.keep(detail=told, done=self._row.done, claimed_until=until, claimed_by="")
        finally:
            self._give_back()
        return None

    def _is_over(self) -> bool:
        return bool(self._row.numbers) and not self._left - self._refused.keys()

    def _take(self, received: list[Any]) -> bool:
        """Does what is wanted with one batch. False: nothing is left that would be new."""
        fresh = [message for message in received if message.sequence_number not in self._held]
        self._held |= {message.sequence_number: message for message in received}
        wanted = [message for message in received if self._is_wanted(message.sequence_number)]
        if self._row.kind == DeadLetterJob.Kind.DISCARD:
            self._discard(wanted)
        else:
            self._resubmit(wanted)
        return bool(fresh) and (bool(self._row.numbers) or any(one.sequence_number <= self._row.upto for one in fresh))

    def _is_wanted(self, number: int) -> bool:
        if number in self._refused:
            return False
        return number in self._left if self._row.numbers else number <= self._row.upto

    def _keep(self) -> bool:
        until = datetime.now(UTC) + timedelta(seconds=CLAIM_S)
        announce_change()
        return self._row.keep(claimed_until=until, done=self._row.done, failed=self._failed, detail="")

    @property
    def _failed(self) -> int:
        return len(self._refused)

    def _end(self) -> None:
        missing = len(self._left - self._refused.keys())
        told = [
            f"{self._row.done:,} {'discarded' if self._row.kind == DeadLetterJob.Kind.DISCARD else 'sent again'}.",
            f"{self._failed:,} not: {next(iter(self._refused.values()))}." if self._refused else "",
            f"{missing:,} were not there any more." if missing and self._row.numbers else "",
        ]
        self._row.keep(
            ended_at=datetime.now(UTC), done=self._row.done, failed=self._failed, detail=" ".join(filter(None, told))
        )

    # What is done --------------------------------------------------------------------------------------------------

    def _resubmit(self, messages: list[Any]) -> None:
        items = [item for message in messages if (item := self._restored(message)) is not None]
        again = [item for item in items if item.number in self._sent]  # sent, and its completion was not heard
        self._complete([item.received for item in again])
        for path, group in groups([item for item in items if item.number not in self._sent]):
            sent = self._send(path, group)
            self._sent.update(item.number for item in sent)
            self._complete([item.received for item in sent])

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
        outcomes = self._settled("complete", messages)
        for message, outcome in zip(messages, outcomes, strict=False):
            if outcome == "done":
                self._row.done += 1
                self._left.discard(message.sequence_number)
                self._held.pop(message.sequence_number, None)

    # The queue -----------------------------------------------------------------------------------------------------

    def _make_receiver(self) -> Any:
        return self._connected.secondary.sdk.get_queue_receiver(
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
            self._connected.secondary.namespace,
            self._row.path,
            messages=len(sizes),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)) or 1,
        )
        return received

    def _settled(self, verb: Any, messages: list[Any]) -> list[str]:
        outcomes: list[str] = []

        def settle(receiver: Any, left_s: float) -> None:
            for outcome in choose(receiver).settle(receiver, verb, messages, "", "", left_s):
                outcomes.append(outcome)

        self._with_receiver(settle, _SETTLE_S)
        self._connected.meter.count(
            "settle",
            self._connected.secondary.namespace,
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
                self._settled("abandon", list(self._held.values()))
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
