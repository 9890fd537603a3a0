"""The control plane's rows, one file per noun."""

from dashboard.models.audit import AuditEntry
from dashboard.models.backlog import BacklogQueue, DepthSample, PairDepth
from dashboard.models.budget import Budget, BudgetAlert
from dashboard.models.charge import (
    Adjustment,
    Availability,
    Charge,
    ChargeRun,
    DailyCharge,
    Invoice,
    Outage,
)
from dashboard.models.cleanup import DeadLetterJob, DiscardedMessage, QueueDeletion, QueueDrain
from dashboard.models.entity import EntityHealth, WaitingSample
from dashboard.models.failover_event import FailoverEvent
from dashboard.models.heartbeat import Heartbeat
from dashboard.models.pair import Pair
from dashboard.models.rollup import BacklogRollup
from dashboard.models.statement import BilledDay, Statement
from dashboard.models.syphon import SyphonLedger, SyphonPause

__all__ = [
    "Adjustment",
    "AuditEntry",
    "Availability",
    "BacklogQueue",
    "BacklogRollup",
    "BilledDay",
    "Budget",
    "BudgetAlert",
    "Charge",
    "ChargeRun",
    "DailyCharge",
    "DeadLetterJob",
    "DepthSample",
    "DiscardedMessage",
    "EntityHealth",
    "FailoverEvent",
    "Heartbeat",
    "Invoice",
    "Outage",
    "Pair",
    "PairDepth",
    "QueueDeletion",
    "QueueDrain",
    "Statement",
    "SyphonLedger",
    "SyphonPause",
    "WaitingSample",
]
