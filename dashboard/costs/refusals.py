"""Refusals of what changes costs, in the audit trail: these actions write an entry of their own once they are done."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dashboard.access.audited import Person, refusals_recorded
from dashboard.access.visibility import EVERYWHERE
from dashboard.models.cost_terms import ALL_MONTHS
from pipeline.months import is_month


def recorded(
    user: Person, verb: str, *, month: str = ALL_MONTHS, pair: str = EVERYWHERE, via: str = ""
) -> AbstractContextManager[None]:
    """Record it if the body raises Refused. `month`: as the request has it, which may be no month."""
    return refusals_recorded(user, verb, pair, month if is_month(month) else ALL_MONTHS, via=via[:80])
