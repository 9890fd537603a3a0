"""All declared verbs by name, for the audit trail, templates, docs and tests."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from dashboard.access.declaration import Action, Verb

MODULES = (
    "dashboard.actions.entities",
    "dashboard.actions.syphons",
    "dashboard.backlog.actions",
    "dashboard.drills.actions",
    "dashboard.alerts.actions",
    "dashboard.access.tokens",
    "dashboard.access.people",
    "dashboard.costs.actions",
    "dashboard.demo.views",
)
"""The modules that declare verbs, each in its `ACTIONS`. A room with verbs of its own adds one line."""


@cache
def verbs() -> Mapping[str, Verb]:
    """All declared verbs by name, in the order of declaration. Raises ValueError for duplicate names."""
    declared = [verb for module in MODULES for verb in import_module(module).ACTIONS]
    by_name = {verb.name: verb for verb in declared}
    if len(by_name) < len(declared):
        raise ValueError("two declared verbs have the same name")
    return by_name


@cache
def actions() -> Mapping[str, Action]:
    """The verbs that people carry out."""
    return {name: verb for name, verb in verbs().items() if isinstance(verb, Action)}


def offered(state: str) -> tuple[Action, ...]:
    """The actions that pages offer for an entity in this state, the most likely first."""
    return tuple(sorted((a for a in actions().values() if state in a.offered), key=lambda a: a.offered[state]))


def label(name: str, state: str = "") -> str:
    """The label of a button or of an audit entry, for the state of an entity if there is one."""
    verb = verbs().get(name)
    if verb is None:
        return name.replace("_", " ").capitalize()
    return verb.labels.get(state, verb.label) if isinstance(verb, Action) else verb.label
