"""Verbs for several entities of a pair, or all of them: one deed with one audit entry, and an event for each entity.

Each entity changes in Redis in one step of its own, and so many at once are told and written down that open pages show
how far it is. Where Redis goes away in the middle, the sentence says how many are left; the same click again does the
rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.actions import control
from dashboard.actions.control import Outcome, Request
from dashboard.site.redis import RedisError, announce_change
from pairing.fleet.coordination import SharedHealth, SharedState
from pairing.fleet.shared_state import Verb

Known = SharedHealth | None
SEPARATOR = ", "
CHUNK = 500
"""So many at once: one round trip to Redis, one transaction of the database, one word to the open pages."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to each: the verb, whether it is so already, and the words for many."""

    verb: Verb
    is_so: Callable[[Known], bool]
    words: str
    expires: datetime | None = None


def fail_over(request: Request, paths: Sequence[str], *, expires: datetime | None = None) -> Outcome:
    """Send the messages of all these entities to the backlog, held until released or until `expires`."""

    def is_so(known: Known) -> bool:
        return known is not None and control.is_forced_so(known, expires)

    words = "failed over: their messages go to the backlog"
    return _do(request, paths, Step("fail_over", is_so, words, expires))


def hold(request: Request, paths: Sequence[str], *, expires: datetime | None = None) -> Outcome:
    """Keep those of them that are failed over from returning by themselves, until released or until `expires`."""

    def is_so(known: Known) -> bool:
        return known is None or known.state != "failed_over" or control.is_held_so(known, expires)

    return _do(request, paths, Step("hold", is_so, "held", expires))


def release(request: Request, paths: Sequence[str]) -> Outcome:
    """End the holds that there are on them; each is pinged at once."""

    def is_so(known: Known) -> bool:
        return known is None or not known.held_by

    return _do(request, paths, Step("release", is_so, "released: the next accepted ping heals each"))


def mark_healthy(request: Request, paths: Sequence[str]) -> Outcome:
    """End hold and failover of those of them that are failed over."""

    def is_so(known: Known) -> bool:
        return known is None or known.state != "failed_over"

    words = "marked healthy: sends go to the primary"
    return _do(request, paths, Step("mark_healthy", is_so, words))


VERBS: dict[str, Callable[..., Outcome]] = {
    "fail_over": fail_over,
    "hold": hold,
    "release": release,
    "mark_healthy": mark_healthy,
}


def _do(request: Request, paths: Sequence[str], step: Step) -> Outcome:
    def deed(shared: SharedState) -> Outcome:
        known = shared.health() if step.verb == "fail_over" else control.known_of(shared, request.pair, paths)
        wanted = [path for path in paths if not step.is_so(known.get(path))]
        changed = _changed(request, shared, wanted, step)
        if not changed:
            return Outcome("unchanged", f"Nothing was changed: none of the {len(paths):,} entities had to be.")
        if changed < len(wanted):
            sentence = f"Redis stopped answering after {changed:,} of {len(wanted):,}. Do it again for the rest."
            return Outcome("done", sentence)
        return Outcome("done", f"{changed:,} of {len(paths):,} entities are {step.words}.")

    return control.perform(step.verb, request, deed, atomic=False)


def _changed(request: Request, shared: SharedState, wanted: Sequence[str], step: Step) -> int:
    """How many were changed and written down. Raises RedisError where it goes away before anything was changed."""
    changed = 0
    for begin in range(0, len(wanted), CHUNK):
        chunk = wanted[begin : begin + CHUNK]
        try:
            control.change(request, shared, step.verb, chunk, step.expires)
        except RedisError:
            if not changed:
                raise
            break
        changed += len(chunk)
        announce_change()
    return changed
