"""Primaries that are down: several entities of a pair fail for one cause of the primary, and nobody sends to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max

from dashboard.fleet.state.event_lines import plain_cause
from dashboard.models import EntityHealth, MeteredRecord, Pair

LEAST, MINUTE = 2, timedelta(minutes=1)
OF_A_PRIMARY = "the primary "
"""How a cause begins that is of a whole namespace; the others are of one entity."""


@dataclass(frozen=True, slots=True)
class PrimaryDown:
    """A primary of which so many entities are `proven` to fail, of all; to the other ones nobody has sent `since`."""

    pair: str
    cause: str
    since: datetime
    proven: int
    entities: int

    @property
    def sentence(self) -> str:
        return f"The primary of {self.pair} is down: {self.evidence}"

    @property
    def evidence(self) -> str:
        quiet = self.entities - self.proven
        others = f", {quiet:,} {'has' if quiet == 1 else 'have'} no traffic" if quiet else ""
        return f"{self.proven:,} of {self.entities:,} entities proven{others}"

    @property
    def advice(self) -> str:
        """What matters to somebody who is woken by it."""
        return (
            f"{self.cause.capitalize()}. Nothing is lost: applications go on, and their messages wait in the backlog. "
            f"Since {self.since:%H:%M} UTC nobody has sent to the other entities, and nothing is probed. Look at the "
            "namespace in Azure; each entity comes back when the primary accepts a ping."
        )


def primaries_down(pairs: Collection[Pair] | None = None) -> Mapping[int, PrimaryDown]:
    """Those of these pairs, or of all, by key; in three queries, one while nothing is failed over."""
    if pairs is not None and not pairs:
        return {}
    away = EntityHealth.objects.present().filter(state="failed_over", origin="organic")
    away = away.filter(pair__in=pairs) if pairs is not None else away
    rows = away.order_by().values_list("pair", "pair__name", "path", "reason", "since")
    failed: dict[tuple[int, str, str], dict[str, datetime]] = defaultdict(dict)
    for key, name, path, reason, since in rows:
        if since and (cause := plain_cause(reason)).startswith(OF_A_PRIMARY):
            failed[key, name, cause][path] = since
    several = {which: paths for which, paths in failed.items() if len(paths) >= LEAST}
    if not several:
        return {}
    known = EntityHealth.objects.present().filter(pair__in={key for key, _, _ in several}).order_by()
    counts = dict(known.values_list("pair").annotate(Count("pk")))
    last = _last_sends({name for _, name, _ in several}, min(min(paths.values()) for paths in several.values()))
    return {
        key: PrimaryDown(name, cause, min(paths.values()), len(paths), counts[key])
        for (key, name, cause), paths in several.items()
        if not any(at >= max(paths.values()) for of, at in last if of == name)
    }


def _last_sends(pairs: Iterable[str], since: datetime) -> list[tuple[str, datetime]]:
    """By pair, the last minute in which a primary accepted messages."""
    sends = MeteredRecord.objects.filter(pair__in=pairs, kind="send", messages__gt=0, minute__gte=since).order_by()
    return list(sends.values_list("pair").annotate(last=Max("minute")))
