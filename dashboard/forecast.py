"""What an outage would cost and hold, before it happens (docs/pricing.md, section 9). Plain arithmetic, exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from dashboard.ladder import Step, charge, rate

STEP_BYTES = 65_536
QUEUE_BYTES = 5_120 * 1024 * 1024
GIGABYTE = 10**9
CREDITS_PER_S = 1_000
POLLS_PER_HOUR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """What is assumed. `used`: billable operations of the month so far; `per_gigabyte`: the price of a crossing."""

    hours: Fraction
    messages_per_hour: Fraction
    message_bytes: int
    entities: int = 1
    pingers: int = 1
    ping_interval_s: int = 60
    queues: int = 10
    syphon_hosts: int = 1
    used: int = 0
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
    """The operations of the outage, stage by stage, under one counting rule; `without`: had there been none."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the outage comes to. Money is exact, in the price list's currency; `drain_s` is a lower bound."""

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
        """Whether the backlog queues could hold it, were it spread evenly."""
        return self.queues_needed <= self.outage.queues


def forecast(outage: Outage, ladder: Sequence[Step], settlements: bool) -> Forecast:
    """The outage's operations, money, room and time under one counting rule."""
    operations = _operations(outage, 1 if settlements else 0)
    with_it = charge(ladder, outage.used + operations.total)
    before, without = charge(ladder, outage.used), charge(ladder, outage.used + operations.without)
    size = outage.messages * outage.message_bytes
    return Forecast(
        outage=outage,
        operations=operations,
        charge=with_it - before,
        extra_charge=with_it - without,
        rate=rate(ladder, outage.used + operations.total),
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
