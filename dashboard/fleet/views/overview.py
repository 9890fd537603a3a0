"""The overview: all pairs, worst first, with live updates."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import CALM, Board, PanelOf, board, headline_of, last_heartbeat, watched_pairs
from dashboard.fleet.forms import EntityFilter
from dashboard.fleet.many_pairs import MANY, MOST_CARDS, MOST_ROWS, pair_lines, worst, worst_pairs
from dashboard.fleet.state.status import is_silent
from dashboard.fleet.state.status_counts import counts_by_pair
from dashboard.models import EntityHealth, Pair
from dashboard.models.entity import AT_REST
from dashboard.site.database import from_one_reading
from dashboard.site.pages import page_or_part, query_without_page, wants_part
from dashboard.site.queries import page_of, read

PAGE = 50


@require_GET
@from_one_reading
def overview(request: HttpRequest, panel_of: PanelOf) -> HttpResponse:
    """All pairs; htmx requests return only the live part, or of a large fleet the rows and cards of `only`."""
    form, now = read(request, EntityFilter), timezone.now()
    if wants_part(request) and (only := request.GET.get("only")):
        return page_or_part(request, "fleet/overview.html", _only(only.split(","), form, panel_of, now), part="changed")
    pairs, entities = list(watched_pairs(now)), form.apply(worst_first())
    if len(pairs) > MANY:
        context = _table(request, pairs, entities, panel_of, now, is_used=form.is_used)
    else:
        page = page_of(request, entities, PAGE)
        may_fold = page.number == 1 and not form.is_used
        of_all = board(now, pairs, page.object_list, panel_of, may_fold=may_fold)
        of_shown = [one for one in of_all.pairs if one.rows or not form.is_used]
        context = {"board": replace(of_all, pairs=of_shown), "page": page}
    found = {"form": form, "query": query_without_page(request), "events": context["board"].events}
    return page_or_part(request, "fleet/overview.html", context | found)


def _table(
    request: HttpRequest,
    pairs: list[Pair],
    entities: QuerySet[EntityHealth],
    panel_of: PanelOf,
    now: datetime,
    *,
    is_used: bool,
) -> dict[str, Any]:
    """A page of the table, and cards for the first pairs that are not healthy, or that match."""
    silent = is_silent(last_heartbeat(), now)
    counts = counts_by_pair(pairs, now, silent)
    matching = set(entities.order_by().values_list("pair", flat=True).distinct()) if is_used else counts
    shown = [pair for pair in pairs if pair.pk in matching or not is_used]
    page = page_of(request, worst_pairs(shown, counts), PAGE)
    carded = [pair for pair in page if is_used or worst(counts.get(pair.pk, {})) not in CALM][:MOST_CARDS]
    cards = _cards(carded, entities, panel_of, now, is_used=is_used)
    whole = replace(cards, headline=headline_of(pairs, now, silent), is_silent=silent)
    return {"board": whole, "page": page, "lines": pair_lines(list(page), counts, now)}


def _only(ids: list[str], form: EntityFilter, panel_of: PanelOf, now: datetime) -> dict[str, Any]:
    """What has changed of the pairs with these rows (`row-NAME`) and cards (`card-NAME`) on the page."""
    pairs = list(watched_pairs(now).filter(name__in={one.partition("-")[2] for one in ids}))
    rows, carded = ([pair for pair in pairs if f"{what}-{pair.name}" in ids] for what in ("row", "card"))
    lines = pair_lines(rows, counts_by_pair(rows, now, is_silent(last_heartbeat(), now)), now)
    cards = _cards(carded, form.apply(worst_first()), panel_of, now, is_used=form.is_used)
    return {"board": cards, "lines": lines, "is_changed": True}


def _cards(
    pairs: list[Pair], entities: QuerySet[EntityHealth], panel_of: PanelOf, now: datetime, *, is_used: bool
) -> Board:
    """Pairs with some of their entities: of a search those that match, otherwise those that are not at rest."""
    rows = entities.filter(pair__in=pairs) if is_used else entities.filter(pair__in=pairs, rank__lt=AT_REST)
    return board(now, pairs, [row for pair in pairs for row in rows.filter(pair=pair)[:MOST_ROWS]], panel_of)


def worst_first() -> QuerySet[EntityHealth]:
    """All entities, unhealthy ones on the first page."""
    return EntityHealth.objects.present().order_by("rank", "pair_id", "path").defer("process", "last_ping_reason")
