"""One run of a job that resubmits or discards dead letters.

A dead letter is completed only after its resubmission is acknowledged: if a worker is killed in between, the message is
sent a second time with the same message_id, and none is lost. A discarded message is recorded before it is completed.
A worker stores which messages it starts with. If these are gone later, they are done, and each is counted once.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from dashboard.backlog.browsing import body_bytes, shown
from dashboard.backlog.dead_letter_links import DeadLetterLinks, Unreachable
from dashboard.backlog.dead_letter_progress import Progress
from dashboard.backlog.places import Place, place
from dashboard.models import DeadLetterJob, DiscardedMessage, ResubmittedMessage
from dashboard.site.fitting import fitted
from dashboard.site.redis import RedisError, announce_change
from pairing import PairedServiceBusClient
from pairing.drain.backlog_queue import Item
from pairing.drain.ledger import Decision
from pairing.drain.shared.dead_letter_results import SharedDecisions
from pairing.drain.sorting import groups, path_of
from pairing.health.faults import describe
from pairing.messages.rewriting import RESERVED, PoisonedMessage, restore, resubmission
from pairing.messages.sizes import received_size

log = structlog.get_logger(__name__)

CLAIM_S = 60.0
RETRY_S = 15.0


class DeadLetterRun:
    """One slice of a job, executed by the worker that has claimed it."""

    def __init__(self, row: DeadLetterJob, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        at = place(row.pair, row.path) or Place("secondary")
        self._links = DeadLetterLinks(connected, row.path, at.role)
        self._progress = Progress(
            chosen=tuple(row.numbers),
            upto=row.upto,
            total=row.total,
            done=row.done,
            left=set(row.numbers) - set(row.finished),
            under_way=set(row.under_way),
            useful_at=time.monotonic(),
        )

    def run(self) -> None:
        """Run until all are done, the slice is over, no more can be reached, or an operator has stopped the job."""
        try:
            self._recall()
            while not self._is_over():
                if self._stop.is_set():
                    return self._lay_down()
                if self._progress.is_at_its_limit(time.monotonic()):
                    return self._turn_back()
                wanted, fresh = self._progress.receive(self._links.receive())
                if not self._keep():
                    return None
                self._take(wanted)
                if not self._progress.may_bring_more(fresh):
                    self._require_that_none_is_left()
                    return self._end()
            self._end()
        except Unreachable as error:
            until = datetime.now(UTC) + timedelta(seconds=RETRY_S)
            self._save(detail=f"{error} The job will be retried.", claimed_until=until, claimed_by="")
        finally:
            self._give_back()
        return None

    def _is_over(self) -> bool:
        """Whether none is left to process. Raises Unreachable.

        A job over all dead letters peeks once as many as confirmed are done, since a receive would wait.
        """
        return self._progress.seems_over and (bool(self._progress.chosen) or not self._remaining())

    def _take(self, wanted: list[Any]) -> None:
        if self._row.kind == DeadLetterJob.Kind.DISCARD:
            self._discard(wanted)
        else:
            self._resubmit(wanted)

    def _turn_back(self) -> None:
        """Continue in another slice if this one made progress: it leaves fewer messages in front of the others."""
        return self._lay_down() if self._progress.has_advanced else self._end(self._remaining())

    # Storing the progress --------------------------------------------------------------------------------------------

    def _keep(self) -> bool:
        """Store the progress and the messages it starts with. False: stopped, or claimed by another worker."""
        kept = self._save(claimed_until=datetime.now(UTC) + timedelta(seconds=CLAIM_S), detail="")
        announce_change()
        return kept

    def _lay_down(self) -> None:
        self._save(claimed_until=None, claimed_by="")

    def _save(self, **changes: Any) -> bool:
        """Store the final progress, also if an operator has stopped the job."""
        progress = self._progress
        self._row.done = progress.done
        columns: dict[str, Any] = {
            "done": progress.done,
            "failed": len(progress.refused),
            "finished": progress.finished,
            "under_way": sorted(progress.under_way),
        }
        kept = self._row.keep(**columns, **changes)
        if not kept:
            DeadLetterJob.objects.filter(pk=self._row.pk, claimed_by=self._row.claimed_by).update(**columns)
        return kept

    def _finish(self, numbers: Collection[int]) -> None:
        """These are done."""
        self._progress.finish(numbers, time.monotonic())
        if numbers:
            self._report_to_ledger(sorted(numbers))

    def _recall(self) -> None:
        """Count started messages that are gone as done: their worker or link failed before. Raises Unreachable."""
        if under_way := set(self._progress.under_way):
            self._finish(under_way - self._there(under_way))

    def _end(self, unreached: Collection[int] = ()) -> None:
        self._recall()
        verb = "discarded" if self._row.kind == DeadLetterJob.Kind.DISCARD else "sent again"
        self._save(ended_at=datetime.now(UTC), detail=self._progress.summary(verb, unreached))

    # Remaining messages ---------------------------------------------------------------------------------------------

    def _require_that_none_is_left(self) -> None:
        """Nothing is delivered any more; messages that a peek still finds are locked, maybe by a worker that died."""
        if self._remaining():
            raise Unreachable("Another receiver has locked some of them, for about a minute.")

    def _remaining(self) -> set[int]:
        """Messages of the job that a peek still finds, locked or not; of a job over all, some of them."""
        if self._progress.chosen:
            return self._there(self._progress.open_numbers)
        number = 1
        while number <= self._row.upto and (page := self._links.peek(number)):
            found = [message.sequence_number for message in page]
            if wanted := {one for one in found if self._progress.is_wanted(one)}:
                return wanted
            number = found[-1] + 1
        return set()

    def _there(self, numbers: Collection[int]) -> set[int]:
        """The given messages that a peek still finds."""
        asked, found = sorted(numbers), set[int]()
        while asked and (page := self._links.peek(asked[0])):
            seen = {message.sequence_number for message in page}
            found |= seen.intersection(asked)
            asked = [number for number in asked if number > max(seen)]
        return found

    # Processing --------------------------------------------------------------------------------------------------

    def _resubmit(self, messages: list[Any]) -> None:
        sent = self._progress.sent
        items = [item for message in messages if (item := self._restored(message)) is not None]
        again = [item for item in items if item.number in sent]  # sent, but the completion was not confirmed
        try:
            self._complete_sent(again)
            for path, group in groups([item for item in items if item.number not in sent]):
                acknowledged = self._send(path, group)
                sent.update(item.number for item in acknowledged)
                self._complete_sent(acknowledged)
        finally:
            self._progress.forget(message.sequence_number for message in messages)

    def _complete_sent(self, items: list[Item]) -> None:
        """Complete messages that were sent. Their entities are stored before, for the ledgers of incidents: nobody can
        ask for them once the messages are gone.
        """
        if not self._links.is_of_the_primary:
            ResubmittedMessage.objects.bulk_create(map(self._sent_again, items), ignore_conflicts=True)
        self._complete([item.received for item in items])

    def _sent_again(self, item: Item) -> ResubmittedMessage:
        received = item.received
        return ResubmittedMessage(
            job=self._row,
            number=item.number,
            entity=fitted(path_of(received), 300),
            enqueued_at=received.enqueued_time_utc,
            at=datetime.now(UTC),
        )

    def _restored(self, message: Any) -> Item | None:
        """The message to send; None if its destination is unknown or it cannot be sent."""
        try:
            copy = resubmission(message)
            path, restored = restore(copy)
        except PoisonedMessage as error:
            if not self._row.destination:
                self._progress.refused[message.sequence_number] = f"{error}; choose a destination"
                return None
            carried = copy.application_properties or {}
            copy.application_properties = {name: value for name, value in carried.items() if name not in RESERVED}
            path, restored = "", copy
        except Exception as error:  # one message must not stop the others
            self._progress.refused[message.sequence_number] = describe(error)
            return None
        if not restored.message_id:
            identity = f"{self._row.pair.name}/{self._row.path}/{message.sequence_number}"
            restored.message_id = str(uuid.uuid5(uuid.NAMESPACE_OID, identity))
        return Item(message, message.sequence_number, self._row.destination or path, restored, received_size(message))

    def _send(self, path: str, items: list[Item]) -> list[Item]:
        """The acknowledged messages; sent as a batch, or one by one if the batch is rejected. Raises Unreachable."""
        if len(items) > 1 and not self._links.send(path, items, alone=False):
            return items
        return [item for item in items if self._is_sent(path, item)]

    def _is_sent(self, path: str, item: Item) -> bool:
        if refusal := self._links.send(path, [item], alone=True):
            self._progress.refused[item.number] = refusal
        return not refusal

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

    def _settled(self, verb: Any, messages: list[Any]) -> Sequence[str]:
        return self._links.settle(verb, messages)

    def _report_to_ledger(self, numbers: list[int]) -> None:
        """Add the outcome to the ledger of the backlog queue; other queues have no ledger."""
        coordination = self._connected.coordination
        if self._links.is_of_the_primary or not numbers:
            return
        if coordination is None or coordination.shared is None:
            return
        decision: Decision = "discarded" if self._row.kind == DeadLetterJob.Kind.DISCARD else "restored"
        try:
            SharedDecisions(coordination.shared, self._row.path).report(decision, numbers)
        except RedisError as error:
            log.warning("ledger lacks the outcome of dead letters", queue=self._row.path, error=repr(error))

    def _give_back(self) -> None:
        """Abandon received messages that were not processed, so that others need not wait for the lock to expire."""
        try:
            if self._progress.held:
                self._settled("abandon", [message for message, _ in self._progress.held.values()])
        except Unreachable:
            return
        finally:
            self._links.close()


def _body(message: Any) -> bytes:
    try:
        return body_bytes(message)
    except Exception:  # undecodable messages have none
        return b""
