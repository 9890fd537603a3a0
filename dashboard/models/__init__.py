"""The control plane's models, one module per noun."""

from dashboard.models.alert import Alert, AlertRound, AlertRule, ChannelState, Notice, Severity
from dashboard.models.audit import AuditEntry
from dashboard.models.backlog import BacklogQueue, DepthSample, PairDepth
from dashboard.models.budget import Budget, BudgetAlert
from dashboard.models.charge import (
    Availability,
    Charge,
    ChargeRun,
    DailyCharge,
    Invoice,
    MonthlyReport,
    Outage,
)
from dashboard.models.cleanup import (
    DeadLetterJob,
    DiscardedMessage,
    QueueDeletion,
    QueueDrain,
    ResubmittedMessage,
)
from dashboard.models.cost_terms import CostRule
from dashboard.models.depth_peak import DepthPeak
from dashboard.models.drill import Drill
from dashboard.models.entity import EntityHealth, WaitingSample
from dashboard.models.failover_event import FailoverEvent
from dashboard.models.heartbeat import Heartbeat
from dashboard.models.identity import Identity
from dashboard.models.metered import MeteredRecord, MeteredUsage
from dashboard.models.pair import Pair
from dashboard.models.pings import PingTally
from dashboard.models.pruned import PrunedCount
from dashboard.models.readiness import PairReadiness, Readiness, ReadinessChange
from dashboard.models.rollup import BacklogRollup
from dashboard.models.statement import BilledDay, Statement
from dashboard.models.subscription import TopicSubscription
from dashboard.models.syphon import SyphonLedger, SyphonPace, SyphonPause, SyphonRun
from dashboard.models.token import ApiToken

__all__ = [
    "Alert",
    "AlertRound",
    "AlertRule",
    "ApiToken",
    "AuditEntry",
    "Availability",
    "BacklogQueue",
    "BacklogRollup",
    "BilledDay",
    "Budget",
    "BudgetAlert",
    "ChannelState",
    "Charge",
    "ChargeRun",
    "CostRule",
    "DailyCharge",
    "DeadLetterJob",
    "DepthPeak",
    "DepthSample",
    "DiscardedMessage",
    "Drill",
    "EntityHealth",
    "FailoverEvent",
    "Heartbeat",
    "Identity",
    "Invoice",
    "MeteredRecord",
    "MeteredUsage",
    "MonthlyReport",
    "Notice",
    "Outage",
    "Pair",
    "PairDepth",
    "PairReadiness",
    "PingTally",
    "PrunedCount",
    "QueueDeletion",
    "QueueDrain",
    "Readiness",
    "ReadinessChange",
    "ResubmittedMessage",
    "Severity",
    "Statement",
    "SyphonLedger",
    "SyphonPace",
    "SyphonPause",
    "SyphonRun",
    "TopicSubscription",
    "WaitingSample",
]
