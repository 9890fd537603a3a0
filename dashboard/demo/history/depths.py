"""The depth of the simulated backlogs as rows of the models, as workers sample it and roll it up."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from dashboard.demo.history.plan import History, Outage
from dashboard.fleet.peaks import COARSE_S, FINE_S, Step, begin_of, steps
from dashboard.fleet.pruning import KEPT, SOONER
from dashboard.models import DepthPeak, EntityHealth, Pair, PairDepth, WaitingSample
from dashboard.models.depth_peak import WHOLE_BACKLOG
from dashboard.site.charts import Point

SAMPLED, AT_REST = timedelta(seconds=60), timedelta(minutes=30)


def of_pair(past: History, pair: str) -> list[Point]:
    """Messages in the backlog of a pair: each minute of an incident, else each half hour."""
    outages = [one for one in past.outages if one.entity.pair == pair]
    times = {past.begin + AT_REST * n for n in range((past.end - past.begin) // AT_REST)}
    for outage in outages:
        times |= {at for at, _ in of_entity(outage)}
    busy = sorted(outages, key=lambda one: one.failed_over_at)
    return [(at, sum(one.waiting(at) for one in busy)) for at in sorted(times)]


def of_entity(outage: Outage) -> list[Point]:
    """Messages waiting for the entity, each minute from the failover to the first empty sample."""
    count = (outage.drained_at - outage.failed_over_at) // SAMPLED
    times = [outage.failed_over_at + SAMPLED * n for n in range(count + 1)]
    return [(at, outage.waiting(at)) for at in (*times, outage.drained_at)]


def pair_depths(past: History, pairs: Mapping[str, Pair]) -> Iterator[PairDepth]:
    """The samples that are not pruned yet."""
    since = past.end - KEPT[PairDepth][1]
    for name, pair in pairs.items():
        for at, messages in of_pair(past, name):
            if at >= since:
                yield PairDepth(pair=pair, at=at, messages=messages)


def waiting_samples(past: History, entities: Mapping[tuple[str, str], EntityHealth]) -> Iterator[WaitingSample]:
    """The samples of entities; of older incidents only the empty ones are left.

    As workers store them: an empty one only after one with messages, so that none says at the failover that nothing
    waits.
    """
    since = past.end - SOONER[WaitingSample][0]
    for outage in past.outages:
        entity = entities[outage.entity.pair, outage.entity.path]
        for at, waiting in dict(of_entity(outage)).items():
            if (waiting and at >= since) or at == outage.drained_at:
                yield WaitingSample(entity=entity, at=at, waiting=waiting)


def peaks(past: History, pairs: Mapping[str, Pair]) -> Iterator[DepthPeak]:
    """The peaks of pairs and entities, in coarse steps, and in fine ones as long as these are kept."""
    fine_since = past.end - SOONER[DepthPeak][0]
    for name, pair in pairs.items():
        whole = of_pair(past, name)
        yield from _of(pair, WHOLE_BACKLOG, whole, past.begin, COARSE_S)
        yield from _of(pair, WHOLE_BACKLOG, whole, fine_since, FINE_S)
    for outage in past.outages:
        pair, path, points = pairs[outage.entity.pair], outage.entity.path, of_entity(outage)
        yield from _of(pair, path, points, past.begin, COARSE_S)
        yield from _of(pair, path, points, fine_since, FINE_S)


def _of(pair: Pair, path: str, points: list[Point], since: datetime, step_s: int) -> Iterator[DepthPeak]:
    found: list[Step] = steps([point for point in points if begin_of(point[0], step_s) >= since], step_s)
    for step in found:
        yield DepthPeak(pair=pair, path=path, step_s=step_s, at=step.at, peak=step.peak, last=step.last)
