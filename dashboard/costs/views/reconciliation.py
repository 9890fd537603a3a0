"""The month compared with its bill and its metrics."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_GET, require_POST

from dashboard.access.rights import Right, require
from dashboard.costs import measured_connections
from dashboard.costs import report as cost_report
from dashboard.costs.reconciliation import against_bill, against_metrics, read_bounded, take_statement, verb_of
from dashboard.costs.refusals import recorded
from dashboard.costs.statements import StatementError
from dashboard.costs.views.report import no_month
from dashboard.models import Statement
from dashboard.site.forms import LARGEST_BYTES
from pipeline.months import is_month

TOO_LARGE = f"The file is larger than {LARGEST_BYTES // 2**20} MB: export less of it at a time."
FORM_BYTES = 64 * 1024


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The computed and the billed figures, and the unexplained differences."""
    month = request.GET.get("month") or cost_report.months(timezone.now())[0]
    if not is_month(month):
        return no_month()
    return _page(request, month)


def _page(request: HttpRequest, month: str, problem: str = "", status: int = 200) -> HttpResponse:
    known = cost_report.months(timezone.now())
    report = cost_report.report(month)
    context = {
        "month": month,
        "months": known if month in known else sorted([*known, month], reverse=True),
        "report": report,
        "statements": Statement.objects.filter(month=month),
        "against": against_bill(month, report.currency) if report else None,
        "seen": against_metrics(month) if report else [],
        "connections": measured_connections.compare(month),
        "problem": problem,
    }
    return render(request, "costs/reconcile.html", context, status=status)


@csrf_exempt  # so that the size is checked before anything parses the body; `_upload` checks the CSRF token
@require_POST
def upload(request: HttpRequest) -> HttpResponse:
    """Store a cost export or metrics."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_BYTES + FORM_BYTES:
        return HttpResponse(TOO_LARGE, status=413, content_type="text/plain")
    return _upload(request)


@csrf_protect
def _upload(request: HttpRequest) -> HttpResponse:
    month, source, file = request.POST.get("month", ""), request.POST.get("source", ""), request.FILES.get("file")
    with recorded(request.user, verb_of(source), month=month):
        require(request.user, Right.OPERATE)
        if not is_month(month):
            return no_month()
        if file is None or source not in Statement.Source.values:
            return _page(request, month, "Choose a file and its type.", 400)
        try:
            name = str(file.name)
            take_statement(month, source, name, read_bounded(file), request.user.get_username(), timezone.now())
        except StatementError as error:
            return _page(request, month, str(error), 400)
    return redirect(f"{reverse('costs-reconcile')}?month={month}")
