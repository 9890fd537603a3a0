"""The cost and the backlog of an assumed outage (docs/pricing.md, section 9). Exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dashboard.costs.forecasts.tariffs import Bills

STEP_BYTES = 65_536
QUEUE_BYTES = 5_120 * 1024 * 1024
GIGABYTE = 10**9
CREDITS_PER_S = 1_000
POLLS_PER_HOUR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The assumptions. `per_gigabyte`: the price of a region crossing."""

    hours: Fraction
    messages_per_hour: Fraction
    message_bytes: int
    entities: int = 1
    pingers: int = 1
    ping_interval_s: int = 60
    queues: int = 10
    syphon_hosts: int = 1
    crossings: int = 1
    per_gigabyte: Fraction = Fraction(0)

    @property
    def messages(self) -> int:
        return ceil(self.hours * self.messages_per_hour)

    @property
    def units(self) -> int:
        """Operations of one transfer of one message."""
        return max(1, -(-self.message_bytes // STEP_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations of the outage by stage, under one counting rule; `without`: those without an outage."""

    send_backlog: int
    syphon_receive: int
    syphon_send: int
    receive: int
    pings: int
    polls: int
    without: int

    @property
    def total(self) -> int:
        stages = self.send_backlog + self.syphon_receive + self.syphon_send + self.receive
        return stages + self.pings + self.polls

    @property
    def extra(self) -> int:
        return self.total - self.without

    @property
    def in_secondary(self) -> int:
        """Operations on the secondary's bill; all others are on the primary's."""
        return self.send_backlog + self.syphon_receive + self.polls


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The result. Money is exact, in the currency of the price list; `drain_s` is a lower bound.

    `rate`: the price of the next operation, in the secondary's subscription if it has its own.
    """

    outage: Outage
    operations: Operations
    charge: Fraction
    extra_charge: Fraction
    rate: Fraction
    bandwidth: Fraction
    gigabytes: Fraction
    queues_needed: int
    drain_s: int

    @property
    def fits(self) -> bool:
        """Whether the backlog fits into the backlog queues if it is spread evenly."""
        return self.queues_needed <= self.outage.queues


def forecast(outage: Outage, bills: Bills, settlements: bool) -> Forecast:
    """The operations, cost, capacity and time of the outage under one counting rule."""
    operations = _operations(outage, 1 if settlements else 0)
    with_it = bills.extra(operations.total - operations.in_secondary, operations.in_secondary)
    size = outage.messages * outage.message_bytes
    return Forecast(
        outage=outage,
        operations=operations,
        charge=with_it,
        extra_charge=with_it - bills.extra(operations.without, 0),
        rate=bills.rate,
        bandwidth=Fraction(size, GIGABYTE) * outage.crossings * outage.per_gigabyte,
        gigabytes=Fraction(size, GIGABYTE),
        queues_needed=-(-size // QUEUE_BYTES),
        drain_s=-(-outage.messages // CREDITS_PER_S),
    )


def _operations(outage: Outage, settling: int) -> Operations:
    transfers = outage.messages * outage.units
    taken = transfers + outage.messages * settling
    pings = int(outage.hours * 3600 / outage.ping_interval_s) * outage.entities * outage.pingers
    return Operations(
        send_backlog=transfers,
        syphon_receive=taken,
        syphon_send=transfers,
        receive=taken,
        pings=pings,
        polls=ceil(outage.hours * POLLS_PER_HOUR) * outage.queues * outage.syphon_hosts,
        without=transfers + taken,
    )
