"""The costs of a month: invoices, charges, budgets, and requests to compute a month."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.rights import Right, require
from dashboard.api.authentication import via
from dashboard.api.fields import WHOLE, Body, Month, Rule, Word, pair_or_404
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.costs.budgets import ALL, budget_states, raise_alerts, set_budget
from dashboard.costs.charges import request_run, rule_of
from dashboard.costs.refusals import recorded
from dashboard.models import Charge, ChargeRun, Invoice
from dashboard.site.money import money

router = Router(tags=["charges"])


class Bill(Schema):
    """The bill of one billing scope for a month under one counting rule. `amount` is rounded, `exact` is not.

    `adjustments`: what was added since a month was closed; the bill comes to `amount` and `adjustments`.
    """

    month: str
    scope: str
    rule: Literal["published", "settlements"]
    currency: str
    amount: str
    exact: str
    adjustments: str
    billing_units: int
    closed_at: datetime | None


class ChargeRow(Schema):
    """The charge for one kind of operation of one entity. The rows of a bill sum to it to the cent."""

    month: str
    scope: str
    rule: Literal["published", "settlements"]
    pair: str
    namespace: str
    entity: str
    kind: str
    operations: int
    messages: int
    bytes: int
    billing_units: int
    included_units: int
    amount: str
    exact: str
    currency: str


class BillQuery(Schema):
    """Selects bills. The default rule is the one the month was computed for."""

    month: Month
    scope: Word = ""
    rule: Rule = ""


class ChargeQuery(Cursor):
    """Selects rows. The default rule is the one the month was computed for."""

    month: Month
    scope: Word = ""
    rule: Rule = ""
    pair: Word = ""
    entity: Word = ""
    kind: Word = ""


class Run(Schema):
    """A computation of a month. `share` is its progress, 0 to 1."""

    month: str
    status: Literal["wanted", "running", "succeeded", "failed"]
    share: float
    stage: str
    error: str
    started_by: str
    started_at: datetime
    finished_at: datetime | None


class Compute(Body):
    """The month to compute."""

    month: Month
    dry_run: bool = False


class BudgetUse(Schema):
    """The budget of a pair or (`*`) of all pairs, and what the month has cost so far."""

    pair: str
    amount: str
    alert_percent: int
    spent: str
    percent: int
    set_by: str
    set_at: datetime


class BudgetBody(Body):
    """The budget of a month. An amount of 0 removes it."""

    pair: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^\x00]*$")] = ALL
    amount: Annotated[
        str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{2})?$", description="In the currency of the price list: 120.00")
    ]
    alert_percent: Annotated[int, Field(ge=1, le=100), WHOLE] = 80
    dry_run: bool = False


class RequestResult(Schema):
    """The result of the request."""

    outcome: Literal["done", "preview"]
    sentence: str


@router.get("/invoices", response={200: list[Bill], **PROBLEMS}, operation_id="invoices")
def invoices(request: HttpRequest, query: Annotated[BillQuery, Query()]) -> list[dict[str, Any]]:
    """The month's bills, one for each billing scope."""
    rows = Invoice.objects.filter(month=query.month, rule=_rule(query.month, query.rule))
    rows = rows.filter(scope=query.scope) if query.scope else rows
    return [_bill(row) for row in rows.annotate(adjusted=Sum("adjustments__cents", default=0))]


@router.get("/charges", response={200: Page[ChargeRow], **PROBLEMS}, operation_id="charges")
def charges(request: HttpRequest, query: Annotated[ChargeQuery, Query()]) -> dict[str, Any]:
    """The rows of the month's bills."""
    rows = Charge.objects.filter(invoice__month=query.month, invoice__rule=_rule(query.month, query.rule))
    lookups = {"invoice__scope": query.scope, "pair": query.pair, "entity": query.entity, "kind": query.kind}
    rows = rows.filter(**{name: value for name, value in lookups.items() if value})
    return page(rows.select_related("invoice"), ("id",), query, _row)


@router.get("/charges/runs", response={200: list[Run], **PROBLEMS}, operation_id="charge_runs")
def runs(request: HttpRequest, month: Annotated[Month, Query()]) -> list[ChargeRun]:
    """The computations of a month, newest first."""
    return list(ChargeRun.objects.filter(month=month)[:50])


@router.post("/charges/compute", response={200: RequestResult, **PROBLEMS}, operation_id="compute_charges")
def compute(request: HttpRequest, body: Compute) -> dict[str, str]:
    """Ask the workers to compute a month. A computation that is requested or running already is not started twice."""
    with recorded(request.user, "compute_charges", month=body.month, via=via(request)):
        require(request.user, Right.OPERATE)
        if body.dry_run:
            return {"outcome": "preview", "sentence": f"The workers would compute {body.month}."}
        run = request_run(body.month, request.user.get_username(), timezone.now())
    return {"outcome": "done", "sentence": f"The computation of {body.month} is {run.status}."}


@router.get("/budgets", response={200: list[BudgetUse], **PROBLEMS}, operation_id="budgets")
def budgets(request: HttpRequest, query: Annotated[BillQuery, Query()]) -> list[dict[str, Any]]:
    """The budgets, and how much of each the month has used."""
    return [
        {
            "pair": each.budget.pair,
            "amount": money(each.budget.cents),
            "alert_percent": each.budget.alert_percent,
            "spent": money(each.spent),
            "percent": each.percent,
            "set_by": each.budget.set_by,
            "set_at": each.budget.set_at,
        }
        for each in budget_states(query.month, _rule(query.month, query.rule))
    ]


@router.post("/budgets", response={200: RequestResult, **PROBLEMS}, operation_id="set_budget")
def budget(request: HttpRequest, body: BudgetBody) -> dict[str, str]:
    """Set the monthly budget of one pair or of all pairs."""
    with recorded(request.user, "set_budget", pair=body.pair, via=via(request)):
        require(request.user, Right.OPERATE)
        pair = body.pair if body.pair == ALL else pair_or_404(body.pair).name
        cents = int(Decimal(body.amount) * 100)
        sentence = f"The budget of {pair} is {money(cents)} a month." if cents else f"{pair} has no budget."
        if body.dry_run:
            return {"outcome": "preview", "sentence": sentence}
        now = timezone.now()
        with transaction.atomic():
            set_budget(pair, cents, body.alert_percent, request.user.get_username(), now)
            raise_alerts(f"{now:%Y-%m}", _rule(f"{now:%Y-%m}", ""), now)
    return {"outcome": "done", "sentence": sentence}


def _rule(month: str, wanted: str) -> str:
    """The requested counting rule; by default the one the month was computed for."""
    return wanted or rule_of(month)


def _bill(row: Any) -> dict[str, Any]:
    names = ("month", "scope", "rule", "currency", "exact", "closed_at")
    amounts = {"amount": money(row.cents), "adjustments": money(row.adjusted)}
    return {name: getattr(row, name) for name in names} | amounts | {"billing_units": row.units}


def _row(row: Charge) -> dict[str, Any]:
    names = ("pair", "namespace", "entity", "kind", "operations", "messages", "bytes", "billing_units")
    bill = {name: getattr(row.invoice, name) for name in ("month", "scope", "rule", "currency")}
    known = {name: getattr(row, name) for name in (*names, "included_units", "exact")}
    return bill | known | {"amount": money(row.cents)}
