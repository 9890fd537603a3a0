"""The verbs about entities and syphons, as programs ask for them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router
from pydantic import Field

from dashboard.access.rights import Right, require
from dashboard.actions import several
from dashboard.actions.control import Outcome, Request, is_forced_so, is_held_so
from dashboard.actions.forms import MOST_SELECTED
from dashboard.actions.views import ACTIONS
from dashboard.api.fields import WHOLE, Body, Path, Reason, pair_or_404
from dashboard.api.idempotency import Deed, Key, perform
from dashboard.api.problems import PROBLEMS
from dashboard.fleet.paces import paces
from dashboard.models import Pair
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.redis import shared_state
from pairing.fleet.coordination import SharedHealth

router = Router(tags=["actions"])
Paths = Annotated[
    list[Path],
    Field(min_length=1, max_length=MOST_SELECTED, description="Entities, or `*` alone for all of the pair."),
]


class AboutEntities(Body):
    """Which entities, and why. `dry_run`: tell what would change, and change nothing."""

    paths: Paths
    reason: Reason
    dry_run: bool = False


class ForAWhile(AboutEntities):
    """Also: for how long; without that, until somebody releases them."""

    minutes: Annotated[int, Field(ge=1, le=43_200), WHOLE] | None = None

    @property
    def expires(self) -> datetime | None:
        """When it ends by itself."""
        return timezone.now() + timedelta(minutes=self.minutes) if self.minutes else None


class AboutSyphon(Body):
    """Which backlog queue, or `*` for all of the pair, and why."""

    target: Path = WHOLE_PAIR
    reason: Reason
    dry_run: bool = False


class PaceSyphon(AboutSyphon):
    """Also: how fast at most; null takes the limit away. `target` may be an entity, too."""

    messages_per_s: Annotated[float, Field(ge=0.01, le=1_000_000)] | None


@router.post("/pairs/{pair}/fail-over", response={200: Deed, **PROBLEMS}, operation_id="fail_over")
def fail_over(request: HttpRequest, pair: str, body: ForAWhile, key: Key = "") -> dict[str, Any]:
    """Send the messages of entities to the backlog from now on; held until released, or for so many minutes."""
    return _entities(request, pair, "fail_over", body, key, {"expires": body.expires})


@router.post("/pairs/{pair}/hold", response={200: Deed, **PROBLEMS}, operation_id="hold")
def hold(request: HttpRequest, pair: str, body: ForAWhile, key: Key = "") -> dict[str, Any]:
    """Keep failed-over entities from returning by themselves, until released, or for so many minutes."""
    return _entities(request, pair, "hold", body, key, {"expires": body.expires})


@router.post("/pairs/{pair}/release", response={200: Deed, **PROBLEMS}, operation_id="release")
def release(request: HttpRequest, pair: str, body: AboutEntities, key: Key = "") -> dict[str, Any]:
    """End holds: each entity is pinged at once, and an accepted ping heals it."""
    return _entities(request, pair, "release", body, key)


@router.post("/pairs/{pair}/mark-healthy", response={200: Deed, **PROBLEMS}, operation_id="mark_healthy")
def mark_healthy(request: HttpRequest, pair: str, body: AboutEntities, key: Key = "") -> dict[str, Any]:
    """End hold and failover together: sends go to the primary from now on, whatever it answers."""
    return _entities(request, pair, "mark_healthy", body, key)


@router.post("/pairs/{pair}/pause-syphon", response={200: Deed, **PROBLEMS}, operation_id="pause_syphon")
def pause_syphon(request: HttpRequest, pair: str, body: AboutSyphon, key: Key = "") -> dict[str, Any]:
    """Stop bringing messages home, of all, of one backlog queue or to one entity, within two seconds."""
    return _syphon(request, pair, "pause_syphon", body, key)


@router.post("/pairs/{pair}/resume-syphon", response={200: Deed, **PROBLEMS}, operation_id="resume_syphon")
def resume_syphon(request: HttpRequest, pair: str, body: AboutSyphon, key: Key = "") -> dict[str, Any]:
    """Go on bringing messages home."""
    return _syphon(request, pair, "resume_syphon", body, key)


@router.post("/pairs/{pair}/pace-syphon", response={200: Deed, **PROBLEMS}, operation_id="pace_syphon")
def pace_syphon(request: HttpRequest, pair: str, body: PaceSyphon, key: Key = "") -> dict[str, Any]:
    """Let at most so many messages a second come home, by the whole fleet together."""
    return _syphon(request, pair, "pace_syphon", body, key, {"rate": body.messages_per_s})


def _entities(
    request: HttpRequest, pair: str, verb: str, body: AboutEntities, key: str, more: dict[str, Any] | None = None
) -> dict[str, Any]:
    require(request.user, Right.OPERATE)
    row, given = pair_or_404(pair), list(dict.fromkeys(body.paths))
    targets = _targets(row, given)
    if body.dry_run:
        return _preview(row, verb, targets, (more or {}).get("expires"))
    is_one = given == targets and len(given) == 1
    named = WHOLE_PAIR if given == [WHOLE_PAIR] else several.SEPARATOR.join(targets)

    def deed(wish: Request) -> Outcome:
        return ACTIONS[verb].deed(wish, **more or {}) if is_one else several.VERBS[verb](wish, targets, **more or {})

    return perform(request, key, row, named, body.reason, deed)


def _targets(pair: Pair, given: list[str]) -> list[str]:
    if given == [WHOLE_PAIR]:
        return list(pair.entities.present().values_list("path", flat=True))
    known = set(pair.entities.filter(path__in=given).values_list("path", flat=True))
    if unknown := [path for path in given if path not in known]:
        raise Http404(f"{pair} has no entity {unknown[0]}.")
    return given


def _preview(pair: Pair, verb: str, targets: list[str], expires: datetime | None) -> dict[str, Any]:
    known = shared_state(pair.name).health()
    changed = [path for path in targets if CHANGES[verb](known.get(path), expires)]
    rest = [path for path in targets if path not in set(changed)]
    return _as_preview(ACTIONS[verb].preview, changed, rest)


def _as_preview(sentence: str, changed: list[str], rest: list[str]) -> dict[str, Any]:
    return {"outcome": "preview", "sentence": sentence, "would_change": changed, "would_not_change": rest}


def _is_away(known: SharedHealth | None) -> bool:
    return known is not None and known.state == "failed_over"


CHANGES: dict[str, Callable[[SharedHealth | None, datetime | None], bool]] = {
    "fail_over": lambda known, expires: known is None or not is_forced_so(known, expires),
    "hold": lambda known, expires: known is not None and _is_away(known) and not is_held_so(known, expires),
    "release": lambda known, _: known is not None and bool(known.held_by),
    "mark_healthy": lambda known, _: _is_away(known),
}


def _syphon(
    request: HttpRequest, pair: str, verb: str, body: AboutSyphon, key: str, more: dict[str, Any] | None = None
) -> dict[str, Any]:
    require(request.user, Right.OPERATE)
    row = pair_or_404(pair)
    is_queue = body.target == WHOLE_PAIR or row.backlog_queues.filter(path=body.target).exists()
    if not (is_queue or row.entities.filter(path=body.target).exists()):
        raise Http404(f"{pair} has no such backlog queue or entity.")
    if body.dry_run:
        is_so = _is_so(row, verb, body.target, (more or {}).get("rate"))
        return _as_preview(ACTIONS[verb].preview, *(([], [body.target]) if is_so else ([body.target], [])))
    return perform(request, key, row, body.target, body.reason, lambda wish: ACTIONS[verb].deed(wish, **more or {}))


def _is_so(pair: Pair, verb: str, target: str, rate: float | None) -> bool:
    if verb == "pace_syphon":
        known = paces(pair.name).get(target)
        return (known.rate if known else None) == rate
    return pair.pauses.filter(queue=target).exists() == (verb == "pause_syphon")
