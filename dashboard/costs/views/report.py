"""The monthly cost report."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO
from typing import Any, NoReturn

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.access.rights import Right, require
from dashboard.costs import report as cost_report
from dashboard.costs.availability import by_pair
from dashboard.costs.budgets import ALL, budget_states, raise_alerts, set_budget
from dashboard.costs.charges import OPEN, is_stalled, latest_run, request_run, rule_of
from dashboard.costs.csv_export import write_csv
from dashboard.costs.forms import BudgetForm, TermsForm
from dashboard.costs.jobs import JobFailed
from dashboard.costs.parquet_export import write_parquet
from dashboard.costs.refusals import recorded
from dashboard.costs.since_run import as_now, live_availability, live_outages, not_priced
from dashboard.costs.terms import next_terms, set_terms
from dashboard.fleet.boards import watched_pairs
from dashboard.models import BacklogRollup, ClosedMonth, CostTerms, Invoice, Pair
from dashboard.models.charge import RULES
from dashboard.models.cost_terms import ALL_MONTHS
from dashboard.models.visibility import all_pairs
from dashboard.site.database import from_one_reading
from dashboard.site.pages import only_as_part
from dashboard.site.queries import choice_of, require_readable
from pipeline.months import is_month

MOST_OUTAGES = {"": 100, "all": None}
"""How many the page lists: one outage of a namespace is an outage of each of its entities."""
BY_RULE = {"": "", **{name: name for name, _ in RULES}}


@require_GET
def report(request: HttpRequest) -> HttpResponse:
    """The charges of a month, or how to compute them."""
    month = request.GET.get("month") or _newest(cost_report.months(timezone.now()))
    if not is_month(month):
        return no_month()
    return _page(request, month)


@from_one_reading
def _page(
    request: HttpRequest,
    month: str,
    *,
    budget_form: BudgetForm | None = None,
    terms_form: TermsForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a month; a refused form is bound, and its part of the page is open."""
    now = timezone.now()
    known = cost_report.months(now)
    run = latest_run(month)
    context: dict[str, Any] = {
        "month": month,
        "months": known if month in known else sorted([*known, month], reverse=True),
        "pairs": cost_report.pairs(month),
        "report": cost_report.report(month, choice_of(request, "rule", BY_RULE, "Counting rule"), _filters(request)),
        "latest_run": run,
        "is_stalled": run is not None and is_stalled(run, now),
        "terms": next_terms(month),
        "chosen_terms": CostTerms.objects.filter(month__in=(ALL_MONTHS, month)),
        "is_closed": ClosedMonth.objects.filter(month=month).exists(),
        "all_pairs": Pair.objects.values_list("name", flat=True),
        "budget_form": budget_form or BudgetForm(),
        "terms_form": terms_form or TermsForm(),
    }
    if (found := context["report"]) is not None:
        days = BacklogRollup.objects.filter(month=month, is_day=True, queue="*")
        context |= {
            **_since_the_run(found, now, choice_of(request, "outages", MOST_OUTAGES, "Outages")),
            "budget_states": budget_states(month, found.rule, found.pair),
            "backlog_days": days.filter(pair=found.pair) if found.pair else days,
        }
    return render(request, "costs/report.html", context, status=status)


def _since_the_run(found: cost_report.Report, now: datetime, most_outages: int | None) -> dict[str, Any]:
    """Operations that are not priced yet, and outages, availability and depth as they are now."""
    lately = live_outages(found.month, found.pair, found.outages, now)
    availability = live_availability(found.availability, lately, found.read_at, now)
    counts = watched_pairs(now).filter(name=found.pair) if found.pair else watched_pairs(now)
    return {
        "not_priced": None if found.chosen.is_used else not_priced(found.invoices, found.read_at, found.pair),
        "outages": [(each, as_now(each)) for each in lately[:most_outages]],
        "outage_count": len(lately),
        "availability": availability,
        "availability_by_pair": by_pair(availability, [each.outage for each in lately]),
        "in_backlog": sum(vars(pair)["waiting"] for pair in counts),
        "is_current": found.month == f"{now:%Y-%m}",
    }


def _filters(request: HttpRequest) -> cost_report.Filters:
    names = ("pair", "namespace", "entity", "kind")
    return cost_report.Filters(**{name: request.GET.get(name, "") for name in names})


@require_GET
@only_as_part("costs")
def run(request: HttpRequest) -> HttpResponse:
    """The progress of the month's latest run, as a part of the page; once the run has ended, the page reloads."""
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
    """Ask the workers to compute a month. Repeating the request is safe."""
    month = request.POST.get("month", "")
    with recorded(request.user, "compute_charges", month=month):
        require(request.user, Right.OPERATE)
        if not is_month(month):
            return no_month()
        request_run(month, request.user.get_username(), timezone.now())
    return redirect(f"{reverse('costs')}?month={month}")


@require_GET
def as_csv(request: HttpRequest) -> HttpResponse:
    """The month's rows as CSV, with the columns of the contract."""
    month = request.GET.get("month") or _newest(cost_report.months(timezone.now()))
    if not is_month(month):
        return no_month()
    rule = _rule(request, month)
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="charges-{month}.csv"'
    write_csv(response, month, rule)
    return response


@require_GET
def as_parquet(request: HttpRequest) -> HttpResponse:
    """The same rows as Parquet."""
    month = request.GET.get("month") or _newest(cost_report.months(timezone.now()))
    if not is_month(month):
        return no_month()
    out = BytesIO()
    write_parquet(out, month, _rule(request, month))
    response = HttpResponse(out.getvalue(), content_type="application/vnd.apache.parquet")
    response["Content-Disposition"] = f'attachment; filename="charges-{month}.parquet"'
    return response


def _rule(request: HttpRequest, month: str) -> str:
    """The counting rule in the address, or the one the month was computed for. Raises BadRequest for an unknown one."""
    rule = choice_of(request, "rule", BY_RULE, "Counting rule")
    require_readable(request)
    return rule or rule_of(month)


def no_month() -> NoReturn:
    """The response to an invalid month."""
    raise BadRequest("There is no such month. Write it as YYYY-MM, for example 2026-10.")


@require_POST
def budget(request: HttpRequest) -> HttpResponse:
    """Set the monthly budget of a pair or of all pairs; an empty amount removes it."""
    form = BudgetForm(request.POST)
    month = request.POST.get("month", "")
    is_valid = form.is_valid()
    pair = form.cleaned_data.get("pair") or ALL
    with recorded(request.user, "set_budget", pair=pair):
        require(request.user, Right.OPERATE)
        if not is_month(month):
            return no_month()
        if not is_valid:
            return _page(request, month, budget_form=form, status=400)
        percent = form.cleaned_data["alert_percent"] or 80
        cents = int((form.cleaned_data["amount"] or 0) * 100)
        set_budget(pair, cents, percent, request.user.get_username(), timezone.now())
    raise_alerts(month, _rule(request, month), timezone.now())
    return redirect(f"{reverse('costs')}?month={month}#budget")


@require_POST
def terms(request: HttpRequest) -> HttpResponse:
    """Choose how a month, or all months without a choice of their own, are computed."""
    form, month, of = TermsForm(request.POST), request.POST.get("month", ""), request.POST.get("of", "")
    with recorded(request.user, "set_cost_terms", month=of):
        require(request.user, Right.OPERATE)
        if not is_month(month) or of not in (month, ALL_MONTHS):
            return no_month()
        if form.is_valid():
            try:
                set_terms(of, form.cleaned_data, request.user.get_username(), timezone.now())
            except JobFailed as error:
                form.add_error(None, str(error))
    if form.errors:
        return _page(request, month, terms_form=form, status=400)
    return redirect(f"{reverse('costs')}?month={month}#terms")


def _newest(known: list[str]) -> str:
    """The newest month with charges, else the current month."""
    with all_pairs():
        stored = Invoice.objects.order_by("-month").values_list("month", flat=True).first()
    return stored or known[0]
