"""What is done to dead letters: they are sent again, or discarded on record. Workers carry it out.

It is about backlog queues, and about the pair's own queues and subscriptions in the primary: those go back to where
they died, but nothing can be sent to one subscription alone, so its topic gets them.
"""

import uuid
from collections.abc import Callable, Sequence
from functools import partial

from azure.core.exceptions import ResourceNotFoundError
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.backlog.browsing import highest_number
from dashboard.backlog.orphans import meant_for
from dashboard.backlog.places import Place, parted, place
from dashboard.fleet.namespaces import Namespace, NamespaceError, namespace
from dashboard.models import DeadLetterJob
from pairing.backlog.rotation import parse_backlog_path
from pairing.fleet.coordination import SharedState

Kind = DeadLetterJob.Kind
Run = Callable[[SharedState], Outcome]
"""What is left to do on the audited path, once the request was found to make sense."""


def resubmit(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Run:
    """Send dead letters again: these, or all there are; each to its own entity, or all to `destination`."""
    destination, home = destination.strip(), _place(request).home
    if home and destination in ("", home):
        destination = home
    elif destination:
        _require_entity(request, destination)
    elif other := meant_for(request.pair, request.target):
        raise ActionError(
            f"They were meant for {other}, and {request.pair.name} would send them to "
            f"{request.pair.primary_namespace}. Choose a destination there, or put the pair of {other} back."
        )
    return partial(_start, request, Kind.RESUBMIT, numbers, destination)


def discard(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Run:
    """Take dead letters out of their queue for good; what they were is kept, but not what they said."""
    return partial(_start, request, Kind.DISCARD, numbers, "")


def stop(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Run:
    """End a job; what is not done yet stays where it is."""
    return partial(_stop, request)


def _stop(request: Request, _: SharedState) -> Outcome:
    jobs = DeadLetterJob.open_ones().filter(pair=request.pair, path=request.target)
    if not jobs.update(ended_at=timezone.now(), detail=f"Stopped by {request.operator}."):
        return unchanged(f"Nothing is being done to the dead letters of {request.target}.")
    return done("It ends within seconds; what is not done yet stays a dead letter.")


def _start(request: Request, kind: Kind, numbers: Sequence[int], destination: str, _: SharedState) -> Outcome:
    try:
        with namespace(request.pair.name, _place(request).role) as here:
            upto, there = highest_number(here, request.target, dead=True), _count(here, request.target)
    except NamespaceError as error:
        raise ActionError(f"{error} Nothing was changed.") from error
    if upto < 0:
        return unchanged(f"{request.target} has no dead letters.")
    row = _row(request, kind, numbers, destination, upto, len(numbers) or there)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        return unchanged(f"A worker is still busy with dead letters of {request.target}.")
    return done(_sentence(row))


def _row(
    request: Request, kind: Kind, numbers: Sequence[int], destination: str, upto: int, total: int
) -> DeadLetterJob:
    return DeadLetterJob(
        pair=request.pair,
        path=request.target,
        by=request.operator,
        reason=request.reason,
        at=timezone.now(),
        request_id=request.request_id or uuid.uuid4().hex,
        kind=kind,
        destination=destination,
        numbers=sorted(set(numbers)),
        upto=upto,
        total=total,
    )


def _sentence(row: DeadLetterJob) -> str:
    which = f"{row.total:,} dead letter{'' if row.total == 1 else 's'} of {row.path}"
    if row.kind == Kind.DISCARD:
        return f"A worker discards {which}, and keeps on record what they were."
    topic, subscription = parted(row.path)
    if subscription and row.destination == topic:
        return f"A worker sends {which} again, to {topic}: every subscription of it whose rules match gets them."
    return f"A worker sends {which} again, to {row.destination or 'the entities they were meant for'}."


def _place(request: Request) -> Place:
    return place(request.pair, request.target) or Place("secondary")


def _count(here: Namespace, path: str) -> int:
    topic, name = parted(path)
    try:
        with here.asked() as administration:
            if name:
                return administration.get_subscription_runtime_properties(topic, name).dead_letter_message_count or 0
            return administration.get_queue_runtime_properties(path).dead_letter_message_count or 0
    except (ResourceNotFoundError, NamespaceError):
        return 0  # the primary may let nobody count; the job is done all the same


def _require_entity(request: Request, path: str) -> None:
    """ActionError where the primary has no such queue or topic."""
    if parse_backlog_path(path) is not None:
        raise ActionError(f"{path} is a backlog queue. Choose a queue or a topic of the primary.")
    try:
        with namespace(request.pair.name, "primary") as here:
            for look in (here.administration.get_queue, here.administration.get_topic):
                try:
                    with here.asked():
                        look(path)
                except ResourceNotFoundError:
                    continue
                return
    except NamespaceError as error:
        raise ActionError(f"{error} Nothing was changed.") from error
    raise ActionError(f"{request.pair.primary_namespace} has neither a queue nor a topic {path}.")
