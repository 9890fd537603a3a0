"""The monthly cost report."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard import cost_report
from dashboard.access import Right, require
from dashboard.charges import OPEN, ask_for, is_stalled, latest_run
from dashboard.costs_csv import write_csv
from dashboard.models import ChargeRun, Invoice

MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


@require_GET
def report(request: HttpRequest) -> HttpResponse:
    """A month's charges, or what to do to get some."""
    now = timezone.now()
    known = cost_report.months(now)
    month = request.GET.get("month") or _newest(known)
    if not MONTH.fullmatch(month):
        return HttpResponseBadRequest("Write the month as YYYY-MM, for example 2026-10.", content_type="text/plain")
    run = latest_run(month)
    context = {
        "month": month,
        "months": known if month in known else sorted([*known, month], reverse=True),
        "pairs": cost_report.pairs(month),
        "report": cost_report.report(month, request.GET.get("rule", ""), _filters(request)),
        "latest_run": run,
        "is_stalled": run is not None and is_stalled(run, now),
    }
    return render(request, "costs/report.html", context)


def _filters(request: HttpRequest) -> cost_report.Filters:
    names = ("pair", "namespace", "entity", "kind")
    return cost_report.Filters(**{name: request.GET.get(name, "") for name in names})


@require_GET
def run(request: HttpRequest) -> HttpResponse:
    """Where the month's latest run is, as a part of the page; once it has ended, the page is fetched anew."""
    month = request.GET.get("month", "")
    found, now = latest_run(month), timezone.now()
    response = render(
        request,
        "costs/run.html",
        {"month": month, "latest_run": found, "is_stalled": found is not None and is_stalled(found, now)},
    )
    if found is None or found.status not in OPEN:
        response["HX-Refresh"] = "true"
    return response


@require_POST
def compute(request: HttpRequest) -> HttpResponse:
    """Asks the workers to compute a month. Safe to click twice."""
    require(request.user, Right.OPERATE)
    month = request.POST.get("month", "")
    if not MONTH.fullmatch(month):
        return HttpResponseBadRequest("Write the month as YYYY-MM, for example 2026-10.", content_type="text/plain")
    ask_for(month, request.user.get_username(), timezone.now())
    return redirect(f"{reverse('costs')}?month={month}")


@require_GET
def as_csv(request: HttpRequest) -> HttpResponse:
    """The month's rows, in the columns of the contract."""
    month = request.GET.get("month") or _newest(cost_report.months(timezone.now()))
    if not MONTH.fullmatch(month):
        return HttpResponseBadRequest("Write the month as YYYY-MM, for example 2026-10.", content_type="text/plain")
    rule = request.GET.get("rule", "")
    if rule not in ("published", "settlements"):
        run = latest_run(month, ChargeRun.Status.SUCCEEDED)
        rule = run.rule if run else "published"
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="charges-{month}.csv"'
    write_csv(response, month, rule)
    return response


def _newest(known: list[str]) -> str:
    """The newest month with charges; the current one where there are none at all."""
    stored = Invoice.objects.order_by("-month").values_list("month", flat=True).first()
    return stored or known[0]
