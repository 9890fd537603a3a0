"""Cost exports that a month is compared with, uploaded by programs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from io import BytesIO
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import File, Query, Router, Schema
from ninja.files import UploadedFile
from pydantic import Field

from dashboard.access.audited import Request, refusals_recorded
from dashboard.access.rights import require
from dashboard.api import authentication as signing_in
from dashboard.api.fields import Month
from dashboard.api.problems import PROBLEMS, ApiError
from dashboard.costs.actions import RECONCILE_EXPORT, reconcile_export
from dashboard.costs.bill.reconciliation import read_bounded
from dashboard.costs.bill.statements import StatementError, read_export
from dashboard.models import Statement
from dashboard.site.forms import LARGEST_BYTES
from pipeline.months import is_month

router = Router(tags=["charges"])
REST_OF_A_FORM = 64 * 1024
TOO_LARGE = f"The file is larger than {LARGEST_BYTES // 2**20} MB: export less of it at a time."


class _Bounded:
    """Checks the size and the right before anything reads the body; checking the CSRF token would read it."""

    def __call__(self, request: HttpRequest) -> Any | None:
        if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_BYTES + REST_OF_A_FORM:
            raise ApiError(413, TOO_LARGE)
        ask: Callable[[HttpRequest], Any | None] = super().__call__  # type: ignore[misc]
        found = ask(request)
        if found is not None:
            with _recorded(request):
                require(request.user, RECONCILE_EXPORT.right)
        return found


class Bearer(_Bounded, signing_in.Bearer):
    """Authentication by token, after these checks."""


class Session(_Bounded, signing_in.Session):
    """Authentication by a signed-in browser's session, after these checks."""


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


@router.get("/statements", response={200: list[StatementRow], **PROBLEMS}, operation_id="statements")
def statements(request: HttpRequest, month: Annotated[Month, Query()]) -> list[Statement]:
    """The statement that the month is compared with, if there is one."""
    return list(Statement.objects.filter(month=month))


@router.post(
    "/statements",
    response={200: UploadResult, **PROBLEMS},
    operation_id="give_statement",
    auth=[signing_in.Shell(), Bearer(), Session()],
)
def give(
    request: HttpRequest, query: Annotated[StatementQuery, Query()], file: Annotated[UploadedFile, File()]
) -> dict[str, Any]:
    """Upload the cost export of a month. It replaces the previous one; an unusable file changes nothing."""
    data = read_bounded(file)
    try:
        if query.dry_run:
            parsed = read_export(BytesIO(data), query.month)
            sentence = f"{query.month} would be compared with {parsed.rows:,} rows."
            return {"outcome": "preview", "sentence": sentence, "rows": parsed.rows, "skipped": dict(parsed.skipped)}
        asked = Request(request.user, target=query.month, via=signing_in.via(request)[:80])
        reconcile_export(asked, str(file.name), data)
    except StatementError as error:
        raise ApiError(413 if len(data) > LARGEST_BYTES else 409, str(error)) from None
    statement = Statement.objects.get(month=query.month)
    sentence = f"{query.month} is compared with {statement.rows:,} rows."
    return {"outcome": "done", "sentence": sentence, "rows": statement.rows, "skipped": statement.skipped}


def _recorded(request: HttpRequest) -> AbstractContextManager[None]:
    month = request.GET.get("month", "")
    target, via = month if is_month(month) else "*", signing_in.via(request)[:80]
    return refusals_recorded(request.user, RECONCILE_EXPORT.name, "*", target, via=via)
