"""The month compared with its bill."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_GET, require_POST

from dashboard.access.audited import ActionError
from dashboard.costs.actions import about, reconcile_export
from dashboard.costs.bill.reconciliation import against_bill
from dashboard.costs.reporting import report as cost_report
from dashboard.models import Invoice, Statement
from dashboard.site.forms import LARGEST_BYTES
from dashboard.site.queries import month_of
from pipeline.months import is_month


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The computed and the billed figures, and the unexplained differences."""
    return _page(request, month_of(request, cost_report.months(timezone.now())[0]))


def _page(request: HttpRequest, month: str, problem: str = "", status: int = 200) -> HttpResponse:
    known = cost_report.months(timezone.now())
    context = {
        "month": month,
        "months": known if month in known else sorted([*known, month], reverse=True),
        "is_computed": Invoice.objects.filter(month=month).exists(),
        "statement": Statement.objects.filter(month=month).first(),
        "against": against_bill(month),
        "problem": problem,
    }
    return render(request, "costs/reconcile.html", context, status=status)


@csrf_exempt  # of a stranger, whom the next middleware turns away, nothing is to parse the body
@require_POST
@csrf_protect
def upload(request: HttpRequest) -> HttpResponse:
    """Store a cost export."""
    month, file = request.POST.get("month", ""), request.FILES.get("file")
    name, data = (str(file.name), file.read(LARGEST_BYTES + 1)) if file else ("", None)
    try:
        reconcile_export(about(request.user, month), name, data)
    except ActionError as error:
        if not is_month(month):
            raise BadRequest(str(error)) from None
        return _page(request, month, str(error), 400)
    return redirect(f"{reverse('costs-reconcile')}?month={month}")
