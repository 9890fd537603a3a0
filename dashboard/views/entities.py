"""One entity: what is known of it, and what happened to it."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.boards import entity_rows, last_heartbeat
from dashboard.depth import HOUR, entity_chart, last_hour, waiting_samples
from dashboard.models import EntityHealth, FailoverEvent
from dashboard.pacing import limits
from dashboard.status import is_silent
from dashboard.telling import together
from dashboard.views.answers import page_or_part
from dashboard.views.incidents import of_entity


@require_GET
def detail(request: HttpRequest, pair: str, path: str) -> HttpResponse:
    """The entity's page; htmx gets the live part alone."""
    entity = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=path)
    now = timezone.now()
    samples = waiting_samples([entity], now - HOUR)
    window = last_hour(now, samples)
    context = {
        "entity": entity,
        "pair": entity.pair,
        "row": entity_rows([entity], samples, window, is_silent(last_heartbeat(), now))[0],
        "chart": entity_chart(entity, samples.get(entity.pk, ()), window),
        "limits": limits(pair, path),
        "incidents": of_entity(entity, now - timedelta(days=7)),
        "events": together(FailoverEvent.objects.filter(pair=pair, entity=path)[:200])[:50],
    }
    return page_or_part(request, "entities/detail.html", context)
