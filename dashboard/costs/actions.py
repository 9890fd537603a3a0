"""The declarations of what changes costs."""

from dashboard.access.declaration import Action

COMPUTE_CHARGES = Action(name="compute_charges", label="Compute charges", preview="Workers compute the month.")
SET_BUDGET = Action(name="set_budget", label="Set budget", preview="The budget of a pair, or of all pairs.")
SET_COST_TERMS = Action(name="set_cost_terms", label="Set cost terms", preview="How months are computed.")
RECONCILE_EXPORT = Action(name="reconcile_export", label="Upload cost export", preview="The bill of a month.")
RECONCILE_METRICS = Action(name="reconcile_metrics", label="Upload metrics", preview="Metrics of a month.")
ACTIONS = (COMPUTE_CHARGES, SET_BUDGET, SET_COST_TERMS, RECONCILE_EXPORT, RECONCILE_METRICS)
