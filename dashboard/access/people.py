"""Who belongs to which groups, and which groups see a pair: changed in Django's admin, and recorded."""

from collections.abc import Iterable

from django.contrib.auth.models import Group

from dashboard.access.audited import Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Verb
from dashboard.access.rights import Right
from dashboard.access.visibility import require_all

EVERYBODY = "everybody with a role"
SET_GROUPS = Action(
    name="set_groups",
    label="Groups of the pair set",
    preview="Only members of these groups see the pair; without groups, everybody with a role does.",
    right=Right.ADMINISTER,
    asks_reason=False,
)
CHANGES = {
    (verb, kind): Verb(name=f"{verb}_{kind}", label=f"{kind.capitalize()} {past}")
    for kind in ("user", "group")
    for verb, past in (("add", "added"), ("change", "changed"), ("delete", "deleted"))
}
"""What Django's admin does with people and groups."""
ACTIONS = (SET_GROUPS, *CHANGES.values())


@SET_GROUPS.audited
def set_groups(request: Request, groups: Iterable[Group]) -> Outcome:
    """Let the members of these groups see the pair, and nobody else; no groups: everybody with a role.

    Refused for somebody who does not see all pairs.
    """
    require_all()
    wanted, before = set(groups), set(request.pair.groups.all())
    if before == wanted:
        return unchanged(f"{request.pair} is already visible to {_named(wanted)}.")
    request.pair.groups.set(wanted)
    return done(f"{request.pair} is visible to {_named(wanted)}; before: {_named(before)}.")


def _named(groups: Iterable[Group]) -> str:
    return ", ".join(sorted(group.name for group in groups)) or EVERYBODY
