"""Storing of findings of pairs and entities, and of their changes; cheap if nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from dashboard.models import EntityHealth, PairReadiness, Readiness, ReadinessChange
from dashboard.models.readiness import WHOLE_PAIR
from dashboard.readiness.checks import checks_of_entity, checks_of_pair
from dashboard.readiness.facts import PairFacts
from dashboard.readiness.gathering import entity_facts
from dashboard.readiness.score import FLAWLESS, Check, faults_of, results_of, score
from dashboard.site.database import BATCH, upsert

CHANGING = ("reasons", "own", "score", "previous_score", "fell_at")


def keep(row: PairReadiness, facts: PairFacts) -> bool:
    """Check the pair and all its entities, and store changes. Returns whether there were any."""
    pair, now = row.pair, facts.at
    shared = checks_of_pair(facts)
    with transaction.atomic():
        changed = _keep_pair(row, shared, now)
        known = {one.entity: one for one in Readiness.objects.filter(pair=pair)}
        entities = EntityHealth.objects.present().filter(pair=pair).only("path", "state")
        probes = {path: one.probe for path, one in known.items()}
        reported = entity_facts(pair, entities, probes)
        judged = [judge(one.path, shared, checks_of_entity(one, now)) for one in reported]
        changed |= _keep_entities(row, known, judged, now)
        gone = known.keys() - {one.entity for one in judged}
        if gone:
            Readiness.objects.filter(pair=pair, entity__in=list(gone)[:BATCH]).delete()
        Readiness.objects.filter(pair=pair).update(checked_at=now)
    return changed or bool(gone)


def judge(entity: str, shared: Sequence[Check], own: Sequence[Check]) -> Readiness:
    """An unsaved row: one entity's score, from its own checks and those of its pair. Pure."""
    every = [*shared, *own]
    reasons = [check.as_json() for check in faults_of(every)]
    results = {name: result.value for name, result in results_of(own).items()}
    return Readiness(entity=entity, score=score(results_of(every)), reasons=reasons, own=results)


def _keep_pair(row: PairReadiness, shared: Sequence[Check], now: datetime) -> bool:
    results = {name: result.value for name, result in results_of(shared).items()}
    before = {reported["name"]: reported["result"] for reported in row.checks}
    reported = [check.as_json() for check in shared]
    is_new = bool(reported != row.checks)
    points = score(results_of(shared) | FLAWLESS)
    PairReadiness.objects.filter(pk=row.pk).update(checks=reported, score=points, checked_at=now)
    if results != before:
        ReadinessChange.objects.create(pair=row.pair, at=now, results=results, entity=WHOLE_PAIR)
    return is_new


def _keep_entities(row: PairReadiness, known: dict[str, Readiness], judged: Sequence[Readiness], now: datetime) -> bool:
    fresh = [one for one in judged if one.entity not in known]
    other = [(known[one.entity], one) for one in judged if one.entity in known]
    altered = [(was, one) for was, one in other if (was.score, was.reasons) != (one.score, one.reasons)]
    for one in fresh:
        one.pair, one.checked_at = row.pair, now
    Readiness.objects.bulk_create(fresh, batch_size=BATCH, ignore_conflicts=True)
    turned = [one for was, one in altered if was.own != one.own]
    upsert([_change(was, one, now) for was, one in altered], ("pk",), CHANGING)
    ReadinessChange.objects.bulk_create(
        [ReadinessChange(pair=row.pair, entity=one.entity, at=now, results=one.own) for one in (*fresh, *turned)],
        batch_size=BATCH,
    )
    return bool(fresh or altered)


def _change(was: Readiness, one: Readiness, now: datetime) -> Readiness:
    if one.score != was.score and not _is_down(was, one):
        was.previous_score, was.fell_at = was.score, None
    if one.score < was.score:
        was.fell_at = now
    was.reasons, was.own, was.score = one.reasons, one.own, one.score
    return was


def _is_down(was: Readiness, one: Readiness) -> bool:
    """Whether it has fallen and has not yet reached its previous value."""
    return was.fell_at is not None and was.previous_score is not None and one.score < was.previous_score
