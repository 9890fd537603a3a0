"""Giving a pair to groups: an audited action of those who see all pairs."""

from collections.abc import Iterable

from django.contrib.auth.models import Group

from dashboard.access.audited import Outcome, Request, done, perform, unchanged
from dashboard.access.rights import Right
from dashboard.access.visibility import require_all
from pairing.fleet.coordination import SharedState

EVERYBODY = "everybody with a role"


def set_groups(request: Request, groups: Iterable[Group]) -> Outcome:
    """Let the members of these groups see the pair, and nobody else; no groups: everybody with a role.

    Raises Refused for somebody who is no administrator, or does not see all pairs.
    """
    wanted = list(groups)

    def run(_: SharedState) -> Outcome:
        require_all()
        before = set(request.pair.groups.all())
        if before == set(wanted):
            return unchanged(f"{request.pair} is already visible to {_named(wanted)}.")
        request.pair.groups.set(wanted)
        return done(f"{request.pair} is visible to {_named(wanted)}; before: {_named(before)}.")

    return perform("set_groups", request, run, right=Right.ADMINISTER)


def _named(groups: Iterable[Group]) -> str:
    return ", ".join(sorted(group.name for group in groups)) or EVERYBODY
