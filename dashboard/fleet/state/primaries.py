"""Primaries that are down: several entities of a pair fail for one cause of the primary, and nobody sends to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Q

from dashboard.fleet.state.event_lines import plain_cause
from dashboard.models import EntityHealth, MeteredRecord, MeteredUsage, Pair

LEAST, MINUTE = 2, timedelta(minutes=1)
OF_A_PRIMARY = ("the primary ", "rejects sends")
"""How a cause begins that may be of a whole namespace; the others are of one entity."""


@dataclass(frozen=True, slots=True)
class PrimaryDown:
    """A primary of which these `paths`, of all `entities`, failed since `since`, and `silent` did not fail.

    `quiet`: since when no send succeeded.
    """

    pair: str
    cause: str
    since: datetime
    quiet: datetime
    paths: Collection[str]
    entities: int
    silent: int

    @property
    def sentence(self) -> str:
        return f"The primary of {self.pair} is down: {self.evidence}"

    @property
    def evidence(self) -> str:
        proven = len(self.paths)
        others = f", {self.silent:,} {'has' if self.silent == 1 else 'have'} no traffic" if self.silent else ""
        return f"{proven:,} of {self.entities:,} entities proven{others}"

    @property
    def advice(self) -> str:
        """What matters to somebody who is woken by it."""
        return (
            f"{self.cause.capitalize()}. Nothing is lost: applications go on, and their messages wait in the backlog. "
            f"Since {self.quiet:%H:%M} UTC the primary has accepted no message; entities without traffic are not "
            "probed. Look at the namespace in Azure; each entity comes back with its first accepted ping."
        )


def primaries_down(now: datetime, pairs: Collection[Pair] | None = None) -> Mapping[int, PrimaryDown]:
    """Those of these pairs, or of all, by key; in four queries, one while nothing is failed over.

    Usage is counted by minute: that nothing was sent is known when a whole minute after the failovers is reported.
    """
    if pairs is not None and not pairs:
        return {}
    away = EntityHealth.objects.present().filter(state="failed_over", origin="organic")
    away = away.filter(pair__in=pairs) if pairs is not None else away
    rows = away.order_by().values_list("pair", "pair__name", "path", "reason", "since")
    failed: dict[tuple[int, str, str], dict[str, datetime]] = defaultdict(dict)
    for key, name, path, reason, since in rows:
        if since and (cause := plain_cause(reason)).startswith(OF_A_PRIMARY):
            failed[key, name, cause][path] = since
    quiet = {which: sorted(at for at in paths.values() if at + 2 * MINUTE <= now) for which, paths in failed.items()}
    several = {which: times[-1] for which, times in quiet.items() if len(times) >= LEAST}
    if not several:
        return {}
    known = EntityHealth.objects.present().filter(pair__in={key for key, _, _ in several}).order_by()
    silent = Count("pk", filter=~Q(state__in=("failed_over", "failing")))
    counts = {key: numbers for key, *numbers in known.values_list("pair").annotate(all=Count("pk"), silent=silent)}
    last = _last_reports({name for _, name, _ in several}, min(several.values()))
    found = {}
    for which, at in several.items():
        (key, name, cause), paths, (reported, sent) = which, failed[which], last.get(which[1], (None, None))
        if reported and reported >= at and not (sent and sent >= at):
            found[key] = PrimaryDown(name, cause, min(paths.values()), at, paths.keys(), *counts[key])
    return found


def _last_reports(pairs: Iterable[str], since: datetime) -> Mapping[str, tuple[datetime, datetime | None]]:
    """By pair, the last minute that was reported, and the last in which a primary accepted messages."""
    accepted = Q(kind="send", messages__gt=0)
    usage = MeteredUsage.objects.filter(pair__in=pairs, begins_at__gte=since).order_by().values_list("pair")
    records = MeteredRecord.objects.filter(pair__in=pairs, minute__gte=since).order_by().values_list("pair")
    earlier = usage.annotate(last=Max("begins_at"), sent=Max("begins_at", filter=accepted))
    latest = records.annotate(last=Max("minute"), sent=Max("minute", filter=accepted))
    found: dict[str, tuple[datetime, datetime | None]] = {}
    for pair, reported, sent in (*earlier, *latest):
        found[pair] = (reported, sent or found.get(pair, (reported, None))[1])
    return found
