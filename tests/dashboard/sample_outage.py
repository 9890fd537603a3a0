"""An outage of the sample control plane that is over: its events, depth, ledgers, pings, and what operators did."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from pairing.backlog.rotation import backlog_path
from pairing.events import counted
from pairing.telemetry.metering import UsageRecord

if TYPE_CHECKING:
    from dashboard.models import Pair

AGO = timedelta(minutes=100)
"""When it began: long enough ago for the charts of the present to show nothing of it."""
INCIDENT, RECOVERED = "f" * 32, f"{4:032x}"
"""The ids of two of its events."""
OVER = timedelta(minutes=30)
"""It was over by then, after it began."""
FELL_S, HELD_S, RELEASED_S, RECOVERED_S, GIVEN_UP_S, EMPTY_S = 5, 400, 900, 905, 1200, 1500
"""Seconds after it began."""
SENT, DEAD = 6000, 3
QUEUE, PROCESS, WORKER = backlog_path("contoso", 0), "host-3:4711:0a1b2c3d", "host-1:99:5e6f7a8b"
MINUTE = timedelta(minutes=1)


def add_outage(now: datetime) -> None:
    """Store it."""
    from dashboard.fleet.usage import metered
    from dashboard.models import EntityHealth, PairDepth, SyphonLedger, WaitingSample

    orders, began = EntityHealth.objects.get(path="orders"), now - AGO
    _events(began)
    _actions(began)
    _resubmitted(orders.pair, began)
    for minute in range(30):
        at = began + minute * MINUTE
        depth = 400 * minute if minute < 15 else max(0, SENT - 600 * (minute - 15))
        WaitingSample.objects.create(entity=orders, at=at, waiting=depth)
        PairDepth.objects.create(pair=orders.pair, at=at, messages=depth)
    fell, recovered, empty = (began + timedelta(seconds=at_s) for at_s in (FELL_S, RECOVERED_S, EMPTY_S))
    times = {"began_at": fell + timedelta(seconds=1), "ended_at": empty, "moved_at": empty, "seen_at": now}
    counts = {"enqueued": SENT, "home": SENT, "missing": 0, "fates": {"restored": SENT - DEAD, "dead_lettered": DEAD}}
    SyphonLedger.objects.create(pair=orders.pair, queue=QUEUE, **times, **counts)
    EntityHealth.objects.filter(pk=orders.pk).update(last_ping_at=recovered, last_ping_accepted=True)
    metered.store(_usage(began), now)


def _events(began: datetime) -> None:
    from dashboard.models import FailoverEvent

    given_up = counted(DEAD, QUEUE, "refused 10 times: larger than the limit")
    story = (
        (0, "failing", "ServiceBusError: amqp:internal-error", None),
        (FELL_S, "failed_over", "amqp:internal-error for 5 s", None),
        (HELD_S, "held", "storage of the region is down, ticket 4711", "ada"),
        (RELEASED_S, "released", "", "ada"),
        (RECOVERED_S, "recovered", "a ping was accepted", None),
        (GIVEN_UP_S, "dead_lettered", given_up, None),
    )
    for number, (at_s, kind, reason, operator) in enumerate(story):
        known = {"pair": "contoso", "entity": "orders", "kind": kind, "reason": reason, "operator": operator}
        name, at = INCIDENT if kind == "failed_over" else f"{number:032x}", began + timedelta(seconds=at_s)
        process = WORKER if kind == "dead_lettered" else PROCESS
        FailoverEvent.objects.create(event_id=name, time=at, process=process, **known)


def _resubmitted(pair: "Pair", began: datetime) -> None:
    """All dead letters but one."""
    from dashboard.models import DeadLetterJob, ResubmittedMessage

    at = began + OVER
    known = {"pair": pair, "path": QUEUE, "by": "ada", "at": at, "ended_at": at, "detail": f"{DEAD - 1} sent again."}
    counts = {"upto": DEAD, "total": DEAD - 1, "done": DEAD - 1}
    job = DeadLetterJob.objects.create(kind="resubmit", request_id="sample-resubmit", **known, **counts)
    for number in range(1, DEAD):
        ResubmittedMessage.objects.create(
            job=job, number=number, entity="orders", enqueued_at=began + number * MINUTE, at=at
        )


def _actions(began: datetime) -> None:
    from dashboard.models import AuditEntry

    reasons = (("hold", HELD_S, "storage of the region is down, ticket 4711"), ("release", RELEASED_S, "it is back"))
    for verb, at_s, reason in reasons:
        known = {"operator": "ada", "pair": "contoso", "target": "orders", "reason": reason, "outcome": "done"}
        AuditEntry(request_id=f"sample-{verb}", at=began + timedelta(seconds=at_s), verb=verb, **known).save()


def _usage(began: datetime) -> Iterator[UsageRecord]:
    """What was sent to the backlog in a quarter of an hour, and came home in the next ten minutes."""
    for minute in range(15):
        yield sent(began + minute * MINUTE, "orders", "send_backlog", SENT // 15)
        yield sent(began + minute * MINUTE, "orders", "ping", 30)
    for minute in range(15, 25):
        yield sent(began + minute * MINUTE, "orders", "syphon_send", SENT // 10 - (DEAD if minute == 24 else 0))


def sent(at: datetime, entity: str, kind: str, messages: int) -> UsageRecord:
    """A report of the messages of a minute, of 300 bytes each."""
    minute, namespace = at.replace(second=0, microsecond=0), "contoso-dr" if kind == "send_backlog" else "contoso"
    place = {"scope": "contoso", "pair": "contoso", "namespace": namespace, "entity": entity, "kind": kind}
    identity = uuid5(NAMESPACE_URL, f"{minute}/{place}").hex
    counts = {"operations": messages, "messages": messages, "bytes": 300 * messages, "billing_units": messages}
    return UsageRecord(identity, minute, **place, reporter=PROCESS, seq=1, **counts)
