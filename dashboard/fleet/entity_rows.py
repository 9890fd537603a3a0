"""The rows of entities: which exist, of which kind, and which are missing from the primary."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db.models import Q

from dashboard.models import EntityHealth, Pair
from dashboard.models.entity import AT_REST, DRILLS_CANARY
from dashboard.site.fitting import fitted


def entity_rows(pair: str, paths: Iterable[str]) -> dict[str, EntityHealth]:
    """The rows of entities by path, created if missing. Raises Pair.DoesNotExist."""
    row, wanted = Pair.objects.get(name=pair), {path: fitted(path, 260) for path in paths}
    found = {entity.path: entity for entity in row.entities.filter(path__in=wanted.values())}
    if missing := sorted(set(wanted.values()) - found.keys()):
        fresh = [
            EntityHealth(pair=row, path=path, kind="queue", is_canary=path.lower() == DRILLS_CANARY) for path in missing
        ]
        EntityHealth.objects.bulk_create(fresh, ignore_conflicts=True)
        found |= {entity.path: entity for entity in row.entities.filter(path__in=missing)}
    return {path: found[fits] for path, fits in wanted.items()}


def record_entities(pair: str, kinds: Mapping[str, str]) -> None:
    """Store the existing queues and topics by path. Raises Pair.DoesNotExist for a pair that is not configured."""
    row, reported = Pair.objects.get(name=pair), {fitted(path, 260): kind for path, kind in kinds.items()}
    known = dict(row.entities.values_list("path", "kind"))
    fresh = [
        EntityHealth(pair=row, path=path, kind=kind, is_canary=path.lower() == DRILLS_CANARY)
        for path, kind in reported.items()
        if path not in known
    ]
    EntityHealth.objects.bulk_create(fresh, ignore_conflicts=True)
    for kind in set(reported.values()):  # rows created from reports of processes lack the kind
        if wrong := [path for path in known.keys() & reported.keys() if known[path] != reported[path] == kind]:
            row.entities.filter(path__in=wrong).update(kind=kind)


def record_listed(pair: str, listed: Collection[str], at: datetime) -> None:
    """Store which entities are missing from the primary's list, and which are listed again.

    An empty list is ignored. Names are compared case-insensitively, as by the broker. An entity that is failed over,
    or that has messages in the backlog, is not marked as deleted.
    """
    named = {fitted(path, 260).casefold() for path in listed}
    if not named:
        return
    rows = EntityHealth.objects.filter(Q(rank=AT_REST) | Q(gone_at__isnull=False), pair__name=pair)
    changed = [
        row for row in rows.only("path", "gone_at") if (row.gone_at is None) == (row.path.casefold() not in named)
    ]
    for row in changed:
        row.gone_at = at if row.gone_at is None else None
    EntityHealth.objects.bulk_update(changed, ["gone_at"], batch_size=500)
