"""The execution of drills, step by step; progress is stored before and after each step, so any worker can continue.

decisions.py decides the next task. If a worker is killed, another one continues after the claim expires. A suspended
worker finds its claim lost and stops. If it forces a failover at that moment, the forced state expires.
"""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from django.db import transaction

from dashboard.access.audited import ActionError, Request
from dashboard.access.idempotency import following
from dashboard.actions import entities
from dashboard.drills import canary
from dashboard.drills import requests as wanting
from dashboard.drills.canary import Moment
from dashboard.drills.decisions import Sight, decide, resumed
from dashboard.drills.messages import make_canary, mark_of, message_of, number_of, receiver, remove_canary, sender
from dashboard.drills.plan import Plan, Step
from dashboard.drills.report import PREPARING, cost, operations, report
from dashboard.drills.results import done, received, spent, troubled, with_reports
from dashboard.drills.tasks import Finish, Force, Look, MarkHealthy, Prepare, Receive, Release, Send, Task, Wait
from dashboard.models import AuditEntry, Drill
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing import PairedServiceBusClient, PairingError
from pairing.fleet.presence import Presence, Presences
from pairing.health.faults import describe

CLAIM_S = 30.0
SEND_S, RECEIVE_S = 10.0, 2.0
PAUSE_S, WATCH_S = 0.5, 0.02
MOST_PEEKED = 2_000
_PAGE = 250
TROUBLES = (AzureError, PairingError, ActionError, RedisError, OSError)


def end_unreachable(row: Drill) -> None:
    """End a drill whose pair is no longer in the pairs file, as its namespaces cannot be reached."""
    detail = f"{row.pair.name} is no longer in PAIRS_FILE. The hold expires at {row.expires_at:%H:%M} UTC."
    row.keep(ended_at=datetime.now(UTC), outcome=Drill.Outcome.FAILED, detail=detail, step=Step.ENDED.value)
    announce_change()


class Exercise:
    """One worker's part of a drill."""

    def __init__(self, row: Drill, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        self._id = following(row.request_id, "messages")
        self._shared = shared_state(row.pair.name)
        self._receiver: ServiceBusReceiver | None = None
        self._strangers: list[ServiceBusReceivedMessage] = []
        self._created = ""
        self._sender = sender(connected, row)

    @property
    def tag(self) -> str:
        """Prefix of the reason of the drill's forced failover."""
        return f"drill {self._row.pk}:"

    def run(self) -> None:
        """Run until the drill or the slice is over, or another worker has claimed it."""
        plan = resumed(Plan.from_json(self._row.course))
        self._row.keep(attempts=self._row.attempts + 1)
        while not self._stop.is_set():
            plan, task = decide(plan, self._sight(), datetime.now(UTC))
            if isinstance(task, Finish):
                return self._finish(plan, task)
            if not self._keep(plan):
                return None
            plan = self._tried(plan, task)
            if not self._keep(plan):
                return None
            if isinstance(task, Wait | Look) or plan.trouble:
                self._stop.wait(WATCH_S if plan.step is Step.FORCING and not plan.trouble else PAUSE_S)
        return None

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

    def _sight(self) -> Sight:
        now = datetime.now(UTC)
        health = self._connected.entity_health(self._row.path)
        self._row.refresh_from_db(fields=["abort_wanted_by"])
        return Sight(
            is_away=health.state == "failed_over",
            is_ours=self._is_ours(),
            is_expired=now >= self._row.expires_at,
            abort_wanted_by=self._row.abort_wanted_by,
        )

    def _is_ours(self) -> bool | None:
        try:
            known = self._shared.health_of(self._row.path)
        except RedisError:
            return None
        return known is not None and known.state == "failed_over" and known.reason.startswith(self.tag)

    def _keep(self, plan: Plan) -> bool:
        """Store the plan and renew the claim. False if another worker has claimed the drill."""
        until = datetime.now(UTC) + timedelta(seconds=CLAIM_S)
        kept = self._row.keep(course=plan.as_json(), step=plan.step.value, claimed_until=until)
        announce_change()
        return kept

    def _tried(self, plan: Plan, task: Task) -> Plan:
        try:
            return self._do(plan, task)
        except Unfit as error:
            return troubled(plan, task, str(error), is_final=True)
        except TROUBLES as error:
            reported = describe(error) if isinstance(error, AzureError | OSError) else str(error)
            return troubled(plan, task, reported)

    # The tasks -----------------------------------------------------------------------------------------------------

    def _do(self, plan: Plan, task: Task) -> Plan:
        counted, complete = 0, True
        match task:
            case Prepare():
                plan = self._prepared(plan)
                plan = spent(plan, manage=PREPARING)
            case Send(number):
                self._sender.send_messages(message_of(self._row, self._id, number, plan.total), timeout=SEND_S)
            case Force():
                plan = self._force(plan)
            case Release():
                entities.RELEASE.run(self._request(f"{self.tag} the messages were sent"))
            case MarkHealthy() if self._is_ours():
                entities.MARK_HEALTHY.run(self._request(f"{self.tag} rolled back"))
            case Look():
                counted, complete = self._look()
                plan = spent(self._heard(plan), manage=len(self._connected.backlog_paths))
            case Receive():
                plan, counted = self._receive(plan)
        return done(plan, task, datetime.now(UTC), counted=counted, complete=complete)

    def _request(self, reason: str) -> Request:
        who = wanting.Delegate.of(self._row)
        pair, path = self._row.pair, self._row.path
        return Request(who, pair, path, reason=reason, request_id=uuid.uuid4().hex)

    def _prepared(self, plan: Plan) -> Plan:
        """Check that the canary exists and that a drill is possible. Raises Unfit."""
        if self._row.creates_canary:
            self._created = plan.created or make_canary(self._connected, self._row)
        name, path = self._row.pair.name, self._row.path
        now = canary.moment(self._row.pair, is_silent=False)
        moment = Moment(away=now.away, paused=now.paused)  # the running drill is this one
        if against := canary.hindrances(canary.look(name, path), moment):
            raise Unfit(against[0])
        return replace(plan, created=self._created)

    def _force(self, plan: Plan) -> Plan:
        """Fail the canary over, and store which processes have to adopt it."""
        living = self._living()
        entities.FAIL_OVER.run(self._request(f"{self.tag} {self._row.reason}"), expires=self._row.expires_at)
        known = self._shared.health_of(self._row.path)
        return replace(plan, fleet=tuple(sorted(living)), forced_version=known.version if known else 0)

    def _heard(self, plan: Plan) -> Plan:
        """The plan with the adoption times that processes have reported since."""
        with suppress(RedisError):
            return with_reports(plan, self._row.path, self._living())
        return plan

    def _living(self) -> dict[str, Presence]:
        return Presences(self._shared).living()

    def _look(self) -> tuple[int, bool]:
        """The drill's messages in all backlog queues, and whether the queues were read to their ends."""
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(self._in_queue, self._connected.backlog_paths))
        count = len(self._connected.backlog_paths)
        self._connected.meter.count(
            "manage", self._connected.secondary.namespace, self._row.path, operations=count, billing_units=count
        )
        return sum(number for number, _ in found), bool(found) and all(complete for _, complete in found)

    def _in_queue(self, path: str) -> tuple[int, bool]:
        found = seen = 0
        after: dict[str, Any] = {}
        with self._connected.secondary.sdk.get_queue_receiver(path) as receiver:
            while page := receiver.peek_messages(_PAGE, timeout=5, **after):
                seen += len(page)
                found += sum(self._is_mine(message) for message in page)
                if seen >= MOST_PEEKED:
                    return found, False
                after = {"sequence_number": (page[-1].sequence_number or 0) + 1}
        return found, True

    def _receive(self, plan: Plan) -> tuple[Plan, int]:
        """Receive messages: they are stored before they are completed, so that a crash does not lose count."""
        try:
            return self._received(plan)
        except TROUBLES:
            self._let_go()  # the session lock may be lost, which makes the receiver unusable
            raise

    def _received(self, plan: Plan) -> tuple[Plan, int]:
        if self._receiver is None:
            self._receiver = receiver(self._connected, self._row, self._id)
        messages = self._receiver.receive_messages(max_message_count=50, max_wait_time=RECEIVE_S)
        marked = [message for message in messages if mark_of(message) is not None]
        self._strangers += [message for message in messages if mark_of(message) is None]
        mine = [message for message in marked if self._is_mine(message)]
        for message in mine:
            plan = received(plan, number_of(message), message.sequence_number or 0)
        plan = spent(plan, **({"receive": len(messages)} if messages else {"receive_empty": 1}))
        if marked and not self._keep(plan):
            return plan, len(mine)  # another worker counts them
        for message in marked:  # including those of earlier drills
            self._receiver.complete_message(message)
        return spent(plan, settle=len(marked)) if marked else plan, len(mine)

    def _is_mine(self, message: ServiceBusReceivedMessage) -> bool:
        return mark_of(message) == self._id

    # End -------------------------------------------------------------------------------------------------------

    def _finish(self, plan: Plan, end: Finish) -> None:
        row, now = self._row, datetime.now(UTC)
        plan = self._tidied(self._heard(plan))
        reported = report(plan, row.at, now) | {"cost": cost(row.pair.name, operations(plan), now)}
        with transaction.atomic():
            ended = row.keep(
                course=plan.as_json(),
                step=Step.ENDED.value,
                ended_at=now,
                outcome=end.outcome,
                detail=end.detail,
                report=reported,
            )
            if ended:
                _audit(row, now, end)
        announce_change()

    def _tidied(self, plan: Plan) -> Plan:
        """Delete the canary that the drill has created, unless PAIRS_FILE names it or it still holds messages."""
        named = canary.marked(self._row.pair.name)
        is_kept = named is not None and named.entity == self._row.path
        created = plan.created or self._created
        if not created or is_kept or plan.lost or canary.look(self._row.pair.name, self._row.path).strangers:
            return plan
        self._let_go()
        with suppress(*TROUBLES):
            remove_canary(self._connected, self._row, created)
            return spent(plan, manage=1)
        return plan


class Unfit(Exception):
    """The canary cannot be used, or a drill is not possible now; retrying does not help."""


def _audit(row: Drill, now: datetime, end: Finish) -> None:
    AuditEntry(
        request_id=following(row.request_id, "end"),
        at=now,
        operator=row.by,
        verb="drill_ended",
        pair=row.pair.name,
        target=row.path,
        reason=row.reason,
        outcome="done",
        detail=f"{end.outcome}: {end.detail}",
    ).save()
