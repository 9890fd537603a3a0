"""The hands of a drill: they touch the namespaces, Redis and the row. A drill belongs to the worker that claims it.

If that worker dies, its claim expires, the drill has failed, and the forced failover expires by itself.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from django.db import transaction

from dashboard.access.audited import Request
from dashboard.access.idempotency import following
from dashboard.actions import entities
from dashboard.drills import canary
from dashboard.drills.actions import DRILL_ENDED, delegate
from dashboard.drills.canary import Moment
from dashboard.drills.course import FAILED, Course, Step
from dashboard.drills.messages import make_canary, mark_of, message_of, number_of, receiver, remove_canary, sender
from dashboard.drills.report import PREPARING, cost, operations, report
from dashboard.drills.steps import TROUBLES, Drilling, Lost, Unfit
from dashboard.models import Drill
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing import PairedServiceBusClient
from pairing.fleet.presence import Presences

CLAIM_S = 60.0
SEND_S, RECEIVE_S = 10.0, 2.0
PAUSE_S, WATCH_S = 0.5, 0.02
MOST_PEEKED = 2_000
_PAGE = 250


def run(row: Drill, connected: PairedServiceBusClient, stop: threading.Event) -> None:
    """Run a claimed drill to its end."""
    hands = Exercise(row, connected, stop)
    course = Course.from_json(row.course)
    try:
        outcome, detail = Drilling(course, hands, hands.now()).run()
        hands.finish(course, outcome, detail)
    except Lost:
        return
    finally:
        hands.close()


def fail(row: Drill, why: str) -> None:
    """End a drill that nobody can run any more."""
    detail = f"{why} A forced failover expires at {row.expires_at:%H:%M} UTC."
    _end(row, FAILED, detail, step=Step.ENDED.value)


def fail_abandoned(now: datetime) -> None:
    """End the drills whose workers have died, and those that no worker could begin."""
    for row in Drill.open_ones().filter(claimed_until__lt=now).select_related("pair"):
        fail(row, "The worker that ran it has ended.")
    for row in Drill.open_ones().filter(claimed_by="", expires_at__lt=now).select_related("pair"):
        fail(row, "No worker could run it in time.")


def _end(row: Drill, outcome: str, detail: str, **changes: Any) -> None:
    now = datetime.now(UTC)
    with transaction.atomic():
        if row.keep(ended_at=now, outcome=outcome, detail=detail, **changes):
            who = delegate(row.by)
            once = following(row.request_id, "end")
            request = Request(who, row.pair, row.path, reason=row.reason, request_id=once, at=now)
            DRILL_ENDED.record(request, f"{outcome}: {detail}")
    announce_change()


class Exercise:
    """The hands of one drill."""

    def __init__(self, row: Drill, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        self._id = following(row.request_id, "messages")
        self._shared = shared_state(row.pair.name)
        self._receiver: ServiceBusReceiver | None = None
        self._strangers: list[ServiceBusReceivedMessage] = []
        self._sender = sender(connected, row)

    @property
    def tag(self) -> str:
        """Prefix of the reason of the drill's forced failover."""
        return f"drill {self._row.pk}:"

    def close(self) -> None:
        """Close all links and release received messages."""
        with suppress(*TROUBLES):
            self._sender.close()
        self._let_go()

    def _let_go(self) -> None:
        receiver, strangers = self._receiver, self._strangers
        self._receiver, self._strangers = None, []
        with suppress(*TROUBLES):  # locks expire anyway
            if receiver is not None:
                for message in strangers:
                    receiver.abandon_message(message)
                receiver.close()

    def now(self) -> datetime:
        """The present time."""
        return datetime.now(UTC)

    def pause(self, *, brief: bool = False) -> None:
        """Wait for a moment, briefly while the adoption of the failover is timed."""
        self._stop.wait(WATCH_S if brief else PAUSE_S)

    def is_stopped(self) -> bool:
        """Whether the worker is shutting down."""
        return self._stop.is_set()

    def is_away(self) -> bool:
        """Whether this worker's client has the canary failed over."""
        return self._connected.entity_health(self._row.path).state == "failed_over"

    def is_ours(self) -> bool | None:
        """Whether the fleet has it failed over by this drill; None if Redis does not answer."""
        with suppress(RedisError):
            return self._forced_by_this()
        return None

    def _forced_by_this(self) -> bool:
        known = self._shared.health_of(self._row.path)
        return known is not None and known.state == "failed_over" and known.reason.startswith(self.tag)

    def store(self, course: Course) -> str:
        """Store the progress and renew the claim; who wants the drill aborted. Raises Lost."""
        until = self.now() + timedelta(seconds=CLAIM_S)
        if not self._row.keep(course=course.as_json(), step=course.step.value, claimed_until=until):
            raise Lost
        announce_change()
        return self._row.abort_wanted_by

    def prepare(self, course: Course) -> None:
        """Create the canary if requested; check that it can be used. Raises Unfit."""
        name, path = self._row.pair.name, self._row.path
        if self._row.creates_canary:
            course.created = course.created or make_canary(self._connected, self._row)
        now = canary.moment(self._row.pair)
        moment = Moment(away=now.away, paused=now.paused)  # the running drill is this one
        if against := canary.hindrances(canary.look(name, path), moment):
            raise Unfit(against[0])
        course.spend(manage=PREPARING)

    def send(self, course: Course, number: int) -> None:
        """Send one numbered message."""
        self._sender.send_messages(message_of(self._row, self._id, number, course.total), timeout=SEND_S)
        course.spend(**{"send_backlog" if course.step is Step.DIVERTING else "send": 1})

    def force(self, course: Course) -> None:
        """Fail the canary over, and record which processes have to adopt it."""
        course.fleet = tuple(sorted(Presences(self._shared).living()))
        entities.FAIL_OVER.run(self._request(self._row.reason), expires=self._row.expires_at)
        known = self._shared.health_of(self._row.path)
        course.forced_version = known.version if known else 0

    def release(self) -> None:
        """End the hold, so that an accepted ping ends the failover."""
        entities.RELEASE.run(self._request("the messages were sent"))

    def heal(self) -> None:
        """End hold and failover if it is the drill's own."""
        if self._forced_by_this():
            entities.MARK_HEALTHY.run(self._request("rolled back"))

    def _request(self, reason: str) -> Request:
        who = delegate(self._row.by)
        return Request(who, self._row.pair, self._row.path, reason=f"{self.tag} {reason}", request_id=uuid.uuid4().hex)

    def _hear(self, course: Course) -> None:
        with suppress(RedisError):
            course.hear(self._row.path, Presences(self._shared).living())

    def look(self, course: Course) -> int | None:
        """The drill's messages in all backlog queues; None if the queues were not read to their ends."""
        self._hear(course)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(self._in_queue, self._connected.backlog_paths))
        count = len(self._connected.backlog_paths)
        self._connected.meter.count(
            "manage", self._connected.secondary.namespace, self._row.path, operations=count, billing_units=count
        )
        course.spend(manage=count)
        return None if None in found or not found else sum(one for one in found if one)

    def _in_queue(self, path: str) -> int | None:
        found = seen = 0
        after: dict[str, Any] = {}
        with self._connected.secondary.sdk.get_queue_receiver(path) as receiver:
            while page := receiver.peek_messages(_PAGE, timeout=5, **after):
                seen += len(page)
                found += sum(self._is_mine(message) for message in page)
                if seen >= MOST_PEEKED:
                    return None
                after = {"sequence_number": (page[-1].sequence_number or 0) + 1}
        return found

    def receive(self, course: Course) -> int:
        """Receive available messages; how many are the drill's."""
        try:
            return self._received(course)
        except TROUBLES:
            self._let_go()  # the session lock may be lost, which makes the receiver unusable
            raise

    def _received(self, course: Course) -> int:
        if self._receiver is None:
            self._receiver = receiver(self._connected, self._row, self._id)
        messages = self._receiver.receive_messages(max_message_count=50, max_wait_time=RECEIVE_S)
        marked = [message for message in messages if mark_of(message) is not None]
        self._strangers += [message for message in messages if mark_of(message) is None]
        mine = [message for message in marked if self._is_mine(message)]
        for message in mine:
            course.receive(number_of(message), message.sequence_number or 0)
        course.spend(**({"receive": len(messages)} if messages else {"receive_empty": 1}))
        for message in marked:  # including those of earlier drills
            self._receiver.complete_message(message)
        course.spend(settle=len(marked))
        return len(mine)

    def _is_mine(self, message: ServiceBusReceivedMessage) -> bool:
        return mark_of(message) == self._id

    def finish(self, course: Course, outcome: str, detail: str) -> None:
        """Delete what was created, and store outcome and report."""
        self._hear(course)
        self._tidy(course)
        now = self.now()
        document = report(course, self._row.at, now) | {"cost": cost(self._row.pair.name, operations(course), now)}
        course.step = Step.ENDED
        _end(self._row, outcome, detail, course=course.as_json(), step=course.step.value, report=document)

    def _tidy(self, course: Course) -> None:
        """Delete the canary that the drill has created, unless PAIRS_FILE names it or it still holds messages."""
        named = canary.marked(self._row.pair.name)
        is_kept = named is not None and named.entity == self._row.path
        if not course.created or is_kept or course.lost:
            return
        if canary.look(self._row.pair.name, self._row.path).strangers:
            return
        self._let_go()
        with suppress(*TROUBLES):
            remove_canary(self._connected, self._row, course.created)
            course.spend(manage=1)
