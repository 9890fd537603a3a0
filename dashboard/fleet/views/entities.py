"""The page of one entity: its state and history."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import entity_rows, worker_liveness
from dashboard.fleet.depth.charts import (
    HOUR,
    entity_chart,
    entity_chart_over,
    last_hour,
    marks_of_entity,
    waiting_samples,
)
from dashboard.fleet.depth.peaks import SPANS
from dashboard.fleet.state.event_lines import together
from dashboard.fleet.state.paces import limits
from dashboard.fleet.state.primaries import primaries_down
from dashboard.models import EntityHealth, FailoverEvent, TopicSubscription
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point
from dashboard.site.database import from_one_reading
from dashboard.site.pages import page_or_part
from dashboard.site.queries import choice_of

MOST_SUBSCRIPTIONS = 50
OutagesOf = Callable[[EntityHealth, Sequence[Point], datetime], dict[str, Any]]
"""An entity's outages for the page: `incidents`, and the estimated remaining drain time of the last (`left`)."""


@require_GET
@from_one_reading
def detail(request: HttpRequest, pair: str, path: str, outages_of: OutagesOf) -> HttpResponse:
    """The entity's page; htmx requests return only the live part."""
    entity = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=path)
    now = timezone.now()
    samples = waiting_samples([entity], now - HOUR)
    window, points = last_hour(now, samples), samples.get(entity.pk, ())
    span = choice_of(request, "span", SPANS, "Range of the chart")
    pauses = list(entity.pair.pauses.filter(queue__in=(path, WHOLE_PAIR)).order_by("queue"))
    board = worker_liveness(now)
    context = {
        "board": board,
        "entity": entity,
        "pair": entity.pair,
        "row": entity_rows([entity], samples, window, board.is_silent, primaries_down(now, [entity.pair]))[0],
        "chart": entity_chart_over(entity, span, now)
        if span.step_s
        else entity_chart(entity, points, window, marks_of_entity(entity, points, window)),
        "span": span,
        "spans": SPANS.values(),
        "limits": limits(pair, path),
        "pauses": pauses,
        "subscriptions": _subscriptions(entity),
        "own_pause": any(pause.queue == path for pause in pauses),
        **outages_of(entity, [] if pauses else points, now),
        "events": together(FailoverEvent.objects.filter(pair=pair, entity=path)[:200])[:50],
    }
    return page_or_part(request, "fleet/entity.html", context)


def _subscriptions(entity: EntityHealth) -> list[TopicSubscription]:
    """The subscriptions of a topic, those with the most dead letters first."""
    if entity.kind != EntityHealth.Kind.TOPIC:
        return []
    return list(entity.subscriptions.select_related("topic").order_by("-dead_lettered", "name")[:MOST_SUBSCRIPTIONS])
