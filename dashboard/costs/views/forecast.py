"""The forecast of an outage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.access.visibility import sees_all
from dashboard.costs.forecasts import current_month as present
from dashboard.costs.forecasts.tariffs import Tariff, tariff
from dashboard.costs.forms import BeforeFailoverForm, ForecastForm, assumed, forecast_of
from dashboard.costs.prices import prices_of
from dashboard.costs.rules import rule_of
from dashboard.costs.runs.jobs import JobFailed
from dashboard.models import Pair
from dashboard.site.pages import only_as_part, wants_part


@require_GET
@only_as_part("costs-forecast")
def before_failover(request: HttpRequest) -> HttpResponse:
    """The hourly cost and backlog of a failover of the selected entities, as a part of the confirmation dialog."""
    now = timezone.now()
    require_known(request.GET.get("pair", ""))
    pair, path = request.GET.get("pair", ""), request.GET.get("path", "*")
    form = BeforeFailoverForm(request.GET)
    context: dict[str, Any] = {"pair": pair, "path": path, "form": form}
    if form.is_valid():
        ahead = timedelta(hours=float(form.cleaned_data["hours"] or 1))
        traffic = present.traffic(pair, now, "" if path == "*" else path, ahead)
        try:
            prices = prices_of(f"{now:%Y-%m}")
            priced = tariff(pair, prices, f"{now:%Y-%m}")
        except JobFailed as error:
            context["problem"] = str(error)
        else:
            whole = ForecastForm(assumed(traffic, present.configured(pair), priced) | present_numbers(form, traffic))
            if whole.is_valid():
                made = forecast_of(whole, priced, rule_of(f"{now:%Y-%m}"))
                context |= {"forecast": made, "prices": prices, "traffic": traffic}
                context["is_unpriced"] = priced.crossings and priced.per_gigabyte is None
    answer = render(request, "costs/before_failover.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


def require_known(pair: str) -> None:
    """Raise Http404 for a pair that the person does not see: PAIRS_FILE names its regions and tiers all the same."""
    if not sees_all() and pair and not Pair.objects.filter(name=pair).exists():
        raise Http404


def present_numbers(form: BeforeFailoverForm, traffic: present.Traffic) -> dict[str, Any]:
    """The figures known to the dialog: the requested hours and entities, and the metered traffic."""
    return {
        "hours": form.cleaned_data["hours"] or 1,
        "entities": form.cleaned_data["entities"] or 1,
        "messages_per_hour": traffic.messages_per_hour,
        "message_bytes": traffic.message_bytes,
    }


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The forecast for the fields of the query; missing fields are filled with present figures."""
    now = timezone.now()
    pair = request.GET.get("pair", "")
    require_known(pair)
    traffic, priced = present.traffic(pair, now), Tariff()
    context: dict[str, Any] = {"pair": pair, "pairs": Pair.objects.values_list("name", flat=True), "traffic": traffic}
    try:
        context["prices"] = prices_of(f"{now:%Y-%m}")
        priced = tariff(pair, context["prices"], f"{now:%Y-%m}")
    except JobFailed as error:
        context["problem"] = str(error)
    fields = assumed(traffic, present.configured(pair), priced)
    form = ForecastForm(fields | {name: value for name, value in request.GET.items() if name in fields})
    if form.is_valid():
        context["forecast"] = forecast_of(form, priced, rule_of(f"{now:%Y-%m}"))
    context |= {"form": form, "tariff": priced}
    template = "costs/forecast_answer.html" if wants_part(request) else "costs/forecast.html"
    return render(request, template, context)
