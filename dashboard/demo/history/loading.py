"""Stores the simulated past in the database, once."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Model

from dashboard.demo.history import counted, depths, rehearsals, reports
from dashboard.demo.history.plan import History
from dashboard.models import Budget, EntityHealth, FailoverEvent, Pair

AT_ONCE = 2_000
BUDGET_CENTS = 12_000_00


@transaction.atomic
def load(past: History) -> int:
    """Store the past of the pairs that exist. Returns the number of rows; 0 if it was stored before."""
    if FailoverEvent.objects.filter(process=reports.WORKER).exists():
        return 0
    pairs = {pair.name: pair for pair in Pair.objects.all()}
    entities = {(one.pair.name, one.path): one for one in EntityHealth.objects.select_related("pair")}
    _settle(past, list(entities.values()))
    Budget.objects.get_or_create(
        pair="*", defaults={"cents": BUDGET_CENTS, "set_by": reports.person("carla"), "set_at": past.begin}
    )
    return sum(
        map(
            _store,
            (
                reports.events(past),
                reports.alerts(past),
                reports.audit_entries(past),
                *_by_model(reports.ledgers(past, pairs)),
                depths.pair_depths(past, pairs),
                depths.waiting_samples(past, entities),
                depths.peaks(past, pairs),
                counted.metered_usage(past),
                counted.ping_tallies(past, entities),
                rehearsals.drills(past, pairs),
                rehearsals.readiness_changes(past, pairs),
            ),
        )
    )


def _store(rows: Iterable[Model]) -> int:
    count, left = 0, iter(rows)
    while part := list(islice(left, AT_ONCE)):
        type(part[0])._default_manager.bulk_create(part)
        count += len(part)
    return count


def _by_model(rows: Iterable[Model]) -> Sequence[Sequence[Model]]:
    found: dict[type[Any], list[Model]] = {}
    for row in rows:
        found.setdefault(type(row), []).append(row)
    return list(found.values())


def _settle(past: History, entities: Sequence[EntityHealth]) -> None:
    """Entities are healthy since their last incident, until a process reports something else."""
    last = {(one.entity.pair, one.entity.path): one.recovered_at for one in past.outages}
    for entity in entities:
        entity.state, entity.process = EntityHealth.State.HEALTHY, reports.WORKER
        entity.since = last.get((entity.pair.name, entity.path), past.begin)
    EntityHealth.objects.bulk_update(entities, ("state", "process", "since"))
