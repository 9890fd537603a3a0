"""Synchronisation of the database with PAIRS_FILE."""

from collections.abc import Iterator, Mapping

from django.db import transaction
from django.utils import timezone

from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.state.entity_rows import record_configured
from dashboard.models import BacklogQueue, Pair


def sync(pairs: Mapping[str, PairConfig]) -> Iterator[str]:
    """Store pairs and entities; pairs that may still hold messages are kept. Yields one line per pair."""
    with transaction.atomic():
        for config in pairs.values():
            yield _sync_pair(config)
        gone = Pair.objects.exclude(name__in=pairs).filter(is_configured=True)
        for pair in gone:
            yield f"{pair.name}: no longer in the file; kept, and its backlog queues count as orphans"
        BacklogQueue.objects.filter(pair__in=list(gone)).update(is_orphan=True)
        gone.update(is_configured=False)


def _sync_pair(config: PairConfig) -> str:
    primary, secondary = config.primary, config.secondary
    pair, created = Pair.objects.update_or_create(
        name=config.name,
        defaults={
            "primary_namespace": primary.namespace,
            "secondary_namespace": secondary.namespace,
            "primary_region": primary.region or "",
            "secondary_region": secondary.region or "",
            "primary_tier": primary.tier,
            "secondary_tier": secondary.tier,
            "backlog_queue_count": config.backlog_queue_count,
            "failover_interval_s": config.failover_interval.total_seconds(),
            "ping_primary_interval_s": config.ping_primary_interval.total_seconds(),
            "is_emulated": all(end.emulator for end in config.endpoints()),
            "is_configured": True,
            "synced_at": timezone.now(),
        },
    )
    kinds = {entity.path: entity.kind for entity in config.entities}
    record_configured(pair, kinds, watches_all=config.watches_all, at=timezone.now())
    if config.drill and config.drill.entity:
        reserved = pair.entities.filter(path__iexact=config.drill.entity)
        pair.entities.filter(pk__in=[row.pk for row in reserved if row.path not in kinds]).update(is_canary=True)
    watched = "all entities" if config.watches_all else "1 entity" if len(kinds) == 1 else f"{len(kinds)} entities"
    return (
        f"{config.name}: {'new' if created else 'up to date'}, {primary.namespace} → {secondary.namespace}, {watched}"
    )
