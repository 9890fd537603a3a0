"""Cost exports that a month is compared with, uploaded by programs."""

from datetime import datetime
from io import BytesIO
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import File, Query, Router, Schema
from ninja.files import UploadedFile
from pydantic import Field

from dashboard.access.audited import Request
from dashboard.access.rights import require
from dashboard.api.authentication import via
from dashboard.api.fields import Month
from dashboard.api.problems import ApiError
from dashboard.costs.actions import RECONCILE_EXPORT, reconcile_export
from dashboard.costs.bill.statements import StatementError, read_export
from dashboard.models import Statement
from dashboard.site.forms import LARGEST_BYTES

router = Router(tags=["charges"])


class StatementQuery(Schema):
    """The month of the bill."""

    month: Month
    dry_run: bool = False


class StatementRow(Schema):
    """A stored statement. `skipped`: ignored rows, by reason; `digest`: SHA-256 of the file."""

    month: str
    name: str
    digest: str
    rows: int
    skipped: dict[str, int]
    currency: str
    uploaded_by: str
    uploaded_at: datetime


class UploadResult(Schema):
    """The result: `done`, or `preview` for a dry run, which stores nothing."""

    outcome: Literal["done", "preview"]
    sentence: str
    rows: int
    skipped: dict[str, int] = Field(default_factory=dict)


@router.get("/statements", response=list[StatementRow], operation_id="statements")
def statements(request: HttpRequest, month: Annotated[Month, Query()]) -> list[Statement]:
    """The statement that the month is compared with, if there is one."""
    return list(Statement.objects.filter(month=month))


@router.post(
    "/statements",
    response=UploadResult,
    operation_id="give_statement",
)
def give(
    request: HttpRequest, query: Annotated[StatementQuery, Query()], file: Annotated[UploadedFile, File()]
) -> dict[str, Any]:
    """Upload the cost export of a month. It replaces the previous one; an unusable file changes nothing."""
    data = file.read(LARGEST_BYTES + 1)
    try:
        if query.dry_run:
            require(request.user, RECONCILE_EXPORT.right)
            parsed = read_export(BytesIO(data), query.month)
            sentence = f"{query.month} would be compared with {parsed.rows:,} rows."
            return {"outcome": "preview", "sentence": sentence, "rows": parsed.rows, "skipped": dict(parsed.skipped)}
        asked = Request(request.user, target=query.month, via=via(request)[:80])
        reconcile_export(asked, str(file.name), data)
    except StatementError as error:
        raise ApiError(413 if len(data) > LARGEST_BYTES else 409, str(error)) from None
    statement = Statement.objects.get(month=query.month)
    sentence = f"{query.month} is compared with {statement.rows:,} rows."
    return {"outcome": "done", "sentence": sentence, "rows": statement.rows, "skipped": statement.skipped}
