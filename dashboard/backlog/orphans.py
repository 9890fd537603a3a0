"""Orphan backlog queues: their primary, their messages, and the proof of both.

A queue is an orphan if no configured pair has it among its backlog queues and no live process has it in its rotation
(docs/specification.md, sections 2 and 12). Counts of a namespace are delayed, so a queue is empty only if its counts
are 0 *and* a peek finds neither a message nor a dead letter.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import EntityStatus, QueueProperties
from django.utils import timezone

from dashboard.fleet.pairs.namespaces import Namespace
from dashboard.models import BacklogQueue, Pair
from dashboard.models.backlog import COUNTS
from dashboard.models.visibility import all_pairs
from dashboard.site.redis import shared_state
from pairing.backlog.administration import CREATED_WITH, deviations
from pairing.backlog.rotation import parse_backlog_path
from pairing.fleet.presence import Presences

QUARANTINED = "SendDisabled"
REPAIRABLE = (*CREATED_WITH, "forward_to", "status")


@dataclass(frozen=True, slots=True)
class Proof:
    """The current state of one backlog queue in its namespace."""

    path: str
    created_at: str
    status: str
    counts: Mapping[str, int]
    peeked: int
    size_bytes: int
    accessed_at: datetime | None
    deviations: Mapping[str, tuple[Any, Any]]
    seen_at: datetime
    doubt: str = ""
    """Why it cannot be proved empty even if all counts are 0."""

    @property
    def messages(self) -> int:
        """Messages of all kinds including dead letters and transfers; at least the number found by peeking."""
        return max(sum(self.counts.values()), self.peeked)

    @property
    def is_empty(self) -> bool:
        return self.messages == 0 and not self.doubt

    @property
    def to_bring_home(self) -> int:
        """Messages that a syphon would drain; dead letters are resubmitted or discarded by operators."""
        return self.counts["active"] + self.counts["scheduled"]

    @property
    def is_quarantined(self) -> bool:
        return self.status == QUARANTINED


@dataclass(frozen=True, slots=True)
class Use:
    """The users of a backlog queue, as sentences; empty if there are none."""

    belongs: str = ""
    """A pair or a process sends to it during a failover."""
    served: str = ""
    """A syphon is draining it."""


def use_of(pair: Pair, path: str) -> Use:
    """The current users of the queue. Raises RedisError."""
    with all_pairs():  # a queue that a hidden pair uses is no orphan
        neighbours = list(Pair.objects.filter(secondary_namespace=pair.secondary_namespace))
    states = [shared_state(neighbour.name) for neighbour in neighbours]
    rotations = [reported for state in states for reported in Presences(state).rotations().items()]
    leases = [reported for state in states for reported in state.leases().items()]
    return decide_use(path, neighbours, rotations, leases)


def decide_use(
    path: str, pairs: Iterable[Pair], rotations: Iterable[tuple[str, Iterable[str]]], leases: Iterable[tuple[str, str]]
) -> Use:
    """The users of the queue, from known facts. Pure. Paths are compared case-insensitively, as in the service."""
    wanted = path.lower()
    pair = next((pair for pair in pairs if pair.is_configured and is_own(pair, path)), None)
    process = next((process for process, paths in rotations if wanted in map(str.lower, paths)), None)
    holder = next((holder for queue, holder in leases if queue.lower() == wanted), None)
    belongs = f"It is one of the {pair.backlog_queue_count} backlog queues of {pair.name}." if pair else ""
    if process and not belongs:
        belongs = f"The live process {process} has it in its rotation: its backlog_queue_count is higher than here."
    return Use(belongs, f"A syphon is draining it, at {holder}." if holder else "")


def is_own(pair: Pair, path: str) -> bool:
    """Whether the path is one of the pair's backlog queues by name and index."""
    parsed = parse_backlog_path(path)
    return parsed is not None and not meant_for(pair, path) and parsed[1] < pair.backlog_queue_count


def meant_for(pair: Pair, path: str) -> str:
    """The foreign primary that a backlog queue belongs to; empty if it is the pair's own.

    Entities of both primaries may have the same names: messages must not be drained to the wrong primary.
    """
    parsed = parse_backlog_path(path)
    is_foreign = parsed is not None and parsed[0].lower() != pair.primary_namespace.lower()
    return parsed[0] if parsed is not None and is_foreign else ""


def look(here: Namespace, path: str) -> Proof | None:
    """The current state of a queue; None if it does not exist. Raises NamespaceError."""
    try:
        with here.asked(2) as administration:
            queue = administration.get_queue(path)
            counted = administration.get_queue_runtime_properties(path)
    except ResourceNotFoundError:
        return None
    needs_session = bool(queue.requires_session)
    counts = {
        "active": counted.active_message_count or 0,
        "scheduled": counted.scheduled_message_count or 0,
        "dead_lettered": counted.dead_letter_message_count or 0,
        "transfer": counted.transfer_message_count or 0,
        "transfer_dead_lettered": counted.transfer_dead_letter_message_count or 0,
    }
    return Proof(
        path=path,
        created_at=str(counted.created_at_utc),
        status=status_of(queue),
        counts=counts,
        peeked=_peeked(here, path, needs_session),
        size_bytes=counted.size_in_bytes or 0,
        accessed_at=counted.accessed_at_utc,
        deviations=deviations(queue),
        seen_at=timezone.now(),
        doubt="It requires sessions, so it cannot be peeked." if needs_session else "",
    )


def _peeked(here: Namespace, path: str, needs_session: bool) -> int:
    """Whether a peek finds a message and a dead letter: 0, 1 or 2. Both links are opened in parallel."""
    kinds = (True,) if needs_session else (False, True)
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda dead: len(here.peek(path, 0, 1, dead=dead)), kinds))


def status_of(queue: QueueProperties) -> str:
    return str(getattr(queue.status, "value", queue.status))


def set_status(here: Namespace, path: str, status: str) -> None:
    """Quarantine a queue, or end the quarantine. Raises NamespaceError; ResourceNotFoundError if it does not exist."""
    with here.asked(2) as administration:
        queue = administration.get_queue(path)
        if status_of(queue) != status:
            queue.status = EntityStatus(status)
            administration.update_queue(queue)


def repair(here: Namespace, path: str) -> tuple[list[str], list[str]]:
    """Set the properties of a backlog queue. Returns the changed properties, and those that no update can change."""
    expected: dict[str, Any] = {**CREATED_WITH, "forward_to": None, "status": EntityStatus.ACTIVE}
    with here.asked(2) as administration:
        queue = administration.get_queue(path)
        reported = deviations(queue)
        mended = [name for name in reported if name in REPAIRABLE]
        for name in mended:
            setattr(queue, name, expected[name])
        if mended:
            administration.update_queue(queue)
    return mended, [name for name in reported if name not in REPAIRABLE]


def remember(pair: Pair, proof: Proof) -> None:
    """Update the list of queues with this state, without waiting for the sampler."""
    row = BacklogQueue.objects.filter(pair=pair, path=proof.path, seen_at__lte=proof.seen_at)
    row.update(
        **{name: proof.counts[name] for name in COUNTS},
        size_bytes=proof.size_bytes,
        status=proof.status,
        deviations={name: [str(value) for value in values] for name, values in proof.deviations.items()},
        accessed_at=proof.accessed_at,
        seen_at=proof.seen_at,
        is_gone=False,
    )


def forget(pair: Pair, path: str) -> None:
    """Mark the queue as deleted."""
    gone = dict.fromkeys((*COUNTS, "size_bytes"), 0)
    BacklogQueue.objects.filter(pair=pair, path=path).update(is_gone=True, deliverable_since=None, **gone)
