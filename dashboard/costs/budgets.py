"""Monthly budgets: set by operators, checked when charges are stored, reported once when they are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from django.db import transaction
from django.db.models import Sum

from dashboard.access.visibility import require_visible
from dashboard.models import Adjustment, AuditEntry, Budget, BudgetAlert, Charge, Invoice
from dashboard.models.visibility import all_pairs
from dashboard.site.money import money

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


def came_to(month: str, pair: str, rule: str) -> int | None:
    """The cost of the month for one pair or for all pairs (`*`) under the rule, in cents, adjustments included.

    None if there is no row.
    """
    sums = []
    for model in (Charge, Adjustment):
        rows = model.objects.filter(invoice__month=month, invoice__rule=rule)
        found = rows if pair == ALL else rows.filter(pair=pair)
        sums.append(found.aggregate(cents=Sum("cents"))["cents"])
    known = [int(cents) for cents in sums if cents is not None]
    return sum(known) if known else None


def budget_states(month: str, rule: str, pair: str = "") -> list[BudgetState]:
    """Each budget of the month, or only the budget of one pair."""
    budgets = Budget.objects.filter(pair=pair) if pair else Budget.objects.all()
    return [BudgetState(budget=budget, spent=came_to(month, budget.pair, rule) or 0) for budget in budgets]


def raise_alerts(month: str, rule: str, now: datetime) -> Sequence[BudgetAlert]:
    """Store and return an alert for each share of a budget that was reached and not reported yet."""
    with all_pairs():  # an invoice is of all pairs; the budgets below are those that one sees
        invoice = Invoice.objects.filter(month=month).first()
    if invoice is None:
        return []
    raised = []
    for state in budget_states(month, rule):
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


@transaction.atomic
def set_budget(pair: str, cents: int, alert_percent: int, person: str, now: datetime) -> None:
    """Set the budget of a pair or of all pairs; 0 removes it. Audited. Alerts for other amounts are deleted.

    Raises Refused for a pair that the person does not see.
    """
    require_visible(pair)
    if cents:
        fields = {"cents": cents, "alert_percent": alert_percent, "set_by": person, "set_at": now}
        Budget.objects.update_or_create(pair=pair, defaults=fields)
    else:
        Budget.objects.filter(pair=pair).delete()
    BudgetAlert.objects.filter(pair=pair).exclude(budget_cents=cents).delete()
    detail = f"{money(cents)} a month, alert at {alert_percent} %" if cents else "no budget"
    entry = AuditEntry(
        request_id=str(uuid4()), at=now, operator=person, verb="set_budget", pair=pair, outcome="done", detail=detail
    )
    entry.save()
