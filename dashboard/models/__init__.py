"""The control plane's models, one module per noun."""

from dashboard.models.alert import Alert, AlertRound, AlertRule, ChannelState, Notice, Severity
from dashboard.models.audit import AuditEntry
from dashboard.models.backlog import BacklogQueue, BacklogRollup, DepthPeak, DepthSample, PairDepth
from dashboard.models.budget import Budget, BudgetAlert, CostRule
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
from dashboard.models.entity import EntityHealth, TopicSubscription, WaitingSample
from dashboard.models.pair import Pair
from dashboard.models.people import ApiToken, Identity
from dashboard.models.readiness import Drill, PairReadiness, Readiness, ReadinessChange
from dashboard.models.records import FailoverEvent, Heartbeat, MeteredRecord, MeteredUsage, PrunedCount
from dashboard.models.statement import BilledDay, Statement
from dashboard.models.syphon import SyphonLedger, SyphonPace, SyphonPause, SyphonRun
