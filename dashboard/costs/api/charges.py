"""The costs of a month: invoices, charges, budgets, and requests to compute a month."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.audited import ALL_PAIRS
from dashboard.access.rights import require
from dashboard.api.fields import WHOLE, Amount, Body, Month, Word, pair_or_404
from dashboard.api.idempotency import Key, perform
from dashboard.api.operations import operation
from dashboard.api.paging import Cursor, Page, page
from dashboard.costs.actions import (
    COMPUTE_CHARGES,
    SET_BUDGET,
    SET_COST_RULE,
    budget_in_words,
    compute_charges,
    set_budget,
    set_cost_rule,
)
from dashboard.costs.budgets import ALL, BudgetState, budget_states
from dashboard.models import Charge, ChargeRun, Invoice

router = Router(tags=["charges"])


class Bill(Schema):
    """The bill of one billing scope for a month. `amount` is rounded, `exact` is not."""

    month: str
    scope: str
    rule: Literal["published", "settlements"]
    currency: str
    amount: Amount = Field(validation_alias="cents")
    exact: str
    billing_units: int = Field(validation_alias="units")


class ChargeRow(Schema):
    """The charge for one kind of operation of one entity. The rows of a bill sum to it to the cent."""

    month: str = Field(validation_alias="invoice.month")
    scope: str = Field(validation_alias="invoice.scope")
    rule: Literal["published", "settlements"] = Field(validation_alias="invoice.rule")
    pair: str
    namespace: str
    entity: str
    kind: str
    operations: int
    messages: int
    bytes: int
    billing_units: int
    included_units: int
    amount: Amount = Field(validation_alias="cents")
    exact: str
    currency: str = Field(validation_alias="invoice.currency")


class BillQuery(Schema):
    """Selects bills."""

    month: Month
    scope: Word = ""


class ChargeQuery(Cursor):
    """Selects rows."""

    month: Month
    scope: Word = ""
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
    """The month to compute. `todays_inputs`: also a past month with the prices, tiers and rule of today."""

    month: Month
    todays_inputs: bool = False
    dry_run: bool = False


class BudgetUse(Schema):
    """The budget of a pair or (`*`) of all pairs, and what the month has cost so far."""

    pair: str = Field(validation_alias="budget.pair")
    amount: Amount = Field(validation_alias="budget.cents")
    alert_percent: int = Field(validation_alias="budget.alert_percent")
    spent: Amount
    percent: int
    set_by: str = Field(validation_alias="budget.set_by")
    set_at: datetime = Field(validation_alias="budget.set_at")


class BudgetBody(Body):
    """The budget of a month. An amount of 0 removes it."""

    pair: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^\x00]*$")] = ALL
    amount: Annotated[
        str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{2})?$", description="In the currency of the price list: 120.00")
    ]
    alert_percent: Annotated[int, Field(ge=1, le=100), WHOLE] = 80
    dry_run: bool = False


class RuleBody(Body):
    """The counting rule, and what the included operations go to."""

    rule: Literal["published", "settlements"]
    allocation: Literal["time", "pro-rata"] = "time"


@router.get("/invoices", response=list[Bill], operation_id="invoices")
def invoices(request: HttpRequest, query: Annotated[BillQuery, Query()]) -> list[Invoice]:
    """The month's bills, one for each billing scope."""
    rows = Invoice.objects.filter(month=query.month)
    return list(rows.filter(scope=query.scope) if query.scope else rows)


@router.get("/charges", response=Page[ChargeRow], operation_id="charges")
def charges(request: HttpRequest, query: Annotated[ChargeQuery, Query()]) -> dict[str, Any]:
    """The rows of the month's bills."""
    rows = Charge.objects.filter(invoice__month=query.month)
    lookups = {"invoice__scope": query.scope, "pair": query.pair, "entity": query.entity, "kind": query.kind}
    rows = rows.filter(**{name: value for name, value in lookups.items() if value})
    return page(rows.select_related("invoice"), ("id",), query)


@router.get("/charges/runs", response=list[Run], operation_id="charge_runs")
def runs(request: HttpRequest, month: Annotated[Month, Query()]) -> list[ChargeRun]:
    """The computations of a month, newest first."""
    return list(ChargeRun.objects.filter(month=month)[:50])


@operation(router, COMPUTE_CHARGES)
def compute(request: HttpRequest, body: Compute, key: Key = "") -> dict[str, Any]:
    if body.dry_run:
        require(request.user, COMPUTE_CHARGES.right)
        return {"outcome": "preview", "sentence": COMPUTE_CHARGES.describe(body.month)}
    return perform(
        request, key, ALL_PAIRS, body.month, "", lambda of: compute_charges(of, todays_inputs=body.todays_inputs)
    )


@operation(router, SET_COST_RULE)
def rule(request: HttpRequest, body: RuleBody, key: Key = "") -> dict[str, Any]:
    return perform(request, key, ALL_PAIRS, "*", "", lambda of: set_cost_rule(of, body.rule, body.allocation))


@router.get("/budgets", response=list[BudgetUse], operation_id="budgets")
def budgets(request: HttpRequest, query: Annotated[BillQuery, Query()]) -> list[BudgetState]:
    """The budgets, and how much of each the month has used."""
    return budget_states(query.month)


@operation(router, SET_BUDGET)
def budget(request: HttpRequest, body: BudgetBody, key: Key = "") -> dict[str, Any]:
    pair = ALL_PAIRS if body.pair == ALL else pair_or_404(body.pair)
    cents = int(Decimal(body.amount) * 100)
    if body.dry_run:
        require(request.user, SET_BUDGET.right)
        return {"outcome": "preview", "sentence": budget_in_words(pair.name, cents, body.alert_percent)}
    return perform(request, key, pair, "*", "", lambda of: set_budget(of, cents, body.alert_percent))
