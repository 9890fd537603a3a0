"""The control plane's rows, one file per noun."""

from dashboard.models.audit import AuditEntry
from dashboard.models.backlog import BacklogQueue, DepthSample, PairDepth
from dashboard.models.entity import EntityHealth, WaitingSample
from dashboard.models.failover_event import FailoverEvent
from dashboard.models.heartbeat import Heartbeat
from dashboard.models.pair import Pair
from dashboard.models.syphon import SyphonPause

__all__ = [
    "AuditEntry",
    "BacklogQueue",
    "DepthSample",
    "EntityHealth",
    "FailoverEvent",
    "Heartbeat",
    "Pair",
    "PairDepth",
    "SyphonPause",
    "WaitingSample",
]
