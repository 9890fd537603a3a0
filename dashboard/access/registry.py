"""All declared actions by name, for templates, docs and tests."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from dashboard.access.declaration import Action

MODULES = (
    "dashboard.actions.entities",
    "dashboard.actions.syphons",
    "dashboard.backlog.actions",
    "dashboard.drills.actions",
    "dashboard.alerts.actions",
    "dashboard.access.tokens",
)
"""The modules that declare actions, each in its `ACTIONS`. A room with actions of its own adds one line."""
OTHER_LABELS = {
    "queue_deleted": "Queue deleted",
    "queue_kept": "Queue not deleted",
    "queue_returned": "Deletion cancelled",
    "set_groups": "Groups of the pair set",
    "add_user": "User added",
    "change_user": "User changed",
    "delete_user": "User deleted",
    "add_group": "Group added",
    "change_group": "Group changed",
    "delete_group": "Group deleted",
    "download": "Download messages",
    "compute_charges": "Compute charges",
    "set_budget": "Set budget",
    "set_cost_terms": "Set cost terms",
    "reconcile_export": "Upload cost export",
    "reconcile_metrics": "Upload metrics",
    "demo_break": "Break",
    "demo_mend": "Mend",
}
"""Labels of entries in the audit trail that no declared action writes."""


@cache
def actions() -> Mapping[str, Action]:
    """All declared actions by name, in the order of declaration. Raises ValueError for duplicate names."""
    declared = [action for module in MODULES for action in import_module(module).ACTIONS]
    by_name = {action.name: action for action in declared}
    if len(by_name) < len(declared):
        raise ValueError("two declared actions have the same name")
    return by_name


def offered(state: str) -> tuple[Action, ...]:
    """The actions that pages offer for an entity in this state, the most likely first."""
    return tuple(sorted((a for a in actions().values() if state in a.offered), key=lambda a: a.offered[state]))


def label(name: str, state: str = "") -> str:
    """The label of a button or of an audit entry, for the state of an entity if there is one."""
    action = actions().get(name)
    if action is None:
        return OTHER_LABELS.get(name, name.replace("_", " ").capitalize())
    return action.labels.get(state, action.label)
