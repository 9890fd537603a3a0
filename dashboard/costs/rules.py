"""The counting rule and the allocation: one setting of the installation. A past month keeps those of its last run."""

from __future__ import annotations

from django.utils import timezone

from dashboard.models import ChargeRun, CostRule
from dashboard.models.charge import SETTLEMENTS
from dashboard.models.visibility import all_pairs
from pairing.telemetry.metering import SETTLEMENT_KINDS
from pipeline.months import Month


def chosen_rule() -> CostRule:
    """What administrators chose, or the defaults."""
    return CostRule.objects.first() or CostRule()


def is_billed(kind: str, rule: str) -> bool:
    """Whether the rule bills operations of this kind."""
    return rule == SETTLEMENTS or kind not in SETTLEMENT_KINDS


def next_rule(month: str) -> str:
    """The counting rule of the month's next run."""
    return rule_of(month) if Month.parse(month).end <= timezone.now() else chosen_rule().rule


def rule_of(month: str) -> str:
    """The counting rule of the month's charges, also for somebody who does not see all pairs."""
    with all_pairs():
        run = ChargeRun.objects.filter(month=month, status=ChargeRun.Status.SUCCEEDED).first()
    return run.rule if run else chosen_rule().rule
