"""The monthly cost report."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import reduce
from io import BytesIO
from operator import or_
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.access.audited import ActionError
from dashboard.costs.actions import NO_MONTH, about, compute_charges, set_budget, set_cost_rule
from dashboard.costs.budgets import ALL, budget_states
from dashboard.costs.files import CHANGES, COLUMNS, changes, charge_rows, reports_of, write_parquet
from dashboard.costs.forms import BudgetForm
from dashboard.costs.reporting import report as cost_report
from dashboard.costs.reporting.availability import by_pair
from dashboard.costs.reporting.live_outages import live_availability, live_outages
from dashboard.costs.reporting.outages import with_incidents
from dashboard.costs.reporting.since_run import not_priced
from dashboard.costs.rules import chosen_rule
from dashboard.costs.runs.charges import OPEN, is_stalled, latest_run
from dashboard.fleet.boards import watched_pairs
from dashboard.models import BacklogRollup, Invoice, MonthlyReport, Pair
from dashboard.models.charge import ALLOCATIONS, RULES
from dashboard.models.visibility import all_pairs
from dashboard.site.database import from_one_reading
from dashboard.site.pages import only_as_part, query_without_page
from dashboard.site.queries import choice_of, month_of, page_of, require_readable
from dashboard.site.queries import report as reported
from dashboard.site.tables import CSV, attachment, csv_file
from pipeline.months import is_month

PAGE, MOST_LINES = 24, 10


@require_GET
def report(request: HttpRequest) -> HttpResponse:
    """One tab of the charges of a month, or how to compute them."""
    tab = choice_of(request, "tab", {key: key for key in TABS}, "Tab")
    return _page(request, _month_of(request), tab)


@from_one_reading
def _page(
    request: HttpRequest,
    month: str,
    tab: str,
    *,
    budget_form: BudgetForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """A tab of the page of a month; a refused form is bound, and its part of the page is open."""
    now = timezone.now()
    known = cost_report.months(now)
    run, pairs = latest_run(month), cost_report.pairs(month)
    found = cost_report.report(month, _filters(request, pairs))
    context: dict[str, Any] = {
        "month": month,
        "months": known if month in known else sorted([*known, month], reverse=True),
        "pairs": pairs,
        "tab": tab,
        "parts": [(key, label) for key, (label, _) in TABS.items()],
        "report": found,
        "latest_run": run,
        "is_stalled": run is not None and is_stalled(run, now),
        "is_current": month == f"{now:%Y-%m}",
        "query": query_without_page(request),
        "budget_form": budget_form or BudgetForm(),
    }
    if found is not None:
        context |= TABS[tab][1](request, found, now)
    return render(request, "costs/report.html", context, status=status)


def _summary(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    """The invoice with its budget, what was metered since the run, and the depth now."""
    counts = watched_pairs(now).filter(name=found.pair) if found.pair else watched_pairs(now)
    return {
        "not_priced": None if found.chosen.is_used else not_priced(found.invoices, found.pair),
        "in_backlog": sum(vars(pair)["waiting"] for pair in counts),
        "budget_states": budget_states(found.month, found.pair),
    }


def _of_pairs(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    return {
        **_shares(request, found.by_pair, "pair"),
        "budget_states": budget_states(found.month, found.pair),
        "all_pairs": Pair.objects.values_list("name", flat=True),
    }


def _of_entities(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    return _shares(request, found.by_entity, "entity", "pair")


def _shares(request: HttpRequest, rows: cost_report.Rows, *searched: str) -> dict[str, Any]:
    """A page of what matches the search."""
    words = request.GET.get("q", "")[:260].replace("\0", "")
    matching = reduce(or_, (Q(**{f"{name}__icontains": words}) for name in searched))
    page = page_of(request, rows.filter(matching) if words else rows, PAGE)
    return {"page": page, "shares": cost_report.shares_of(page), "words": words}


def _of_outages(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    """Outages, availability and depth as they are now."""
    lately = live_outages(found.month, found.pair, found.outages, found.run.as_of, now)
    availability = live_availability(found.availability, lately, found.run.as_of, now)
    page = page_of(request, lately, MOST_LINES)
    days = BacklogRollup.objects.filter(month=found.month, is_day=True, queue="*")
    return {
        "page": page,
        "outages": with_incidents(list(page)),
        "availability": availability[:MOST_LINES],
        "availability_by_pair": by_pair(availability, [each.outage for each in lately])[:MOST_LINES],
        "is_whole": len(availability) <= MOST_LINES,
        "backlog_days": (days.filter(pair=found.pair) if found.pair else days)[:MOST_LINES],
    }


def _of_rows(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    page = page_of(request, found.rows, PAGE)
    names = {row.pair for row in page if row.pair}
    return {"page": page, "rows": found.explained(page), "has_several_pairs": len(names) > 1}


def _terms(request: HttpRequest, found: cost_report.Report, now: datetime) -> dict[str, Any]:
    return {
        "chosen_rule": chosen_rule(),
        "paid_reports": reports_of(found.month).defer("csv"),
        "rules": RULES,
        "allocations": ALLOCATIONS,
    }


TABS = {
    "": ("Summary", _summary), "pairs": ("Pairs", _of_pairs), "entities": ("Entities", _of_entities),
    "outages": ("Outages", _of_outages), "rows": ("Rows", _of_rows), "terms": ("Terms", _terms),
}  # fmt: skip


def _filters(request: HttpRequest, pairs: Collection[str]) -> cost_report.Filters:
    given = {name: request.GET.get(name, "") for name in ("pair", "namespace", "entity", "kind")}
    if given["pair"] and given["pair"] not in pairs:
        reported(request, "Pair", given["pair"], "There is none of this name with charges in the month.")
        given["pair"] = ""
    return cost_report.Filters(**given)


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
    try:
        done = compute_charges(about(request.user, month), todays_inputs="todays_inputs" in request.POST)
    except ActionError as error:
        raise BadRequest(str(error)) from None
    messages.success(request, done.sentence)
    return redirect(f"{reverse('costs')}?month={month}")


@require_GET
def as_csv(request: HttpRequest) -> HttpResponse:
    """The month's rows as CSV, with the columns of the contract."""
    month = _month_of(request)
    require_readable(request)
    return csv_file(f"charges-{month}", COLUMNS, charge_rows(month))


@require_GET
def as_parquet(request: HttpRequest) -> HttpResponse:
    """The same rows as Parquet."""
    month = _month_of(request)
    require_readable(request)
    out = BytesIO()
    write_parquet(out, month)
    return attachment(f"charges-{month}.parquet", out.getvalue(), "application/vnd.apache.parquet")


@require_GET
def paid_report(request: HttpRequest, run: int) -> HttpResponse:
    """The rows of a month as a run computed them once."""
    found = get_object_or_404(MonthlyReport.objects.select_related("run"), run_id=run)
    return attachment(f"charges-{found.run.month}-run-{run}.csv", found.csv, CSV)


@require_GET
def paid_changes(request: HttpRequest, run: int) -> HttpResponse:
    """What that run charged otherwise than the report before it."""
    found = get_object_or_404(MonthlyReport.objects.select_related("run"), run_id=run)
    return csv_file(f"changes-{found.run.month}-run-{run}", CHANGES, changes(found))


@require_POST
def rule(request: HttpRequest) -> HttpResponse:
    """Set the counting rule and the allocation of the installation."""
    try:
        done = set_cost_rule(about(request.user), request.POST.get("rule", ""), request.POST.get("allocation", ""))
    except ActionError as error:
        raise BadRequest(str(error)) from None
    messages.success(request, done.sentence)
    return redirect(f"{reverse('costs')}?tab=terms")


@require_POST
def budget(request: HttpRequest) -> HttpResponse:
    """Set the monthly budget of a pair or of all pairs; an empty amount removes it."""
    form, month = BudgetForm(request.POST), request.POST.get("month", "")
    is_valid = form.is_valid() and is_month(month)
    given = form.cleaned_data
    cents = int((given["amount"] or 0) * 100) if is_valid else None
    try:
        done = set_budget(about(request.user, pair=given.get("pair") or ALL), cents, given.get("alert_percent") or 80)
    except ActionError:
        if not is_month(month):
            raise BadRequest(NO_MONTH) from None
        return _page(request, month, "pairs", budget_form=form, status=400)
    messages.success(request, done.sentence)
    return redirect(f"{reverse('costs')}?month={month}&tab=pairs#budget")


def _month_of(request: HttpRequest) -> str:
    """The month of the address, else the newest one with charges, else the current one."""
    with all_pairs():
        newest = Invoice.objects.order_by("-month").values_list("month", flat=True).first()
    return month_of(request, newest or f"{timezone.now():%Y-%m}")
