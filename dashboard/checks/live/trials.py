"""Trials of names, rights, delivery and settlement. Each yields what it finds about its assumptions, in their order.

What a trial raises is judged by run.py: an outage or a missing right says nothing about an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageSizeExceededError, OperationTimeoutError, ServiceBusError

from dashboard.checks.live import failovers, pings
from dashboard.checks.live.findings import Found, failed, held, held_if, unknown
from dashboard.checks.live.stage import WORK_S, Stage, now
from dashboard.fleet.namespaces import watchdog
from dashboard.readiness import probing
from dashboard.readiness.checks import HEADROOM, SKEW_S
from dashboard.readiness.facts import Answer, Probe
from dashboard.readiness.gathering import LIMITS
from pairing.backlog.administration import deviations
from pairing.ends import Role
from pairing.errors import Fault
from pairing.health.faults import classify, is_ambiguous

Trial = Callable[[Stage], Iterator[Found]]
MARGIN = 1_024
"""Bytes of a message beside its body, at most."""


def pairing(stage: Stage) -> Iterator[Found]:
    """Opening the library creates the backlog queue."""
    paths = stage.client.backlog_paths
    made = stage.administrations["secondary"].get_queue(stage.backlog_queue)
    yield held_if(
        "queues.names", made.name == stage.backlog_queue and stage.backlog_queue in paths, f"it is {made.name}"
    )
    others = deviations(made)
    listed = ", ".join(f"{name} is {actual}, not {expected}" for name, (expected, actual) in others.items())
    yield held_if("queues.properties", not others, listed)


def rights(stage: Stage) -> Iterator[Found]:
    """Rights are shown by using them, as readiness does."""
    manage = probing.administered(stage.administrations["secondary"])
    yield _right("rights.secondary.manage", manage)
    bus, path = stage.buses["secondary"], stage.client.backlog_paths[0]
    yield _right("rights.secondary.send", probing.opened(watchdog(), lambda: bus.get_queue_sender(path)))
    listen = probing.opened(watchdog(), lambda: bus.get_queue_receiver(path), probing.peek)
    yield _right("rights.secondary.listen", listen)
    plain = stage.queue("queue")
    primary = stage.buses["primary"]
    yield _right("rights.primary.send", probing.opened(watchdog(), lambda: primary.get_queue_sender(plain)))
    if stage.pair.watches_all:
        yield held("rights.primary.least")
    else:  # this check itself needs it, so it cannot be held_if whether anybody else does
        reason = "it has Manage, which only this check and counting dead letters need while the entities are listed"
        yield unknown("rights.primary.least", reason)


def _right(id_: str, probe: Probe) -> Found:
    if probe.answer is Answer.SILENT:
        return unknown(id_, probe.reason)
    return held_if(id_, probe.answer is Answer.ALLOWED, probe.reason)


def absent(stage: Stage) -> Iterator[Found]:
    """What is said of an entity that does not exist."""
    path = f"{stage.prefix}/absent"
    try:
        stage.administrations["primary"].get_queue(path)
    except ResourceNotFoundError:
        yield held("absent.administration")
    else:
        yield failed("absent.administration", "an unknown queue was described")
    try:
        stage.on_link(lambda: stage.buses["primary"].get_queue_sender(path), lambda _: None)
    except ServiceBusError as error:
        refused = classify(error, known=False) in (Fault.CALLER, Fault.CONFIGURATION)
        said = f"it raises {type(error).__name__}"
        yield unknown("absent.link", said) if is_ambiguous(error) else held_if("absent.link", refused, said)
    else:
        yield failed("absent.link", "the link was opened")


def duplicates(stage: Stage) -> Iterator[Found]:
    """The second of two messages with one id does not arrive before a third one."""
    path = stage.queue("duplicates", requires_duplicate_detection=True)
    stage.send(path, *(ServiceBusMessage("-", message_id=name) for name in ("same", "same", "last")))
    names = [one.message_id for one in stage.receive(lambda: stage.buses["primary"].get_queue_receiver(path), 2)]
    yield held_if("duplicates.dropped", names == ["same", "last"], "both were delivered")


def locks(stage: Stage) -> Iterator[Found]:
    """Numbers, locks and settlements of a plain queue."""
    path, bus = stage.queue("locks"), stage.buses["primary"]
    sent_at = now()
    stage.send(path, *(ServiceBusMessage(str(number)) for number in range(3)))
    found: list[Found] = []
    try:
        stage.on_link(lambda: bus.get_queue_receiver(path), lambda receiver: found.extend(_settled(receiver, sent_at)))
    finally:  # what was found before an error is found
        yield from found
    yield stage.on_link(
        lambda: bus.get_queue_receiver(path, sub_queue=ServiceBusSubQueue.DEAD_LETTER), _dead_letter_kept
    )
    yield stage.on_link(lambda: bus.get_queue_sender(path), _cancelled)


def _settled(receiver: Any, sent_at: Any) -> Iterator[Found]:
    first, second, third = _three(receiver)
    numbers = [message.sequence_number or 0 for message in (first, second, third)]
    yield held_if("sequence.gapless", numbers == list(range(numbers[0], numbers[0] + 3)), f"they are {numbers}")
    enqueued = first.enqueued_time_utc
    slack = timedelta(seconds=SKEW_S)
    agrees = enqueued is not None and sent_at - slack <= enqueued <= now() + slack
    yield held_if("clocks.service", agrees, f"it stored at {enqueued} what was sent after {sent_at}")
    before = first.locked_until_utc
    renewed = receiver.renew_message_lock(first, timeout=WORK_S / 3)
    yield held_if("locks.renewal", before is not None and renewed > before, f"{before} became {renewed}")
    receiver.complete_message(first)
    receiver.defer_message(second)
    shown = [one.state for one in receiver.peek_messages(10, sequence_number=numbers[0], timeout=WORK_S / 3)]
    found = receiver.receive_deferred_messages(numbers[1], timeout=WORK_S / 3)
    for message in found:
        receiver.complete_message(message)
    is_shown = ServiceBusMessageState.DEFERRED in shown
    yield held_if("settle.deferred", is_shown and len(found) == 1, f"the peek showed {shown}, {len(found)} received")
    receiver.dead_letter_message(third, reason="a check", error_description="its description")


def _three(receiver: Any) -> list[ServiceBusReceivedMessage]:
    found: list[ServiceBusReceivedMessage] = []
    for _ in range(5):
        found += receiver.receive_messages(3 - len(found), max_wait_time=5)
        if len(found) == 3:
            return found
    raise OperationTimeoutError(message=f"{len(found)} of 3 messages arrived")


def _dead_letter_kept(receiver: Any) -> Found:
    for message in receiver.receive_messages(1, max_wait_time=10):
        said = (message.dead_letter_reason, message.dead_letter_error_description)
        receiver.complete_message(message)
        return held_if("settle.dead_letter", said == ("a check", "its description"), f"it says {said}")
    return failed("settle.dead_letter", "the dead letter did not arrive")


def _cancelled(sender: Any) -> Found:
    tomorrow = now() + timedelta(days=1)
    numbers = sender.schedule_messages(ServiceBusMessage("later"), tomorrow, timeout=WORK_S / 3)
    sender.cancel_scheduled_messages(numbers, timeout=WORK_S / 3)
    return held_if("schedule.cancel", len(numbers) == 1, f"it was given the numbers {numbers}")


def sizes(stage: Stage) -> Iterator[Found]:
    """The limits that links announce, and messages around them."""
    tiers = {"primary": stage.pair.primary.tier, "secondary": stage.pair.secondary.tier}
    paths: dict[Role, str] = {"primary": stage.queue("sizes"), "secondary": stage.client.backlog_paths[0]}
    limits = {role: _limit_at(stage, role, path) for role, path in paths.items()}
    wanted = {role: LIMITS[tier] for role, tier in tiers.items()}
    yield held_if("sizes.limit", limits == wanted, f"the limits are {limits}, and {wanted} is assumed")
    limit = limits["primary"]
    stage.send(paths["primary"], ServiceBusMessage(b"-" * (limit - HEADROOM - MARGIN)))
    yield held("sizes.accepted")
    try:
        stage.send(paths["primary"], ServiceBusMessage(b"-" * (limit + MARGIN)))
    except MessageSizeExceededError:
        yield held("sizes.refused")
    except ServiceBusError as error:
        yield failed("sizes.refused", f"it raises {type(error).__name__}")
    else:
        yield failed("sizes.refused", "the message was accepted")


def _limit_at(stage: Stage, role: Role, path: str) -> int:
    return stage.on_link(lambda: stage.buses[role].get_queue_sender(path), _limit)


def _limit(sender: Any) -> int:
    return int(sender._max_message_size_on_link)


def quarantine(stage: Stage) -> Iterator[Found]:
    """A queue that is quarantined as operators do before they delete it."""
    id_, path, administration = (
        "quarantine.refused",
        stage.queue("quarantine", "secondary"),
        stage.administrations["secondary"],
    )
    queue = administration.get_queue(path)
    queue.status = "SendDisabled"
    administration.update_queue(queue)
    try:
        stage.send(path, ServiceBusMessage("-"), role="secondary")
    except ServiceBusError as error:
        said = f"it raises {type(error).__name__}"
        removes = classify(error, known=True) is Fault.OUTAGE
        yield unknown(id_, said) if is_ambiguous(error) else held_if(id_, removes, said)
    else:
        yield failed(id_, "the message was accepted; the status may take a while to be known")


def no_session(stage: Stage) -> Iterator[Found]:
    """Waiting for any session of a queue without messages."""
    path, bus = stage.queue("empty-sessions", requires_session=True), stage.buses["primary"]
    try:
        stage.on_link(
            lambda: bus.get_queue_receiver(path, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2), lambda _: None
        )
    except OperationTimeoutError:
        yield held("sessions.none")
    else:
        yield failed("sessions.none", "a session was found")


def sessions(stage: Stage) -> Iterator[Found]:
    """Sessions through the backlog, and no session."""
    yield from failovers.sessions(stage)
    yield from no_session(stage)


TRIALS: Mapping[str, Trial] = {
    "pairing": pairing,
    "rights": rights,
    "absent": absent,
    "pings": pings.trial,
    "queue": failovers.queue,
    "sessions": sessions,
    "topic": failovers.topic,
    "duplicates": duplicates,
    "locks": locks,
    "sizes": sizes,
    "quarantine": quarantine,
}
"""By the name that assumptions.py uses, in the order in which they run."""
