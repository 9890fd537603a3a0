"""Requests to resubmit or discard dead letters; workers execute them.

They apply to backlog queues and to the pair's own queues and subscriptions in the primary. Dead letters of the primary
go back to their queue or topic, as a message cannot be sent to a single subscription.
"""

from collections.abc import Sequence

from azure.core.exceptions import ResourceNotFoundError
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.backlog.browsing import highest_number
from dashboard.backlog.cleanup import reached
from dashboard.backlog.orphans import meant_for
from dashboard.backlog.places import Place, parted, place
from dashboard.fleet.pairs.namespaces import Namespace, NamespaceError
from dashboard.models import DeadLetterJob
from pairing.backlog.rotation import parse_backlog_path

Kind = DeadLetterJob.Kind


def resubmit(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Outcome:
    """Resubmit these dead letters, or all: each to its own entity, or all to `destination`."""
    destination, home = destination.strip(), _place(request).home
    if home and destination in ("", home):
        destination = home
    elif destination:
        _require_entity(request, destination)
    elif other := meant_for(request.pair, request.target):
        raise ActionError(
            f"Their primary is {other}, but {request.pair.name} would send them to "
            f"{request.pair.primary_namespace}. Choose a destination there, or add the pair of {other} again."
        )
    return _start(request, Kind.RESUBMIT, numbers, destination)


def discard(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Outcome:
    """Discard dead letters permanently; a record of each is kept, without its body."""
    return _start(request, Kind.DISCARD, numbers, "")


def stop(request: Request, numbers: Sequence[int] = (), destination: str = "") -> Outcome:
    """Stop a job; the remaining dead letters stay in their queue."""
    jobs = DeadLetterJob.open_ones().filter(pair=request.pair, path=request.target)
    if not jobs.update(ended_at=timezone.now(), detail=f"Stopped by {request.operator}."):
        return unchanged(f"No job is running on the dead letters of {request.target}.")
    return done("The job ends within seconds; the remaining dead letters stay.")


def _start(request: Request, kind: Kind, numbers: Sequence[int], destination: str) -> Outcome:
    with reached(request.pair, _place(request).role) as here:
        upto, there = highest_number(here, request.target, dead=True), _count(here, request.target)
    if upto < 0:
        return unchanged(f"{request.target} has no dead letters.")
    row = DeadLetterJob(
        **request.errand,
        kind=kind,
        destination=destination,
        numbers=sorted(set(numbers)),
        upto=upto,
        total=len(numbers) or there,
    )
    if not row.begin():
        return unchanged(f"A job is already running on dead letters of {request.target}.")
    return done(_sentence(row))


def _sentence(row: DeadLetterJob) -> str:
    which = f"{row.total:,} dead letter{'' if row.total == 1 else 's'} of {row.path}"
    if row.kind == Kind.DISCARD:
        return f"A worker discards {which} and keeps a record of each."
    topic, subscription = parted(row.path)
    if subscription and row.destination == topic:
        return f"A worker resubmits {which} to {topic}: each of its subscriptions with matching rules receives them."
    return f"A worker resubmits {which} to {row.destination or 'their original entities'}."


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
        return 0  # the credential may not allow counting; the job does not need it


def _require_entity(request: Request, path: str) -> None:
    """Raises ActionError if the primary has no such queue or topic."""
    if parse_backlog_path(path) is not None:
        raise ActionError(f"{path} is a backlog queue. Choose a queue or a topic of the primary.")
    with reached(request.pair, "primary") as here:
        for look in (here.administration.get_queue, here.administration.get_topic):
            try:
                with here.asked():
                    look(path)
            except ResourceNotFoundError:
                continue
            return
    raise ActionError(f"{request.pair.primary_namespace} has neither a queue nor a topic {path}.")
