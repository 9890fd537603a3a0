"""Charges, outages, budgets and statements in Django's admin."""

from dashboard import models
from dashboard.site.read_only import register

register(
    models.ChargeRun,
    ("month", "status", "rule", "allocation", "rows", "started_by", "started_at", "finished_at"),
    ("status", "rule", "month"),
    ("month", "error", "started_by"),
)
register(
    models.Invoice,
    ("month", "scope", "rule", "currency", "cents", "units", "closed_at"),
    ("rule", "month"),
    ("scope",),
)
register(models.ClosedMonth, ("month", "closed_at"), searched=("month",))
register(
    models.Charge,
    ("invoice", "pair", "namespace", "entity", "kind", "operations", "billing_units", "cents"),
    ("invoice__month", "kind", "pair"),
    ("namespace", "entity"),
)
register(
    models.DailyCharge,
    ("date", "invoice", "kind", "operations", "billing_units"),
    ("kind", "invoice__month"),
)
register(
    models.Adjustment,
    ("made_at", "invoice", "namespace", "entity", "kind", "cents"),
    ("kind",),
    ("entity",),
)
register(
    models.Outage,
    ("started_at", "pair", "entity", "ended_at", "cause", "down_s", "month"),
    ("month", "cause", "pair"),
    ("entity", "reason"),
)
register(
    models.Availability,
    ("month", "pair", "entity", "episodes", "down_s", "repair_s"),
    ("month", "pair"),
    ("entity",),
)
register(models.Budget, ("pair", "cents", "alert_percent", "set_by", "set_at"), searched=("pair",))
register(
    models.BudgetAlert,
    ("raised_at", "month", "pair", "percent", "cents", "budget_cents"),
    ("month", "pair"),
)
register(
    models.Statement,
    ("month", "source", "name", "rows", "currency", "uploaded_by", "uploaded_at"),
    ("source", "month"),
    ("name", "uploaded_by"),
)
register(
    models.BilledDay,
    ("date", "statement", "namespace", "meter", "quantity", "cost"),
    ("meter",),
    ("namespace",),
)
register(
    models.ConnectionDay,
    ("date", "statement", "scope", "namespace", "peaks"),
    ("scope",),
    ("namespace",),
)
register(
    models.BacklogRollup,
    ("begins_at", "pair", "queue", "is_day", "samples", "deepest"),
    ("is_day", "pair"),
    ("queue",),
)
register(models.CostTerms, ("month", "rule", "allocation", "hours_in_month", "prices", "region", "set_by", "set_at"))
