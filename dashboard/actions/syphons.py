"""Actions on syphons: pause, resume and pace, for a whole pair (`*`), one backlog queue or one entity.

Pauses and paces are database rows. If Redis is restarted empty, workers write them back to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from dashboard.access.audited import Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Argument, of_pair
from dashboard.actions import world
from dashboard.actions.events import record
from dashboard.actions.world import KnownSyphon
from dashboard.models import Pair, SyphonPace, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.redis import shared_state
from pairing.fleet.coordination import SharedState

Rate = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyphonAction(Action):
    """An action on a syphon. `is_so` decides from the current state whether there is nothing to do.

    `change` writes to the database and to Redis if a change is needed, and returns the previous state. It locks the
    row first, so that a worker that restores rows to an empty Redis waits for it.
    """

    is_so: Callable[[KnownSyphon, Rate], bool]
    change: Callable[[Request, SharedState, Rate], KnownSyphon]
    already: str
    done: Callable[[str, Rate], str]

    def run(self, request: Request, *, rate: Rate = None) -> Outcome:
        """Execute the action for the request's target."""
        return self.execute(request, lambda: self._changed(request, rate))

    def _changed(self, request: Request, rate: Rate) -> Outcome:
        named = request.pair.name if request.target == WHOLE_PAIR else request.target
        if self.is_so(self.change(request, shared_state(request.pair.name), rate), rate):
            return unchanged(self.already.format(it=named))
        if self.event:
            record(request, self.event)
        return done(self.done(named, rate))

    def would_change(self, pair: Pair, target: str, *, rate: Rate = None) -> bool:
        """Whether the action would change anything now; writes nothing. Raises RedisError."""
        return not self.is_so(world.read_syphon(shared_state(pair.name), pair, target), rate)


def _pause(request: Request, shared: SharedState, _: Rate) -> KnownSyphon:
    row, created = SyphonPause.objects.select_for_update().get_or_create(
        pair=request.pair,
        queue=request.target,
        defaults={"by": request.operator, "reason": request.reason, "at": timezone.now()},
    )
    is_shared = request.target in shared.paused()
    if created or not is_shared:
        shared.pause_syphon(_queue(request.target), operator=row.by, reason=row.reason)
    return KnownSyphon(is_pause_stored=not created, is_pause_shared=is_shared)


def _resume(request: Request, shared: SharedState, _: Rate) -> KnownSyphon:
    deleted, _rows = SyphonPause.objects.filter(pair=request.pair, queue=request.target).delete()
    was_shared = shared.resume_syphon(_queue(request.target))
    return KnownSyphon(is_pause_stored=bool(deleted), is_pause_shared=was_shared)


def _pace(request: Request, shared: SharedState, rate: Rate) -> KnownSyphon:
    rows = SyphonPace.objects.select_for_update().filter(pair=request.pair, target=request.target)
    stored, pace = rows.values_list("rate", flat=True).first(), shared.paces().get(request.target)
    found = KnownSyphon(stored_rate=stored, shared_rate=pace.rate if pace else None)
    if stored != rate:
        _store_pace(request, rate)
    if not _has_pace(found, rate):
        shared.pace_syphon(_queue(request.target), rate, request.operator, request.reason)
    return found


def _store_pace(request: Request, rate: Rate) -> None:
    if rate is None:
        SyphonPace.objects.filter(pair=request.pair, target=request.target).delete()
        return
    values = {"rate": rate, "by": request.operator, "reason": request.reason, "at": timezone.now()}
    SyphonPace.objects.update_or_create(pair=request.pair, target=request.target, defaults=values)


def _has_pace(known: KnownSyphon, rate: Rate) -> bool:
    return known.stored_rate == rate and known.shared_rate == rate


def _paced(named: str, rate: Rate) -> str:
    if rate is None:
        return f"The syphon of {named} runs without a rate limit."
    return f"The syphon of {named} drains at most {rate:g} messages a second."


def _queue(target: str) -> str | None:
    return None if target == WHOLE_PAIR else target


PAUSE_SYPHON = SyphonAction(
    name="pause_syphon",
    label="Pause syphon",
    button="Pause",
    preview=("Draining of {it} stops within two seconds. No message is lost: they wait in the backlog."),
    undo="Resume syphon",
    event="syphon_paused",
    operation=of_pair(
        "pause_syphon",
        "Stop draining the whole pair, one backlog queue or the messages of one entity, within two seconds.",
    ),
    is_so=lambda known, _: known.is_pause_stored,
    change=_pause,
    already="The syphon of {it} was already paused.",
    done=lambda named, _: f"The syphon of {named} is paused: messages stay in the backlog until it resumes.",
)
RESUME_SYPHON = SyphonAction(
    name="resume_syphon",
    label="Resume syphon",
    button="Resume",
    preview="Draining of {it} resumes, to every entity that is not failed over.",
    undo="Pause syphon",
    asks_reason=False,
    event="syphon_resumed",
    operation=of_pair("resume_syphon", "Resume draining."),
    is_so=lambda known, _: not (known.is_pause_stored or known.is_pause_shared),
    change=_resume,
    already="The syphon of {it} was not paused.",
    done=lambda named, _: f"The syphon of {named} resumes.",
)
PACE_SYPHON = SyphonAction(
    name="pace_syphon",
    label="Pace syphon",
    button="Set the pace",
    preview=(
        "The syphons of the whole fleet together drain at most this many messages of {it} per second. Empty: no limit."
    ),
    undo="the same action with an empty rate",
    arguments=(Argument.RATE,),
    operation=of_pair("pace_syphon", "Limit how many messages per second the whole fleet drains."),
    is_so=_has_pace,
    change=_pace,
    already="The syphon of {it} already has this pace.",
    done=_paced,
)
ACTIONS = (PAUSE_SYPHON, RESUME_SYPHON, PACE_SYPHON)


def restore_pauses(pair: str, shared: SharedState) -> int:
    """Write pauses that Redis has lost back to it. Returns their number."""
    with transaction.atomic():
        stored = list(SyphonPause.objects.select_for_update().filter(pair__name=pair))
        known = shared.paused() if stored else {}
        lost = [pause for pause in stored if pause.queue not in known]
        for pause in lost:
            shared.pause_syphon(_queue(pause.queue), operator=pause.by, reason=pause.reason)
    return len(lost)


def restore_paces(pair: str, shared: SharedState) -> int:
    """Write paces that Redis has lost back to it. Returns their number."""
    with transaction.atomic():
        stored = list(SyphonPace.objects.select_for_update().filter(pair__name=pair))
        known = shared.paces() if stored else {}
        lost = [pace for pace in stored if pace.target not in known]
        for pace in lost:
            shared.pace_syphon(_queue(pace.target), pace.rate, pace.by, pace.reason)
    return len(lost)
