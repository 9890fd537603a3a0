"""Actions on entities: fail over, hold, release, mark healthy; of one, of several, or of all of a pair.

Several are one action with one audit entry, and an event for each entity. Each entity changes in Redis in one step of
its own, and a chunk at a time is reported and written down, so that open pages show the progress. Where Redis goes away
in the middle, the sentence says how many are left; the same request again does the rest.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from django.db import transaction

from dashboard.access import audited
from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Argument, Command, Operation
from dashboard.actions import world
from dashboard.actions.events import event_of, process
from dashboard.actions.world import KnownEntity
from dashboard.fleet import projection
from dashboard.fleet.catching_up import take_over
from dashboard.fleet.status import Status
from dashboard.models import Pair
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing.fleet.coordination import SharedHealth, SharedState
from pairing.fleet.shared_state import Verb

SEPARATOR = ", "
CHUNK = 500
"""So many at once: one round trip to Redis, one transaction of the database, one notification of the open pages."""
Known = Mapping[str, KnownEntity]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do: the entities it would change, those it would not, and why it would be refused."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    hindrance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityAction(Action):
    """An action on entities. `is_so` decides from the state that was read whether there is nothing to do."""

    is_so: Callable[[KnownEntity, datetime | None], bool]
    already: str
    """The answer for one entity where it is so: `{it}` is its path, `{by}` who holds it."""
    done: str
    """The answer for one entity that was changed."""
    done_many: str
    """The same for several: what they are now."""
    needs_failover: str = ""
    """Why one entity that is not failed over is refused; of several it is passed over."""
    restores: bool = True
    """What Redis has forgotten is restored first. A forced failover needs nothing of what was."""

    def run(self, request: Request, *, expires: datetime | None = None) -> Outcome:
        """Carry it out for the entity that is the request's target."""
        return audited.perform(self.name, request, lambda shared: self._one(request, shared, expires), right=self.right)

    def run_on(self, request: Request, paths: Sequence[str], *, expires: datetime | None = None) -> Outcome:
        """Carry it out for several; the request's target names them for the audit trail."""
        return audited.perform(
            self.name,
            request,
            lambda shared: self._several(request, shared, paths, expires),
            right=self.right,
            atomic=False,
        )

    def preview_on(self, pair: Pair, paths: Sequence[str], *, expires: datetime | None, is_one: bool) -> Preview:
        """What the same would do now; nothing is written. Raises RedisError."""
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
        if self.needs_failover and changed.state != "failed_over":  # it has recovered since it was read
            raise ActionError(self.needs_failover.format(it=path))
        return done(self.done.format(it=path))

    def _several(
        self, request: Request, shared: SharedState, paths: Sequence[str], expires: datetime | None
    ) -> Outcome:
        wanted = self._wanted(self._read(shared, request.pair, paths), paths, expires)
        changed = self._change_all(request, shared, wanted, expires)
        if not changed:
            return unchanged(f"Nothing was changed: none of the {len(paths):,} entities had to be.")
        if changed < len(wanted):
            return done(f"Redis stopped answering after {changed:,} of {len(wanted):,}. Do it again for the rest.")
        return done(f"{changed:,} of {len(paths):,} entities are {self.done_many}.")

    def _read(self, shared: SharedState, pair: Pair, paths: Sequence[str]) -> Known:
        known = world.read_entities(shared, pair, paths)
        if self.restores and world.restore(shared, known):
            return world.read_entities(shared, pair, paths)
        return known

    def _wanted(self, known: Known, paths: Sequence[str], expires: datetime | None) -> list[str]:
        """Those that have to be changed. The one rule of dry runs and actions."""
        return [path for path in paths if not self.is_so(known[path], expires)]

    def _refusal(self, known: KnownEntity) -> str:
        return "" if known.is_failed_over else self.needs_failover.format(it=known.path)

    def _change_all(
        self, request: Request, shared: SharedState, wanted: Sequence[str], expires: datetime | None
    ) -> int:
        """How many were changed and written down. Raises RedisError where it goes away before anything was changed."""
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
        """Change these in Redis, and write down that they have changed. What is true of each then.

        Their events are in the fleet's stream with the change: if this process dies before its commit, collectors
        write them down. They have the same ids, so that each is stored once.
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
            take_over(request.pair.name, changed)
        return changed


def _is_forced(known: KnownEntity, expires: datetime | None) -> bool:
    """Whether Redis knows that an operator has failed it over, held until the same time."""
    one = known.shared
    is_forced = one is not None and one.state == "failed_over" and one.origin == "forced" and bool(one.held_by)
    return is_forced and one is not None and one.expires == expires


def _is_held_or_not_away(known: KnownEntity, expires: datetime | None) -> bool:
    """Whether it is held until the same time, or there is nothing to hold."""
    is_held = bool(known.held_by) and known.health is not None and known.health.expires == expires
    return is_held or not known.is_failed_over


FAIL_OVER = EntityAction(
    name="fail_over",
    label="Fail over",
    title="Force failover",
    preview=(
        "Every process of the fleet stops sending to {it} in the primary namespace; the messages go to backlog queues "
        "of the secondary and come home after the release. Pings go on and are shown, but do not end the failover."
    ),
    undo="Release, or Mark healthy",
    arguments=(Argument.EXPIRES,),
    is_severe=True,
    event="forced",
    command=Command("fail-over", "send an entity's messages to the backlog; held until released"),
    operation=Operation(
        "/pairs/{pair}/fail-over",
        "fail_over",
        "Send the messages of entities to the backlog from now on; held until released, or for so many minutes.",
    ),
    offered={Status.FAILING: 0, Status.UNKNOWN: 0, Status.DRAINING: 0, Status.HEALTHY: 0},
    is_so=_is_forced,
    already="{it} was failed over by hand already.",
    done="{it} is failed over: its messages go to the backlog.",
    done_many="failed over: their messages go to the backlog",
    restores=False,
)
HOLD = EntityAction(
    name="hold",
    label="Hold",
    labels={Status.HELD: "Change the end"},
    preview=(
        "{it} stays failed over, also when a ping is accepted, until somebody releases the hold or its time is over."
    ),
    undo="Release",
    arguments=(Argument.EXPIRES,),
    event="held",
    command=Command("hold", "keep a failed-over entity from returning by itself"),
    operation=Operation(
        "/pairs/{pair}/hold",
        "hold",
        "Keep failed-over entities from returning by themselves, until released, or for so many minutes.",
    ),
    offered={Status.FAILED_OVER: 0, Status.HELD: 1},
    is_so=_is_held_or_not_away,
    already="{it} was held by {by} already.",
    done="{it} is held: an accepted ping does not bring it back.",
    done_many="held",
    needs_failover="{it} is not failed over, so there is nothing to hold. Force a failover instead.",
)
RELEASE = EntityAction(
    name="release",
    label="Release",
    preview=(
        "The hold of {it} ends. A ping is sent at once, and an accepted one ends the failover; until then it goes on."
    ),
    undo="Hold",
    event="released",
    command=Command("release", "end a hold: the next accepted ping heals the entity"),
    operation=Operation(
        "/pairs/{pair}/release",
        "release",
        "End holds: each entity is pinged at once, and an accepted ping heals it.",
    ),
    offered={Status.HELD: 0},
    is_so=lambda known, _: not known.held_by,
    already="{it} is not held.",
    done="{it} is released: the next accepted ping heals it.",
    done_many="released: the next accepted ping heals each",
)
MARK_HEALTHY = EntityAction(
    name="mark_healthy",
    label="Mark healthy",
    preview=(
        "Hold and failover of {it} end together, without asking the primary: sends go there from now on. If the "
        "primary is still out of order, sends raise until the failover interval is over once more."
    ),
    undo="Fail over",
    is_severe=True,
    event="recovered",
    command=Command("mark-healthy", "end hold and failover together, whatever the primary answers"),
    operation=Operation(
        "/pairs/{pair}/mark-healthy",
        "mark_healthy",
        "End hold and failover together: sends go to the primary from now on, whatever it answers.",
    ),
    offered={Status.FAILED_OVER: 1, Status.HELD: 2, Status.FAILING: 1},
    is_so=lambda known, _: not known.is_failed_over,
    already="{it} is not failed over.",
    done="{it} is marked healthy: sends go to the primary.",
    done_many="marked healthy: sends go to the primary",
)
ACTIONS = (FAIL_OVER, HOLD, RELEASE, MARK_HEALTHY)
