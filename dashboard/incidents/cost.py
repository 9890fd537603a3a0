"""The cost of an incident so far, and after its backlog is drained. Exact arithmetic.

An estimate from immediately available facts: waiting and drained messages, and duration. The month's report computes
the cost from metered usage later.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dashboard.costs.current_month import Used
from dashboard.costs.forecast import GIGABYTE, POLLS_PER_HOUR, STEP_BYTES
from dashboard.costs.tariffs import Bills, Tariff


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of an incident. `diverted`: messages sent to the backlog; `home`: those drained.

    `used`: earlier billable operations of the month; `per_gigabyte`: the price per GB between regions, 0 if there is
    none.
    """

    diverted: int
    home: int
    message_bytes: int
    down_s: float
    lasted_s: float
    ping_interval_s: int
    queues: int
    used: Used
    per_gigabyte: Fraction = Fraction(0)

    @property
    def units(self) -> int:
        """Operations per transfer of one message."""
        return max(1, -(-self.message_bytes // STEP_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Additional operations and their exact marginal cost, in the currency of the price list.

    The send of a drained message to the primary replaces its original send, so it is not additional.
    """

    send_backlog: int
    syphon_receive: int
    syphon_settle: int
    pings: int
    polls: int
    operations: Fraction
    egress: Fraction
    rate: Fraction

    @property
    def extra(self) -> int:
        return self.send_backlog + self.syphon_receive + self.syphon_settle + self.pings + self.polls

    @property
    def money(self) -> Fraction:
        return self.operations + self.egress


def cost(facts: Facts, bills: Bills, *, settlements: bool, drained: bool) -> Cost:
    """The cost so far, or (`drained`) in total, if it recovers now and the backlog is drained."""
    home = facts.diverted if drained else facts.home
    stages = {
        "send_backlog": facts.diverted * facts.units,
        "syphon_receive": home * facts.units,
        "syphon_settle": home if settlements else 0,
        "pings": ceil(facts.down_s / facts.ping_interval_s),
        "polls": ceil(facts.lasted_s / 3600 * POLLS_PER_HOUR) * facts.queues,
    }
    crossed = (facts.diverted + home) * facts.message_bytes
    return Cost(
        **stages,
        operations=bills.extra(stages["pings"], sum(stages.values()) - stages["pings"]),
        egress=Fraction(crossed, GIGABYTE) * facts.per_gigabyte,
        rate=bills.rate,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Both costs under both counting rules, and their inputs, with `used` by rule."""

    by_rule: tuple[Facts, Facts]
    tariff: Tariff
    currency: str
    is_sample: bool
    is_size_known: bool
    is_metered: bool
    """Whether the messages were metered. Otherwise they are the highest sampled depth, which may miss some."""

    def _both(self, drained: bool) -> tuple[Cost, Cost]:
        published, settlements = (
            cost(facts, self.tariff.bills(facts.used), settlements=settles, drained=drained)
            for facts, settles in zip(self.by_rule, (False, True), strict=True)
        )
        return published, settlements

    @property
    def facts(self) -> Facts:
        """The costs under `settlements`, the higher figure."""
        return self.by_rule[1]

    @property
    def so_far(self) -> tuple[Cost, Cost]:
        """The costs under `published` and `settlements`."""
        return self._both(drained=False)

    @property
    def drained(self) -> tuple[Cost, Cost]:
        """The same after all messages are drained."""
        return self._both(drained=True)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """The lower and the higher price so far: `settlements` counts more, but may be in a cheaper tier."""
        return _in_order(self.so_far)

    @property
    def due(self) -> tuple[Fraction, Fraction]:
        """The same after all messages are drained."""
        return _in_order(self.drained)


def _in_order(costs: tuple[Cost, Cost]) -> tuple[Fraction, Fraction]:
    one, other = (each.money for each in costs)
    return min(one, other), max(one, other)
