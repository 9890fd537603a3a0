"""The API operations for actions on entities and syphons, built from their declarations."""

from datetime import datetime, timedelta
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router
from pydantic import Field

from dashboard.access.audited import Outcome, Request
from dashboard.access.declaration import Argument
from dashboard.access.rights import require
from dashboard.actions import entities, syphons
from dashboard.actions.entities import SEPARATOR, EntityAction
from dashboard.actions.forms import MOST_SELECTED
from dashboard.actions.syphons import SyphonAction
from dashboard.api.fields import WHOLE, Body, Path, Reason, pair_or_404
from dashboard.api.idempotency import perform
from dashboard.api.operations import add_operation
from dashboard.models import Pair
from dashboard.models.syphon import WHOLE_PAIR

router = Router(tags=["actions"])
Paths = Annotated[
    list[Path],
    Field(
        min_length=1, max_length=MOST_SELECTED, description="Entity paths, or `*` alone for all entities of the pair."
    ),
]


class AboutEntities(Body):
    """The entities and the reason. `dry_run` reports what would change without changing it."""

    paths: Paths
    reason: Reason
    dry_run: bool = False

    @property
    def arguments(self) -> dict[str, datetime | None]:
        return {}


class ForAWhile(AboutEntities):
    """Additionally the duration; without one, the state lasts until it is released."""

    minutes: Annotated[int, Field(ge=1, le=43_200), WHOLE] | None = None

    @property
    def arguments(self) -> dict[str, datetime | None]:
        return {"expires": timezone.now() + timedelta(minutes=self.minutes) if self.minutes else None}


class AboutSyphon(Body):
    """The backlog queue, or `*` for the whole pair, and the reason."""

    target: Path = WHOLE_PAIR
    reason: Reason
    dry_run: bool = False

    @property
    def arguments(self) -> dict[str, float | None]:
        return {}


class PaceSyphon(AboutSyphon):
    """Additionally the maximum rate; null removes the limit. `target` can also be an entity."""

    messages_per_s: Annotated[float, Field(ge=0.01, le=1_000_000)] | None

    @property
    def arguments(self) -> dict[str, float | None]:
        return {"rate": self.messages_per_s}


def _on_entities(
    request: HttpRequest, action: EntityAction, pair: str, body: AboutEntities, key: str
) -> dict[str, Any]:
    row, given = pair_or_404(pair), list(dict.fromkeys(body.paths))
    targets, arguments = _targets(row, given), body.arguments
    is_one = given == targets and len(given) == 1
    if body.dry_run:
        require(request.user, action.right)
        found = action.preview_on(row, targets, expires=arguments.get("expires"), is_one=is_one)
        return _preview(action.preview, found.changed, found.unchanged) | {"hindrance": found.hindrance}
    named = WHOLE_PAIR if given == [WHOLE_PAIR] else SEPARATOR.join(targets)

    def run(wanted: Request) -> Outcome:
        return action.run(wanted, **arguments) if is_one else action.run_on(wanted, targets, **arguments)

    return perform(request, key, row, named, body.reason, run)


def _targets(pair: Pair, given: list[str]) -> list[str]:
    if given == [WHOLE_PAIR]:
        return list(pair.entities.present().values_list("path", flat=True))
    known = set(pair.entities.filter(path__in=given).values_list("path", flat=True))
    if unknown := [path for path in given if path not in known]:
        raise Http404(f"{pair} has no entity {unknown[0]}.")
    return given


def _on_syphon(request: HttpRequest, action: SyphonAction, pair: str, body: AboutSyphon, key: str) -> dict[str, Any]:
    row = pair_or_404(pair)
    is_queue = body.target == WHOLE_PAIR or row.backlog_queues.filter(path=body.target).exists()
    if not (is_queue or row.entities.filter(path=body.target).exists()):
        raise Http404(f"{pair} has no such backlog queue or entity.")
    if body.dry_run:
        require(request.user, action.right)
        changes = action.would_change(row, body.target, **body.arguments)
        return _preview(action.preview, *(([body.target], []) if changes else ([], [body.target])))
    return perform(request, key, row, body.target, body.reason, lambda wanted: action.run(wanted, **body.arguments))


def _preview(sentence: str, changed: Any, unchanged: Any) -> dict[str, Any]:
    return {
        "outcome": "preview",
        "sentence": sentence,
        "would_change": list(changed),
        "would_not_change": list(unchanged),
    }


for _entity_action in entities.ACTIONS:
    _body = ForAWhile if Argument.EXPIRES in _entity_action.arguments else AboutEntities
    add_operation(router, _entity_action, _body, _on_entities)
for _syphon_action in syphons.ACTIONS:
    _syphon_body = PaceSyphon if Argument.RATE in _syphon_action.arguments else AboutSyphon
    add_operation(router, _syphon_action, _syphon_body, _on_syphon)
