"""Verbs for several entities of a pair, or all of them: one deed with one audit entry, and an event for each entity.

Each entity changes in Redis in one step of its own. Where Redis goes away in the middle, what was changed is written
down and the sentence says how many are left; the same click again does the rest.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from dashboard import control, projection
from dashboard.control import Outcome, Request
from dashboard.redis import RedisError
from pairing.coordination import SharedHealth, SharedState
from pairing.events import Event

Known = SharedHealth | None
SEPARATOR = ", "


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to each: the kind of event, whether it is so already, the change, and the words for many."""

    kind: str
    is_so: Callable[[Known], bool]
    take: Callable[[SharedState, str], SharedHealth]
    words: str


def fail_over(request: Request, paths: Sequence[str], *, expires: datetime | None = None) -> Outcome:
    """Send the messages of all these entities to the backlog, held until released or until `expires`."""

    def is_so(known: Known) -> bool:
        return known is not None and control.is_forced_so(known, True, expires)

    def take(shared: SharedState, path: str) -> SharedHealth:
        who, run = request.operator, control.process()
        return shared.fail_over(path, request.reason, operator=who, process=run, hold=True, expires=expires)

    return _do(
        "fail_over", request, paths, Step("forced", is_so, take, "failed over: their messages go to the backlog")
    )


def hold(request: Request, paths: Sequence[str]) -> Outcome:
    """Keep those of them that are failed over from returning by themselves."""

    def take(shared: SharedState, path: str) -> SharedHealth:
        return shared.hold(path, operator=request.operator, process=control.process())

    def is_so(known: Known) -> bool:
        return known is None or known.state != "failed_over" or bool(known.held_by)

    return _do("hold", request, paths, Step("held", is_so, take, "held"))


def release(request: Request, paths: Sequence[str]) -> Outcome:
    """End the holds that there are on them; each is pinged at once."""

    def take(shared: SharedState, path: str) -> SharedHealth:
        return shared.release(path, operator=request.operator, process=control.process())

    def is_so(known: Known) -> bool:
        return known is None or not known.held_by

    return _do("release", request, paths, Step("released", is_so, take, "released: the next accepted ping heals each"))


def mark_healthy(request: Request, paths: Sequence[str]) -> Outcome:
    """End hold and failover of those of them that are failed over."""

    def take(shared: SharedState, path: str) -> SharedHealth:
        return shared.mark_healthy(path, operator=request.operator, process=control.process())

    def is_so(known: Known) -> bool:
        return known is None or known.state != "failed_over"

    return _do(
        "mark_healthy", request, paths, Step("recovered", is_so, take, "marked healthy: sends go to the primary")
    )


VERBS: dict[str, Callable[..., Outcome]] = {
    "fail_over": fail_over,
    "hold": hold,
    "release": release,
    "mark_healthy": mark_healthy,
}


def _do(verb: str, request: Request, paths: Sequence[str], step: Step) -> Outcome:
    def deed(shared: SharedState) -> Outcome:
        known = shared.health()
        wanted = [path for path in paths if not step.is_so(known.get(path))]
        changed = _changed(shared, wanted, step)
        _write_down(request, step.kind, changed)
        if not changed:
            return Outcome("unchanged", f"Nothing was changed: none of the {len(paths):,} entities had to be.")
        if len(changed) < len(wanted):
            sentence = f"Redis stopped answering after {len(changed):,} of {len(wanted):,}. Do it again for the rest."
            return Outcome("done", sentence)
        return Outcome("done", f"{len(changed):,} of {len(paths):,} entities are {step.words}.")

    return control.perform(verb, request, deed, atomic=False)


def _changed(shared: SharedState, wanted: Sequence[str], step: Step) -> list[SharedHealth]:
    """What became of each. Raises RedisError where it goes away before anything was changed."""
    changed: list[SharedHealth] = []
    for path in wanted:
        try:
            changed.append(step.take(shared, path))
        except RedisError:
            if not changed:
                raise
            break
    return changed


def _write_down(request: Request, kind: str, changed: Sequence[SharedHealth]) -> None:
    first = Event("", timezone.now(), request.pair.name, "", kind, request.reason, control.process(), request.operator)
    with transaction.atomic():
        projection.record_events(replace(first, id=uuid.uuid4().hex, entity=health.path) for health in changed)
        projection.apply_all_health(request.pair.name, changed)
