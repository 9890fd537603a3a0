"""Readiness for the sample control plane, by the real checks: a sender without backlog queues, noticed today."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from dashboard.models import Pair, PairReadiness, Readiness, ReadinessChange
from dashboard.readiness.checks import checks_of_entity, checks_of_pair
from dashboard.readiness.facts import Answer, EntityFacts, PairFacts, Probe, QueueFacts
from dashboard.readiness.score import Check, results_of
from dashboard.readiness.storing import judge

FELL, CHECKED = timedelta(minutes=35), timedelta(seconds=90)
"""Before now."""


def add_readiness(now: datetime) -> None:
    """The last check of two entities, and how it came to that."""
    pair, began, fell, checked = Pair.objects.get(name="contoso"), now - timedelta(days=21), now - FELL, now - CHECKED
    good, bad = (_shared(at, rotation) for at, rotation in ((began, 12), (fell, 0)))
    points, shown = judge("*", bad, _own("*", None, fell)).score, [check.as_json() for check in bad]
    due = now + timedelta(days=1)
    PairReadiness.objects.create(pair=pair, score=points, checks=shown, checked_at=checked, due_at=due)
    for at, shared in ((began, good), (fell, bad)):
        ReadinessChange.objects.create(pair=pair, at=at, results=_results(shared))
    for path, message_bytes in (("orders", None), ("payments", 900)):
        own = _own(path, message_bytes, fell)
        before, after = judge(path, good, own), judge(path, bad, own)
        ReadinessChange.objects.create(pair=pair, entity=path, at=began, results=after.own)
        scores = {"score": after.score, "previous_score": before.score, "fell_at": fell}
        known = {"reasons": after.reasons, "own": after.own, "checked_at": checked}
        Readiness.objects.create(pair=pair, entity=path, **scores, **known)


def _shared(at: datetime, rotation: int) -> list[Check]:
    """The checks of the pair; the second sender has so many queues in its rotation."""
    allowed = Probe(Answer.ALLOWED, at)
    limits = {"limit": 5 * 2**30, "send": allowed, "listen": allowed}
    queues = tuple(
        QueueFacts(f"contoso/x-servicebus-transfer/{n}", True, holder="host:1:aaaa", **limits)  # type: ignore[arg-type]
        for n in range(12)
    )
    clocks = {"host-3:4711:0a1b2c3d": 0.02, "host-4:815:5e6f7a8b": -0.01}
    senders = dict(zip(clocks, (12, rotation), strict=True))
    known = {"senders": senders, "clocks": clocks, "bytes_per_s": 900.0, "gateways": {}}
    facts = PairFacts(at, queues=queues, administration=allowed, workers=2, **known)  # type: ignore[arg-type]
    return list(checks_of_pair(facts))


def _own(path: str, message_bytes: int | None, at: datetime) -> list[Check]:
    return list(checks_of_entity(EntityFacts(path, home=Probe(Answer.ALLOWED, at), message_bytes=message_bytes), at))


def _results(checks: list[Check]) -> Mapping[str, str]:
    return {name: result.value for name, result in results_of(checks).items()}
