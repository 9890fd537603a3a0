"""What is forgotten: samples and events grow for ever otherwise. The audit trail is kept."""

from datetime import datetime, timedelta

from django.db.models import Model

from dashboard.models import DepthSample, FailoverEvent, Heartbeat, PairDepth, SyphonLedger, WaitingSample

BATCH = 5000
KEPT: dict[type[Model], tuple[str, timedelta]] = {
    DepthSample: ("at", timedelta(days=8)),  # the pages of entities look back seven days
    WaitingSample: ("at", timedelta(days=8)),
    PairDepth: ("at", timedelta(days=35)),
    FailoverEvent: ("time", timedelta(days=400)),
    SyphonLedger: ("began_at", timedelta(days=400)),
    Heartbeat: ("seen_at", timedelta(days=1)),
}


def prune(now: datetime) -> dict[str, int]:
    """Delete what is older than KEPT, in batches that hold up nobody; returns how many rows went, by model."""
    return {model.__name__: _prune(model, field, now - kept) for model, (field, kept) in KEPT.items()}


def _prune(model: type[Model], field: str, before: datetime) -> int:
    gone = 0
    old = model._default_manager.filter(**{f"{field}__lt": before}).order_by("pk")
    while keys := list(old.values_list("pk", flat=True)[:BATCH]):
        gone += model._default_manager.filter(pk__in=keys).delete()[0]
    return gone
