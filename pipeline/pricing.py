"""From the sums of a month in their places to its invoices and the charges of its days."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter

from pipeline.invoice import Connections, Line, Terms, invoice, unit_prices
from pipeline.placing import Placed, Total
from pipeline.price_tiers import UnitPrices
from pipeline.results import Day, Priced
from pipeline.schemas import RULES
from pipeline.tariffs import PREMIUM

Totals = dict[str, list[tuple[tuple[str, ...], Total]]]


def price(
    terms_of: Callable[[str], Terms], placed: Placed, connections: Mapping[str, list[Connections]]
) -> Iterator[Priced]:
    """The invoice of each billing scope under each counting rule, whose terms are `terms_of` it."""
    usage: Totals = defaultdict(list)
    days: Totals = defaultdict(list)
    for key, line in placed.lines.items():
        usage[key[0]].append((_line_key(key), line))
    for key, day in placed.days.items():
        days[key[0]].append((key[1:], day))
    for of_scope in (*usage.values(), *days.values()):
        of_scope.sort(key=itemgetter(0))
    for rule in RULES:
        terms = terms_of(rule)
        paid = {terms.tariffs.namespaces[name].scope for name in terms.tariffs.of(PREMIUM)}
        for scope in sorted({*usage, *connections, *paid}):
            used = [_line(key, line, rule) for key, line in usage[scope]]
            made = invoice(terms, scope, used, connections.get(scope, ()))
            prices = unit_prices(terms, made.tiers)
            yield Priced(invoice=made, days=tuple(_day(prices, key, day, rule) for key, day in days[scope]))


def _line_key(key: tuple[str, ...]) -> tuple[str, ...]:
    _, pair, namespace, entity, kind = key
    return namespace, entity, kind, pair


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for reference cycles meanwhile: there are none among the rows of a report, and hundreds of thousands of
    them are looked through again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _line(key: tuple[str, ...], total: Total, rule: str) -> Line:
    namespace, entity, kind, pair = key
    operations, messages, size = total.counted
    tiers = tuple(total.places[rule])
    return Line(
        namespace=namespace,
        entity=entity,
        kind=kind,
        pair=pair,
        operations=operations,
        messages=messages,
        bytes=size,
        units=sum(tiers),
        tiers=tiers,
    )


def _day(prices: UnitPrices, key: tuple[str, ...], total: Total, rule: str) -> Day:
    """What one kind cost on one day, shared as the allocation says."""
    tiers, (date, kind) = total.places[rule], key
    return Day(date=date, kind=kind, operations=total.counted[0], units=sum(tiers), exact=prices.price_of(tiers))
