"""Actions on entities: fail over, hold, release and mark healthy, for one, several or all entities of a pair.

An action on several entities has one audit entry and one event per entity. Each entity changes atomically in Redis.
Changes are stored and announced in chunks, so that open pages show the progress. If Redis becomes unavailable during
the action, the answer reports how many entities are left; repeating the request changes the remaining ones.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from django.db import transaction

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Argument, of_pair
from dashboard.actions import world
from dashboard.actions.events import event_of, process
from dashboard.actions.world import KnownEntity
from dashboard.fleet.state import projection
from dashboard.fleet.state.status import Status
from dashboard.models import Pair
from dashboard.models.audit import NEW_END
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing.fleet.coordination import SharedHealth, SharedState
from pairing.fleet.shared_state import Verb

SEPARATOR = ", "
CHUNK = 500
"""Entities per round trip to Redis, database transaction and notification of open pages."""
Known = Mapping[str, KnownEntity]


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of an action: the entities it would change, those it would not, and why it would be refused."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    hindrance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityAction(Action):
    """An action on entities. `is_so` decides from the current state whether there is nothing to do."""

    is_so: Callable[[KnownEntity, datetime | None], bool]
    already: str
    """The answer for one entity that needs no change: `{it}` is its path, `{by}` the operator who holds it."""
    done: str
    """The answer for one changed entity."""
    done_again: str = ""
    """The same if it was held before, and only the end of the hold was changed: `{ends}` says when that is."""
    done_many: str
    """The new state of several changed entities, for their answer."""
    needs_failover: str = ""
    """Why a single entity that is not failed over is refused. Among several, such an entity is skipped."""
    restores: bool = True
    """Whether state that Redis has lost is restored first. A forced failover does not need the earlier state."""

    def run(self, request: Request, *, expires: datetime | None = None) -> Outcome:
        """Execute the action for the entity that is the request's target."""
        return self.execute(request, lambda: self._one(request, shared_state(request.pair.name), expires))

    def run_on(self, request: Request, paths: Sequence[str], *, expires: datetime | None = None) -> Outcome:
        """Execute the action for several entities; the request's target names them for the audit trail."""
        in_chunks = replace(self, is_atomic=False)
        return in_chunks.execute(
            request, lambda: self._several(request, shared_state(request.pair.name), paths, expires)
        )

    def preview_on(self, pair: Pair, paths: Sequence[str], *, expires: datetime | None, is_one: bool) -> Preview:
        """What the action would do now; writes nothing. Raises RedisError."""
        known = world.read_entities(shared_state(pair.name), pair, paths)
        changed = self._wanted(known, paths, expires)
        rest = set(paths) - set(changed)
        hindrance = self._refusal(known[paths[0]]) if is_one else ""
        return Preview(tuple(changed), tuple(path for path in paths if path in rest), hindrance)

    def _one(self, request: Request, shared: SharedState, expires: datetime | None) -> Outcome:
        path = request.target
        known = self._read(shared, request.pair, [path])
        if refusal := self._refusal(known[path]):
            raise ActionError(refusal)
        if not self._wanted(known, [path], expires):
            return unchanged(self.already.format(it=path, by=known[path].held_by))
        [changed] = self._change(request, shared, [path], expires)
        if self.needs_failover and changed.state != "failed_over":  # it has recovered in the meantime
            raise ActionError(self.needs_failover.format(it=path))
        if self.done_again and known[path].held_by:
            return done(self.done_again.format(it=path, ends=_ends(expires)))
        return done(self.done.format(it=path))

    def _several(
        self, request: Request, shared: SharedState, paths: Sequence[str], expires: datetime | None
    ) -> Outcome:
        wanted = self._wanted(self._read(shared, request.pair, paths), paths, expires)
        changed = self._change_all(request, shared, wanted, expires)
        if not changed:
            return unchanged(f"Nothing was changed: none of the {len(paths):,} entities needed a change.")
        if changed < len(wanted):
            return done(
                f"Redis stopped answering after {changed:,} of {len(wanted):,}. Repeat the action for the others."
            )
        return done(f"{changed:,} of {len(paths):,} entities are {self.done_many}.")

    def _read(self, shared: SharedState, pair: Pair, paths: Sequence[str]) -> Known:
        known = world.read_entities(shared, pair, paths)
        if self.restores and world.restore(shared, known):
            return world.read_entities(shared, pair, paths)
        return known

    def _wanted(self, known: Known, paths: Sequence[str], expires: datetime | None) -> list[str]:
        """The entities that need a change, for dry runs and actions alike."""
        return [path for path in paths if not self.is_so(known[path], expires)]

    def _refusal(self, known: KnownEntity) -> str:
        return "" if known.is_failed_over else self.needs_failover.format(it=known.path)

    def _change_all(
        self, request: Request, shared: SharedState, wanted: Sequence[str], expires: datetime | None
    ) -> int:
        """Number of entities changed and stored. Raises RedisError if Redis fails before the first change."""
        changed = 0
        for begin in range(0, len(wanted), CHUNK):
            chunk = wanted[begin : begin + CHUNK]
            try:
                self._change(request, shared, chunk, expires)
            except RedisError:
                if not changed:
                    raise
                break
            changed += len(chunk)
            announce_change()
        return changed

    def _change(
        self, request: Request, shared: SharedState, paths: Sequence[str], expires: datetime | None
    ) -> list[SharedHealth]:
        """Change these entities in Redis and store the changes. Returns their new states.

        The change also adds their events to the fleet's stream: if this process dies before its commit, collectors
        store them. Event ids are equal in both places, so that each event is stored once.
        """
        first = event_of(request, self.event)
        events = {path: replace(first, id=uuid.uuid4().hex, entity=path) for path in paths}
        who, this = request.operator, process()
        changed = shared.of_several(
            cast(Verb, self.name),
            paths,
            operator=who,
            process=this,
            reason=request.reason,
            expires=expires,
            events=events,
        )
        with transaction.atomic():
            projection.record_events(events.values())
            projection.apply_all_health(request.pair.name, changed)
        return changed


def _ends(expires: datetime | None) -> str:
    return f"ends at {expires:%Y-%m-%d %H:%M} UTC" if expires else "lasts until it is released"


def _is_forced(known: KnownEntity, expires: datetime | None) -> bool:
    """Whether it is failed over by an operator in Redis, held until the same time."""
    one = known.shared
    is_forced = one is not None and one.state == "failed_over" and one.origin == "forced" and bool(one.held_by)
    return is_forced and one is not None and one.expires == expires


def _is_held_or_not_away(known: KnownEntity, expires: datetime | None) -> bool:
    """Whether it is held until the same time, or is not failed over."""
    is_held = bool(known.held_by) and known.health is not None and known.health.expires == expires
    return is_held or not known.is_failed_over


FAIL_OVER = EntityAction(
    name="fail_over",
    label="Fail over",
    title="Force failover",
    preview=(
        "Every process of the fleet stops sending to {it} in the primary namespace; the messages go to backlog queues "
        "of the secondary and are drained after the release. Pings continue and are shown, but do not end the failover."
    ),
    undo="Release, or Mark healthy",
    arguments=(Argument.EXPIRES,),
    is_severe=True,
    event="forced",
    operation=of_pair(
        "fail_over",
        "Send the messages of entities to the backlog; held until released or for the given number of minutes.",
    ),
    offered={Status.FAILING: 0, Status.UNKNOWN: 0, Status.DRAINING: 0, Status.HEALTHY: 0},
    is_so=_is_forced,
    already="{it} was already failed over by an operator.",
    done="{it} is failed over: its messages go to the backlog.",
    done_many="failed over: their messages go to the backlog",
    restores=False,
)
HOLD = EntityAction(
    name="hold",
    label="Hold",
    labels={Status.HELD: "Change end of hold"},
    preview=("{it} stays failed over even if a ping is accepted, until the hold is released or expires."),
    undo="Release",
    arguments=(Argument.EXPIRES,),
    event="held",
    operation=of_pair(
        "hold",
        "Keep entities failed over even if pings are accepted, until released or for the given number of minutes.",
    ),
    offered={Status.FAILED_OVER: 0, Status.HELD: 1},
    is_so=_is_held_or_not_away,
    already="{it} was already held by {by}.",
    done="{it} is held: an accepted ping does not end its failover.",
    done_again=NEW_END + "{it} now {ends}.",
    done_many="held",
    needs_failover="{it} is not failed over, so there is nothing to hold. Force a failover instead.",
)
RELEASE = EntityAction(
    name="release",
    label="Release",
    preview=("The hold of {it} ends. A ping is sent immediately. The failover continues until a ping is accepted."),
    undo="Hold",
    event="released",
    operation=of_pair(
        "release", "End holds: each entity is pinged immediately, and an accepted ping ends its failover."
    ),
    offered={Status.HELD: 0},
    is_so=lambda known, _: not known.held_by,
    already="{it} is not held.",
    done="{it} is released: the next accepted ping ends its failover.",
    done_many="released: the next accepted ping ends the failover of each",
)
MARK_HEALTHY = EntityAction(
    name="mark_healthy",
    label="Mark healthy",
    preview=(
        "Hold and failover of {it} end together, without a ping: sends go to the primary from now on. If the "
        "primary is still unavailable, sends raise errors until the failover interval has passed again."
    ),
    undo="Fail over",
    is_severe=True,
    event="recovered",
    operation=of_pair(
        "mark_healthy", "End hold and failover together: sends go to the primary from now on, without a ping."
    ),
    offered={Status.FAILED_OVER: 1, Status.HELD: 2, Status.FAILING: 1},
    is_so=lambda known, _: not known.is_failed_over,
    already="{it} is not failed over.",
    done="{it} is marked healthy: sends go to the primary.",
    done_many="marked healthy: sends go to the primary",
)
ACTIONS = (FAIL_OVER, HOLD, RELEASE, MARK_HEALTHY)
