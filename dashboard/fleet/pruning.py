"""What is forgotten, and when: what is measured and told grows for ever otherwise (docs/operations.md).

What is not named here is kept: the audit trail, charges and their sources, discarded messages, and what does not grow.
"""

from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model, Q

from dashboard.fleet import counters
from dashboard.fleet.peaks import FINE_S
from dashboard.models import (
    Alert,
    BacklogQueue,
    DeadLetterJob,
    DepthPeak,
    DepthSample,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
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
    ReadinessChange: ("at", timedelta(days=30)),
    Notice: ("ended_at", timedelta(days=90)),
    Alert: ("resolved_at", timedelta(days=400)),
    BacklogQueue: ("seen_at", timedelta(days=35)),
    EntityHealth: ("gone_at", timedelta(days=400)),  # as long as there are events of it
    QueueDeletion: ("ended_at", timedelta(days=400)),
    QueueDrain: ("ended_at", timedelta(days=400)),
    DeadLetterJob: ("ended_at", timedelta(days=400)),
    Session: ("expire_date", timedelta()),
}
ONLY: dict[type[Model], Q] = {
    BacklogQueue: Q(is_gone=True),
    EntityHealth: Q(rank=AT_REST),
    DeadLetterJob: Q(discarded__isnull=True),  # the record of what was discarded stays, and names its job
}
SOONER: dict[type[Model], tuple[timedelta, Q]] = {
    # Most of what is measured. An incident's page is drawn from the rest for as long as there are events of it: from
    # the peaks of hours, and from the samples that say that nothing was left.
    WaitingSample: (timedelta(days=8), Q(waiting__gt=0)),
    DepthPeak: (timedelta(days=35), Q(step_s=FINE_S)),
}


def prune(now: datetime) -> dict[str, int]:
    """Delete what is older than KEPT, in batches that hold up nobody; returns how many rows went, by model."""
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
