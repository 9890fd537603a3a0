"""The audit trail: what operators did."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema

from dashboard.api.fields import Word
from dashboard.api.paging import Between, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.models import AuditEntry

router = Router(tags=["records"])


class AuditRecord(Schema):
    """The action of one person. An empty `outcome`: the process ended before the action did."""

    at: datetime
    operator: str
    via: str
    verb: str
    pair: str
    target: str
    reason: str
    outcome: str
    detail: str


class AuditQuery(Between):
    """Selects actions."""

    operator: Word = ""


@router.get("/audit", response={200: Page[AuditRecord], **PROBLEMS}, operation_id="audit")
def audit(request: HttpRequest, query: Annotated[AuditQuery, Query()]) -> dict[str, Any]:
    """Actions of operators, newest first."""
    rows = query.of(AuditEntry.objects.all(), "at")
    rows = rows.filter(operator=query.operator) if query.operator else rows
    return page(
        rows, ("-at", "-id"), query, lambda row: {name: getattr(row, name) for name in AuditRecord.model_fields}
    )
