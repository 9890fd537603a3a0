"""Pages of costs: charges, forecasts, reconciliation with the bill."""

from django.urls import path

from dashboard.costs.views import forecast, reconciliation, report
from dashboard.site.menu import Entry

MENU = (
    Entry("Costs", "costs", 40),
    Entry("Month", "costs", 41, under="Costs"),
    Entry("What would an outage cost?", "costs-forecast", 42, under="Costs"),
    Entry("Comparison with the bill", "costs-reconcile", 43, under="Costs"),
)
urlpatterns = [
    path("costs/", report.report, name="costs"),
    path("costs/run/", report.run, name="costs-run"),
    path("costs/compute/", report.compute, name="costs-compute"),
    path("costs/forecast/", forecast.page, name="costs-forecast"),
    path("costs/failover/", forecast.before_failover, name="costs-before-failover"),
    path("costs/reports/<int:run>.csv", report.paid_report, name="costs-paid-report"),
    path("costs/reports/<int:run>/changes.csv", report.paid_changes, name="costs-paid-changes"),
    path("costs/rule/", report.rule, name="costs-rule"),
    path("costs/budget/", report.budget, name="costs-budget"),
    path("costs/reconcile/", reconciliation.page, name="costs-reconcile"),
    path("costs/reconcile/upload/", reconciliation.upload, name="costs-reconcile-upload"),
    path("costs.parquet", report.as_parquet, name="costs-parquet"),
    path("costs.csv", report.as_csv, name="costs-csv"),
]
