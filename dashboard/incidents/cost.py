"""What an incident has cost so far, and will have cost when its backlog is home. Plain arithmetic, exact.

An estimate from what is known at once: how many messages waited and came home, and how long it has lasted. The month's
report tells the same from what was metered, once it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dashboard.costs.forecast import GIGABYTE, POLLS_PER_HOUR, STEP_BYTES
from dashboard.costs.price_tiers import Tier, charge, rate
from dashboard.costs.tariffs import Tariff


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an incident. `diverted`: messages that went to the backlog; `home`: those that are back.

    `used`: billable operations of the month before; `used_secondary`: those of the secondary's subscription, where it
    is another one; `per_gigabyte`: the price of a GB that crosses regions, 0 where none does.
    """

    diverted: int
    home: int
    message_bytes: int
    down_s: float
    lasted_s: float
    ping_interval_s: int
    queues: int
    used: int = 0
    used_secondary: int | None = None
    per_gigabyte: Fraction = Fraction(0)

    @property
    def units(self) -> int:
        """Operations of one transfer of one message."""
        return max(1, -(-self.message_bytes // STEP_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Operations made only because of it, and what the month costs more for them; exact, in the list's currency.

    A message's way home stands for the send to the primary that it would have taken anyway: it is not extra.
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


def cost(
    facts: Facts,
    ladder: Sequence[Tier],
    *,
    settlements: bool,
    drained: bool,
    secondary: Sequence[Tier] | None = None,
) -> Cost:
    """What it has cost so far, or (`drained`) in the end, if it recovers now and all that waits comes home.

    `secondary`: the ladder of the secondary, where it is of another tier.
    """
    home = facts.diverted if drained else facts.home
    stages = {
        "send_backlog": facts.diverted * facts.units,
        "syphon_receive": home * facts.units,
        "syphon_settle": home if settlements else 0,
        "pings": ceil(facts.down_s / facts.ping_interval_s),
        "polls": ceil(facts.lasted_s / 3600 * POLLS_PER_HOUR) * facts.queues,
    }
    bills = _bills(facts, stages, ladder, ladder if secondary is None else secondary)
    last, used_last, more_last = bills[-1]
    crossed = (facts.diverted + home) * facts.message_bytes
    return Cost(
        **stages,
        operations=sum((charge(steps, used + more) - charge(steps, used) for steps, used, more in bills), Fraction(0)),
        egress=Fraction(crossed, GIGABYTE) * facts.per_gigabyte,
        rate=rate(last, used_last + more_last),
    )


def _bills(
    facts: Facts, stages: Mapping[str, int], here: Sequence[Tier], there: Sequence[Tier]
) -> list[tuple[Sequence[Tier], int, int]]:
    """Of each bill its ladder, what it has used, and what is made on it: in the primary the pings only."""
    more = sum(stages.values())
    if facts.used_secondary is None and here == there:
        return [(here, facts.used, more)]
    used = facts.used if facts.used_secondary is None else facts.used_secondary
    return [(here, facts.used, stages["pings"]), (there, used, more - stages["pings"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The two costs under both counting rules, and what they rest on, `used` by its own rule."""

    by_rule: tuple[Facts, Facts]
    tariff: Tariff
    currency: str
    is_sample: bool
    is_size_known: bool

    def _both(self, drained: bool) -> tuple[Cost, Cost]:
        here, there = self.tariff.primary, self.tariff.secondary
        published, settlements = (
            cost(facts, here, settlements=settles, drained=drained, secondary=there)
            for facts, settles in zip(self.by_rule, (False, True), strict=True)
        )
        return published, settlements

    @property
    def facts(self) -> Facts:
        """Those under `settlements`, the higher figure."""
        return self.by_rule[1]

    @property
    def so_far(self) -> tuple[Cost, Cost]:
        """Under `published`, under `settlements`."""
        return self._both(drained=False)

    @property
    def drained(self) -> tuple[Cost, Cost]:
        """The same, once every message is home."""
        return self._both(drained=True)
