"""The rows of entities: which exist, of which kind, which PAIRS_FILE names, and which are missing from the primary.

Each function takes as many statements for 10,000 entities as for a few, apart from the rows it inserts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from django.db.models import Q, QuerySet

from dashboard.models import EntityHealth, Pair
from dashboard.models.entity import AT_REST, DRILLS_CANARY
from dashboard.site.fitting import fitted

AT_ONCE = 5_000
"""Rows in one statement; SQLite allows 32,766 parameters."""


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


def record_configured(pair: Pair, kinds: Mapping[str, str], *, watches_all: bool, at: datetime) -> None:
    """Store which entities PAIRS_FILE names, by path, with their kinds; with `watches_all`, all others count as named.

    What is as the file says is not written. A named entity is not gone. One that is named no longer is, unless it is
    failed over or has messages in the backlog.
    """
    known = {row[1]: row for row in pair.entities.values_list("pk", "path", "kind", "is_configured", "gone_at")}
    EntityHealth.objects.bulk_create(
        [
            EntityHealth(pair=pair, path=path, kind=kind, is_configured=True)
            for path, kind in kinds.items()
            if path not in known
        ],
        update_conflicts=True,  # a sender's report may have created it since
        unique_fields=("pair", "path"),
        update_fields=("kind", "is_configured", "gone_at"),
    )
    for kind in sorted(set(kinds.values())):
        as_named = (kind, True, None)
        wrong = [pk for pk, path, *now in known.values() if kinds.get(path) == kind and tuple(now) != as_named]
        for some in _some_of(pair, wrong):
            some.update(kind=kind, is_configured=True, gone_at=None)
    others = [pk for pk, path, _, is_named, _ in known.values() if path not in kinds and is_named != watches_all]
    for some in _some_of(pair, others):
        if not watches_all:
            some.filter(rank=AT_REST).update(gone_at=at)
        some.update(is_configured=watches_all)


def _some_of(pair: Pair, keys: Sequence[int]) -> Iterator[QuerySet[EntityHealth]]:
    for start in range(0, len(keys), AT_ONCE):
        yield pair.entities.filter(pk__in=keys[start : start + AT_ONCE])
