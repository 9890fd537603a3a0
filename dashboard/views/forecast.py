"""What an outage would cost."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import present
from dashboard.forecast import forecast
from dashboard.forecast_form import ForecastForm, assumed
from dashboard.jobs import JobFailed
from dashboard.models import Pair


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The forecast for the fields of the query; what is missing there comes from the present."""
    now = timezone.now()
    pair = request.GET.get("pair", "")
    traffic = present.traffic(pair, now)
    fields = assumed(traffic, present.queues(pair))
    form = ForecastForm(fields | {name: value for name, value in request.GET.items() if name in fields})
    context = {"form": form, "pair": pair, "pairs": Pair.objects.values_list("name", flat=True), "traffic": traffic}
    if form.is_valid():
        try:
            prices = present.prices(f"{now:%Y-%m}")
        except JobFailed as error:
            context["problem"] = str(error)
        else:
            outage = form.outage()
            both = [forecast(outage, prices.ladder, settlements) for settlements in (False, True)]
            context |= {"published": both[0], "settlements": both[1], "both": both, "prices": prices}
    template = "costs/forecast_answer.html" if request.headers.get("HX-Request") else "costs/forecast.html"
    return render(request, template, context)
