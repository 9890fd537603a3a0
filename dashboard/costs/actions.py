"""The actions on costs: compute a month, set the counting rule and budgets, take the bill of a month."""

from __future__ import annotations

from dashboard.access.audited import ALL_PAIRS, ActionError, Outcome, Person, Request, done, unchanged
from dashboard.access.declaration import Action, Operation
from dashboard.access.rights import Right
from dashboard.costs.bill.reconciliation import import_bill
from dashboard.costs.budgets import ALL, raise_alerts, store_budget
from dashboard.costs.runs.charges import request_run
from dashboard.models import CostRule, Pair, Statement
from dashboard.models.charge import ALLOCATIONS, RULES
from dashboard.site.money import money
from pipeline.months import is_month

NO_MONTH = "There is no such month. Write it as YYYY-MM, for example 2026-10."
COMPUTE_CHARGES = Action(
    name="compute_charges",
    label="Compute charges",
    preview="The workers would compute {it}.",
    asks_reason=False,
    operation=Operation("/charges/compute", "compute_charges", "Ask the workers to compute a month, once at a time."),
)
SET_COST_RULE = Action(
    name="set_cost_rule",
    label="Set counting rule",
    preview="The counting rule and the allocation of the installation would be set.",
    right=Right.ADMINISTER,
    asks_reason=False,
    operation=Operation("/charges/rule", "set_cost_rule", "Set the counting rule of all runs from now on."),
)
SET_BUDGET = Action(
    name="set_budget",
    label="Set budget",
    preview="The budget of a pair, or of all pairs, would be set.",
    asks_reason=False,
    operation=Operation("/budgets", "set_budget", "Set the monthly budget of one pair or of all pairs."),
)
RECONCILE_EXPORT = Action(
    name="reconcile_export",
    label="Upload cost export",
    preview="Take the cost export of a month. It replaces the previous one; an unusable file changes nothing.",
    asks_reason=False,
)
ACTIONS = (COMPUTE_CHARGES, SET_COST_RULE, SET_BUDGET, RECONCILE_EXPORT)


def about(user: Person, month: str = "", pair: str = ALL_PAIRS.name) -> Request:
    """The request of a page for an action on this month or pair; a month that is none is not recorded."""
    return Request(user, Pair(name=pair), month if is_month(month) else "*")


@COMPUTE_CHARGES.audited
def compute_charges(request: Request, *, todays_inputs: bool = False) -> Outcome:
    """Ask the workers to compute the month that is the target."""
    month = _month_of(request)
    run, is_new = request_run(month, request.operator, request.at, todays_inputs=todays_inputs)
    sentence = f"The computation of {month} is {run.status}."
    return done(sentence) if is_new else unchanged(sentence)


@SET_COST_RULE.audited
def set_cost_rule(request: Request, rule: str, allocation: str) -> Outcome:
    """Choose how all runs from now on count."""
    if rule not in dict(RULES) or allocation not in dict(ALLOCATIONS):
        raise ActionError("There is no such counting rule or allocation.")
    CostRule.objects.all().delete()
    CostRule.objects.create(rule=rule, allocation=allocation, set_by=request.operator, set_at=request.at)
    return done(f"Charges are computed by the rule {rule}, allocation {allocation}, from the next run on.")


@SET_BUDGET.audited
def set_budget(request: Request, cents: int | None, alert_percent: int) -> Outcome:
    """Set the budget of the request's pair, or of all pairs; 0 removes it. `cents`: None if it cannot be read."""
    if cents is None:
        raise ActionError("The budget cannot be read.")
    pair = request.pair.name
    store_budget(pair, cents, alert_percent, request.operator, request.at)
    raise_alerts(f"{request.at:%Y-%m}", request.at)
    return done(budget_in_words(pair, cents, alert_percent))


def budget_in_words(pair: str, cents: int, alert_percent: int) -> str:
    """The budget as a sentence."""
    whose = "all pairs" if pair == ALL else pair
    if not cents:
        return f"There is no budget of {whose}."
    return f"The budget of {whose} is {money(cents)} a month, with an alert at {alert_percent} %."


@RECONCILE_EXPORT.audited
def reconcile_export(request: Request, name: str, data: bytes | None) -> Outcome:
    """Store the bill of the month that is the target."""
    if data is None:
        raise ActionError("Choose a file.")
    return done(described(import_bill(_month_of(request), name, data, request.operator, request.at)))


def described(statement: Statement) -> str:
    """The bill in the audit trail."""
    return f"{statement.name}: {statement.rows:,} rows, SHA-256 {statement.digest[:16]}…"


def _month_of(request: Request) -> str:
    if not is_month(request.target):
        raise ActionError(NO_MONTH)
    return request.target
