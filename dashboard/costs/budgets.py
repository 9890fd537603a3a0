"""Monthly budgets: set by operators, checked when charges are stored, reported once when they are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from dashboard.models import Budget, BudgetAlert, Charge, Invoice
from dashboard.models.visibility import all_pairs

ALL = "*"
FULL = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """A budget and how much of it the month has used, in cents."""

    budget: Budget
    spent: int

    @property
    def percent(self) -> int:
        """The used share of the budget, rounded down; 100 is all of it."""
        return FULL * self.spent // self.budget.cents if self.budget.cents else FULL

    @property
    def is_exceeded(self) -> bool:
        return self.spent >= self.budget.cents

    @property
    def is_near(self) -> bool:
        return self.percent >= self.budget.alert_percent

    @property
    def left(self) -> int:
        return self.budget.cents - self.spent


def came_to(month: str, pair: str) -> int | None:
    """The cost of the month for one pair or for all pairs (`*`), in cents; None if there is no row."""
    rows = Charge.objects.filter(invoice__month=month)
    found: int | None = (rows if pair == ALL else rows.filter(pair=pair)).aggregate(cents=Sum("cents"))["cents"]
    return found


def budget_states(month: str, pair: str = "") -> list[BudgetState]:
    """Each budget of the month, or only the budget of one pair."""
    budgets = Budget.objects.filter(pair=pair) if pair else Budget.objects.all()
    return [BudgetState(budget=budget, spent=came_to(month, budget.pair) or 0) for budget in budgets]


def raise_alerts(month: str, now: datetime) -> Sequence[BudgetAlert]:
    """Store and return an alert for each share of a budget that was reached and not reported yet."""
    with all_pairs():  # an invoice is of all pairs; the budgets below are those that one sees
        invoice = Invoice.objects.filter(month=month).first()
    if invoice is None:
        return []
    raised = []
    for state in budget_states(month):
        budget = state.budget
        for percent in sorted({budget.alert_percent, FULL}):
            if state.percent < percent:
                continue
            known = {"cents": state.spent, "budget_cents": budget.cents, "currency": invoice.currency}
            alert, is_new = BudgetAlert.objects.get_or_create(
                month=month, pair=budget.pair, percent=percent, defaults=known | {"raised_at": now}
            )
            raised += [alert] if is_new else []
    return raised


def store_budget(pair: str, cents: int, alert_percent: int, person: str, now: datetime) -> None:
    """Store the budget of a pair or of all pairs; 0 removes it. Alerts for other amounts are deleted."""
    if cents:
        fields = {"cents": cents, "alert_percent": alert_percent, "set_by": person, "set_at": now}
        Budget.objects.update_or_create(pair=pair, defaults=fields)
    else:
        Budget.objects.filter(pair=pair).delete()
    BudgetAlert.objects.filter(pair=pair).exclude(budget_cents=cents).delete()
