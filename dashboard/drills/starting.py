"""How an operator's wish becomes a drill, from a page, the API or a shell: looked at first, then begun."""

from __future__ import annotations

from django.utils import timezone

from dashboard.actions.control import Outcome, Request
from dashboard.drills import requests as wanting
from dashboard.drills.canary import CANARY, look, marked, moment
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.status import is_silent
from dashboard.models import Drill


def begin(
    request: Request,
    *,
    typed: str = "",
    creates: bool = False,
    kind: str = Drill.Kind.QUEUE,
    messages: int = wanting.USUAL,
) -> Outcome:
    """Let a worker carry out a drill on the request's target; `kind` is of a canary that is made for it."""
    pair = request.pair
    return wanting.start(
        request,
        look(pair.name, request.target),
        moment(pair, is_silent=is_silent(last_heartbeat(), timezone.now())),
        is_marked=is_marked(request.target, canary_of(pair.name)),
        typed=typed,
        creates=creates,
        kind=kind,
        messages=messages,
    )


def canary_of(pair: str) -> str | None:
    """The one that PAIRS_FILE names; None where it names none."""
    config = marked(pair)
    return config.entity if config else None


def is_marked(path: str, named: str | None) -> bool:
    """Whether an entity may be drilled on without its name typed: the marked one, or the one drills make. Pure."""
    return path.lower() in {CANARY, (named or CANARY).lower()}
