"""Retention of measurements and reports, which would otherwise grow without limit (docs/production.md).

Models not listed here are kept: the audit trail, charges and their sources, discarded messages, and bounded tables.
"""

from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model, Q

from dashboard.fleet.depth.peaks import FINE_S
from dashboard.fleet.state import counters
from dashboard.fleet.usage.metered import OF_A_FAILOVER
from dashboard.models import (
    Alert,
    BacklogQueue,
    DeadLetterJob,
    DepthPeak,
    DepthSample,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    MeteredRecord,
    MeteredUsage,
    Notice,
    PairDepth,
    QueueDeletion,
    QueueDrain,
    ReadinessChange,
    SyphonLedger,
    SyphonRun,
    WaitingSample,
)
from dashboard.models.entity import AT_REST

BATCH = 5000
KEPT: dict[type[Model], tuple[str, timedelta]] = {
    DepthSample: ("at", timedelta(days=8)),  # the pages of entities look back seven days
    WaitingSample: ("at", timedelta(days=400)),
    PairDepth: ("at", timedelta(days=35)),
    DepthPeak: ("at", timedelta(days=400)),
    FailoverEvent: ("time", timedelta(days=400)),
    SyphonLedger: ("began_at", timedelta(days=400)),
    SyphonRun: ("ended_at", timedelta(days=400)),
    Heartbeat: ("seen_at", timedelta(days=1)),
    MeteredRecord: ("minute", timedelta(days=1)),  # they are rolled up long before
    MeteredUsage: ("begins_at", timedelta(days=400)),
    ReadinessChange: ("at", timedelta(days=30)),
    Notice: ("ended_at", timedelta(days=90)),
    Alert: ("resolved_at", timedelta(days=400)),
    BacklogQueue: ("seen_at", timedelta(days=35)),
    EntityHealth: ("gone_at", timedelta(days=400)),  # as long as its events
    QueueDeletion: ("ended_at", timedelta(days=400)),
    QueueDrain: ("ended_at", timedelta(days=400)),
    DeadLetterJob: ("ended_at", timedelta(days=400)),
    Session: ("expire_date", timedelta()),
}
ONLY: dict[type[Model], Q] = {
    BacklogQueue: Q(is_gone=True),
    EntityHealth: Q(rank=AT_REST),
    DeadLetterJob: Q(discarded__isnull=True),  # records of discarded messages are kept and refer to their job
}
SOONER: dict[type[Model], tuple[timedelta, Q]] = {
    # Most measurements. The page of an incident uses the rest as long as its events exist: hourly peaks, and samples
    # with an empty backlog.
    WaitingSample: (timedelta(days=8), Q(waiting__gt=0)),
    DepthPeak: (timedelta(days=35), Q(step_s=FINE_S)),
    MeteredUsage: (timedelta(days=35), ~Q(kind__in=OF_A_FAILOVER)),
}


def prune(now: datetime) -> dict[str, int]:
    """Delete rows older than KEPT, in small batches. Returns the number of deleted rows by model."""
    gone = {model: _prune(model, field, now - kept, ONLY.get(model, Q())) for model, (field, kept) in KEPT.items()}
    for model, (kept, which) in SOONER.items():
        gone[model] += _prune(model, KEPT[model][0], now - kept, which)
    return {model.__name__: count for model, count in gone.items()}


def _prune(model: type[Model], field: str, before: datetime, which: Q) -> int:
    gone = 0
    counted = [counter for counter in counters.ALL if counter.model is model]
    old = model._default_manager.filter(which, **{f"{field}__lt": before}).order_by("pk")
    while keys := list(old.values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            for counter in counted:
                counter.keep(keys)
            gone += model._default_manager.filter(pk__in=keys).delete()[0]
    return gone
