"""The assumptions of the documentation about the service, as data: each with its section, and how it is tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Holding(StrEnum):
    """What is known about an assumption."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "could not tell"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One statement about the service. `trial` is empty if it cannot be tried; then `otherwise` says where to look."""

    id: str
    sentence: str
    section: str
    """A page of docs/ with the anchor of a heading."""
    trial: str = ""
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What one trial found about one assumption."""

    id: str
    holding: Holding
    reason: str


_METRICS = (
    "compare IncomingRequests of Azure Monitor, by EntityName, with the operations of this report; "
    "or store the metrics and run `reconcile --metrics`"
)
_RIGHTS = "production.md#rights"
ASSUMPTIONS = (
    # Names, rights, properties
    Assumption(
        "queues.names",
        "A backlog queue can be created with slashes in its name, and is found by it.",
        "wire.md#10-administration-over-http",
        "pairing",
    ),
    Assumption(
        "queues.properties",
        "A backlog queue has the properties it is created with.",
        "specification.md#4-pairing",
        "pairing",
    ),
    Assumption("rights.secondary.manage", "The secondary's credential has Manage.", _RIGHTS, "rights"),
    Assumption("rights.secondary.send", "The secondary's credential can send to a backlog queue.", _RIGHTS, "rights"),
    Assumption(
        "rights.secondary.listen", "The secondary's credential can receive from a backlog queue.", _RIGHTS, "rights"
    ),
    Assumption("rights.primary.send", "The primary's credential can send to an entity.", _RIGHTS, "rights"),
    Assumption(
        "rights.primary.least", "The primary's credential has no right that it does not need.", _RIGHTS, "rights"
    ),
    Assumption(
        "absent.administration",
        "A request for an unknown entity is answered with an empty feed or 404.",
        "wire.md#10-administration-over-http",
        "absent",
    ),
    Assumption(
        "absent.link",
        "A link to an unknown entity is refused, and the refusal does not look like an outage.",
        "wire.md#2-connection-sasl-cbs",
        "absent",
    ),
    # Pings
    Assumption(
        "pings.queue", "A ping is accepted by a queue and never delivered.", "specification.md#7-pings", "pings"
    ),
    Assumption(
        "pings.topic",
        "A ping is accepted by a topic and never delivered to a subscription.",
        "specification.md#7-pings",
        "pings",
    ),
    Assumption(
        "pings.sessions", "A ping is accepted by a queue that requires sessions.", "specification.md#7-pings", "pings"
    ),
    # Failover and draining
    Assumption(
        "failover.queue",
        "While a queue is failed over, a send to it is stored in a backlog queue.",
        "specification.md#6-sending-to-the-backlog",
        "queue",
    ),
    Assumption(
        "recovery.ping", "After a release, an accepted ping ends the failover.", "specification.md#7-pings", "queue"
    ),
    Assumption(
        "drain.queue",
        "The syphon returns the messages to the queue, and none is left in the backlog queue.",
        "specification.md#8-the-syphon",
        "queue",
    ),
    Assumption(
        "roundtrip.properties",
        "A message arrives through the backlog with every property that it has when sent directly.",
        "specification.md#6-sending-to-the-backlog",
        "queue",
    ),
    Assumption(
        "roundtrip.schedule",
        "A scheduled message is scheduled again for the same time after the backlog.",
        "specification.md#6-sending-to-the-backlog",
        "queue",
    ),
    Assumption(
        "failover.sessions",
        "Messages of a session arrive in their session and in order.",
        "specification.md#6-sending-to-the-backlog",
        "sessions",
    ),
    Assumption(
        "sessions.none",
        "Waiting for a session ends with a timeout if there is none.",
        "wire.md#7-sessions",
        "sessions",
    ),
    Assumption(
        "failover.topic",
        "A message for a topic arrives in its subscription through the backlog.",
        "specification.md#6-sending-to-the-backlog",
        "topic",
    ),
    # What delivery and draining rest on
    Assumption(
        "duplicates.dropped",
        "A queue with duplicate detection drops a second message with the same id.",
        "specification.md#6-sending-to-the-backlog",
        "duplicates",
    ),
    Assumption(
        "sequence.gapless",
        "Sequence numbers of a queue without partitions rise without gaps.",
        "specification.md#8-the-syphon",
        "locks",
    ),
    Assumption(
        "clocks.service",
        "The service's clock agrees with this host's, as settling a message requires.",
        "wire.md#delivery",
        "locks",
    ),
    Assumption("locks.renewal", "Renewing a lock moves its end.", "wire.md#6-management", "locks"),
    Assumption(
        "settle.deferred",
        "A deferred message is shown by a peek, and received and completed by its sequence number.",
        "wire.md#6-management",
        "locks",
    ),
    Assumption(
        "settle.dead_letter",
        "A dead letter keeps the reason and description that the receiver gave.",
        "wire.md#5-settlement",
        "locks",
    ),
    Assumption(
        "schedule.cancel", "A scheduled message can be cancelled by its number.", "wire.md#6-management", "locks"
    ),
    Assumption(
        "sizes.limit", "The size limit of both namespaces is that of their tier.", "readiness.md#the-checks", "sizes"
    ),
    Assumption(
        "sizes.accepted",
        "A message of the limit, less the headroom of the backlog, is accepted.",
        "specification.md#6-sending-to-the-backlog",
        "sizes",
    ),
    Assumption(
        "sizes.refused",
        "A message above the limit is refused as too large, not as an outage.",
        "specification.md#which-failures-qualify",
        "sizes",
    ),
    Assumption(
        "quarantine.refused",
        "A queue that is set SendDisabled refuses sends in a way that removes it from the rotation.",
        "specification.md#12-what-operators-do",
        "quarantine",
    ),
    # What no trial shows
    Assumption(
        "roundtrip.types",
        "The AMQP types of properties survive the backlog.",
        "specification.md#6-sending-to-the-backlog",
        otherwise="the SDK does not reveal the types of a received message; the suite compares bytes locally",
    ),
    Assumption(
        "billing.pings",
        "A ping is one billable operation.",
        "pricing.md#4-what-counts-as-an-operation",
        otherwise=_METRICS,
    ),
    Assumption(
        "billing.idle_receive",
        "An idle receiver is billed one operation for each grant of credit that ends empty.",
        "specification.md#10-what-it-costs",
        otherwise=f"leave an idle worker connected for a day, then {_METRICS}",
    ),
    Assumption(
        "billing.settlements",
        "Settlements are not billed.",
        "pricing.md#4-what-counts-as-an-operation",
        otherwise=_METRICS,
    ),
    Assumption(
        "throttling",
        "A throttled namespace answers with server busy, and is usable again after 10 s.",
        "specification.md#server-busy",
        otherwise="this check must not overload a namespace; look at ThrottledRequests of Azure Monitor under load",
    ),
    Assumption(
        "idle.close",
        "The service closes idle links, and the next send opens a new one.",
        "specification.md#6-sending-to-the-backlog",
        otherwise="it takes longer than this check; readiness shows it once workers are idle for half an hour",
    ),
)
BY_ID = {assumption.id: assumption for assumption in ASSUMPTIONS}


def of_trial(trial: str) -> tuple[str, ...]:
    """The assumptions that a trial is about, in the order in which it finds out."""
    return tuple(assumption.id for assumption in ASSUMPTIONS if assumption.trial == trial)


def trials_for(ids: Iterable[str]) -> tuple[str, ...]:
    """The trials that these assumptions need, in order; for none all."""
    wanted = set(ids) or set(BY_ID)
    needed = (assumption.trial for assumption in ASSUMPTIONS if assumption.trial and assumption.id in wanted)
    return tuple(dict.fromkeys(needed))


def untried() -> list[Result]:
    """The results of the assumptions that cannot be tried."""
    return [Result(one.id, Holding.UNKNOWN, one.otherwise) for one in ASSUMPTIONS if not one.trial]
