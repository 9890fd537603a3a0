"""Prometheus counters computed from rows, which do not fall when rows are pruned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Count, F, Model, Sum, Value

from dashboard.models import EntityHealth, FailoverEvent, PrunedCount, SyphonLedger


@dataclass(frozen=True, slots=True)
class RowCounter:
    """The sum of `column` over the rows of a model, or their number, by pair and `label` (column names)."""

    name: str
    model: type[Model]
    pair: str
    label: str | None = None
    column: str | None = None

    def totals(self) -> Iterator[tuple[str, str, int]]:
        """Pair, label and count, of current and pruned rows."""
        found = Counter[tuple[str, str]]()
        summed = Sum(self.column, default=0) if self.column else Count("pk")
        by = F(self.label) if self.label else Value("")
        rows = self.model._default_manager.order_by().values(of=F(self.pair), by=by).annotate(sum=summed)
        gone = PrunedCount.objects.order_by().filter(counter=self.name).values_list("pair", "label", "count")
        # One statement: a pruning between two statements would count rows twice, and the counter would fall afterwards.
        for pair, label, count in rows.values_list("of", "by", "sum").union(gone, all=True):
            found[pair, label] += int(count)
        return ((pair, label, count) for (pair, label), count in sorted(found.items()))

    def keep(self, keys: Iterable[int]) -> None:
        """Store the counts of these rows in the transaction that deletes them; concurrent prunings wait."""
        found = Counter[tuple[str, str]]()
        columns = [self.pair, *filter(None, (self.label, self.column))]
        rows = self.model._default_manager.filter(pk__in=keys).select_for_update(of=("self",))
        for pair, *rest in rows.values_list(*columns):
            found[pair, rest[0] if self.label else ""] += rest[-1] if self.column else 1
        for (pair, label), count in found.items():
            PrunedCount.objects.get_or_create(counter=self.name, pair=pair, label=label)
            PrunedCount.objects.filter(counter=self.name, pair=pair, label=label).update(count=F("count") + count)


EVENTS = RowCounter("failover_events_total", FailoverEvent, "pair", label="kind")
HOME = RowCounter("syphon_settled_messages_total", SyphonLedger, "pair__name", label="queue", column="home")
PINGS = RowCounter("pings_total", EntityHealth, "pair__name", column="pings_ever")
ALL = (EVENTS, HOME, PINGS)
