"""Idempotent requests, and the format of their responses."""

import hashlib
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Header, Schema
from pydantic import Field

from dashboard.access.audited import Outcome, Request
from dashboard.access.idempotency import last_try, may_be_tried_again
from dashboard.api.authentication import via
from dashboard.api.problems import ApiError
from dashboard.models import AuditEntry, Pair

Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern=r"^[\x21-\x7e]*$",
        description="Any text, for example a UUID. The same request with the same key is carried out once.",
    ),
]


class ActionResult(Schema):
    """The result: `done`, `unchanged` (the state was as requested already), or `preview` (dry run; nothing was
    changed).

    `is_repeated`: the request was sent before with the same key; the other fields are the result of the first one.
    """

    outcome: Literal["done", "unchanged", "preview"]
    sentence: str
    is_repeated: bool = False
    would_change: list[str] = Field(default_factory=list)
    would_not_change: list[str] = Field(default_factory=list)
    hindrance: str = ""
    counts: dict[str, int] = Field(default_factory=dict)
    confirm: str = ""


def perform(
    request: HttpRequest,
    key: str,
    pair: Pair,
    target: str,
    reason: str,
    run: Callable[[Request], Outcome],
) -> dict[str, Any]:
    """Carry the request out once, on the audited path that the pages use."""
    request_id, earlier = identity(request, key)
    if earlier:
        return {"outcome": earlier.outcome, "sentence": earlier.detail, "is_repeated": True}
    outcome = run(
        Request(
            user=request.user, pair=pair, target=target, reason=reason, request_id=request_id, via=via(request)[:80]
        )
    )
    return {"outcome": outcome.outcome, "sentence": outcome.sentence}


def identity(request: HttpRequest, key: str) -> tuple[str, AuditEntry | None]:
    """The id of the request in the audit trail, and its entry if it was carried out. Failed ones may be tried again."""
    if not key:
        return uuid.uuid4().hex, None
    mine = _digest(f"{request.user.pk} {key}".encode())
    this = mine + _digest(request.method.encode() + request.path.encode() + b"\n" + request.body)  # type: ignore[union-attr]
    first = AuditEntry.objects.filter(request_id__gte=mine, request_id__lt=f"{mine}g").first()
    if first and not first.request_id.startswith(this):
        raise ApiError(422, "This Idempotency-Key was used for another request. Use a new key for each request.")
    last = last_try(this)
    if last is None or may_be_tried_again(last, timezone.now()):
        return this, None
    if not last.outcome:
        raise ApiError(409, "The same request is still in progress. Try again later.", Retry_After="5")
    return this, last


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
