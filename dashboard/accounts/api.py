"""The audit trail, and tokens. No token makes or shows tokens: these operations are for people."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access import tokens
from dashboard.access.rights import Refused
from dashboard.api.authentication import PEOPLE, via
from dashboard.api.fields import WHOLE, Body, Word
from dashboard.api.idempotency import Key, identity
from dashboard.api.operations import operation
from dashboard.api.paging import Between, Page, page
from dashboard.models import ApiToken, AuditEntry

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


class Token(Schema):
    """A token, without its text."""

    prefix: str
    name: str
    owner: str
    scope: str
    is_usable: bool
    expires_at: datetime
    used_at: datetime | None


class MakeToken(Body):
    """The program that will use the token, its scope, and how many days it is valid."""

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00]*$")]
    scope: Literal["read", "operate", "administer"] = "read"
    days: Annotated[int, Field(ge=1, le=365), WHOLE] = 30


class MadeToken(Schema):
    """The new token. Its text is shown here only."""

    prefix: str
    token: str
    expires_at: datetime


class AuditQuery(Between):
    """Selects actions."""

    operator: Word = ""


@router.get("/audit", response=Page[AuditRecord], operation_id="audit")
def audit(request: HttpRequest, query: Annotated[AuditQuery, Query()]) -> dict[str, Any]:
    """Actions of operators, newest first."""
    rows = query.of(AuditEntry.objects.all(), "at")
    rows = rows.filter(operator=query.operator) if query.operator else rows
    return page(rows, ("-at", "-id"), query)


@router.get("/tokens", response=list[Token], operation_id="tokens", auth=PEOPLE)
def listing(request: HttpRequest) -> list[dict[str, Any]]:
    """The tokens of the person; of everybody for administrators."""
    rows, now = tokens.visible_to(_person(request)).select_related("owner")[:500], timezone.now()
    names = ("prefix", "name", "scope", "expires_at", "used_at")
    return [
        {name: getattr(row, name) for name in names} | {"owner": row.owner.username, "is_usable": row.is_usable(now)}
        for row in rows
    ]


@operation(router, tokens.MAKE_TOKEN, response=MadeToken, auth=PEOPLE)
def make(request: HttpRequest, body: MakeToken, key: Key = "") -> dict[str, Any]:
    request_id, _ = identity(request, key)
    row, text = tokens.make(
        _person(request), body.name, body.scope, body.days, timezone.now(), request_id=request_id, via=via(request)
    )
    return {"prefix": row.prefix, "token": text, "expires_at": row.expires_at}


@operation(router, tokens.REVOKE_TOKEN, auth=PEOPLE)
def revoke(request: HttpRequest, prefix: str) -> dict[str, Any]:
    row = ApiToken.objects.select_related("owner").filter(prefix=prefix).first()
    if row is None:
        raise Http404(f"There is no token {prefix}; GET /api/v1/tokens lists them.")
    outcome = tokens.revoke(row, _person(request), timezone.now(), via=via(request))
    return {"outcome": outcome.outcome, "sentence": outcome.sentence}


def _person(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise Refused("Tokens belong to people: name one.")
    return request.user
