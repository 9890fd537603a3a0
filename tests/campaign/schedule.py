"""What goes wrong, and when: a pure function of the seed, so that a run can be repeated and its schedule printed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.campaign import crowd
from tests.campaign.plan import ENTITIES, Plan

GATEWAYS = ("gateway-0", "gateway-1")
APPLICATIONS_WEIGHT, SERVERS_WEIGHT = 3, 1
FAULTS: tuple[dict[str, Any], ...] = (
    {"operation": "send", "effect": "reject"},
    {"operation": "send", "effect": "silent"},
    {"operation": "send", "effect": "lose_ack", "probability": 0.3},
    {"operation": "send", "effect": "reset"},
    {"operation": "send", "effect": "detach", "condition": "amqp:internal-error"},
    {"operation": "send", "effect": "reject", "condition": "com.microsoft:server-busy"},
    {"operation": "attach", "effect": "refuse"},
    {"operation": "connect", "effect": "silent"},
    {"operation": "connect", "effect": "reset"},
    {"operation": "cbs", "effect": "silent"},
    {"operation": "settle", "effect": "reset", "probability": 0.3},
    {"operation": "send", "effect": "delay", "delay_s": 1.5},
)
"""Faults of a namespace, as its HTTP interface takes them."""
NETWORK = ("cut", "half_open", "delay", "throttle", "reorder")
CLOCK_STEPS_S = (-3600, -30, 45, 7200)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that goes wrong `at_s` seconds after the beginning, for `lasts_s` seconds (0: at once over)."""

    number: int
    at_s: float
    kind: str
    target: str
    lasts_s: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        details = " ".join(f"{name}={value}" for name, value in self.details.items())
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:7.1f} s  {self.kind:<8} {self.target}{lasts} {details}".rstrip()


def names(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The processes of a campaign by what they are."""
    senders = [f"sender-{number}" for number in range(plan.senders + plan.gatewayed)]
    senders += [f"sender-{language}-{number}" for number, language in enumerate(plan.languages, len(senders))]
    drains = ("worker-1", "worker-2") if plan.has_control_plane else ("drainer-1", "drainer-2")
    return {
        "gateways": GATEWAYS if len(senders) > plan.senders else (),
        "intruders": ("intruder",) if len(senders) > plan.senders else (),
        "senders": (*senders, *([crowd.SENDER] if plan.crowd else [])),
        "receivers": tuple(f"receiver-{number}" for number in range(plan.receivers)),
        "drains": drains,
        "control": ("web", "beat") if plan.has_control_plane else (),
        "servers": ("primary", "secondary", "redis"),
    }


def routes(plan: Plan) -> tuple[str, ...]:
    """The ways through the network that can be disturbed."""
    drains = "workers" if plan.has_control_plane else "drainers"
    return tuple(f"{group}-{server}" for group in ("senders", drains) for server in ("primary", "secondary", "redis"))


KINDS: dict[str, float] = {
    "kill": 6,
    "freeze": 3,
    "network": 4,
    "fault": 5,
    "detach": 1,
    "operate": 3,
    "deploy": 1,
    "clock": 1,
    "disk": 1,
    "outage": 0.25,
}
"""How often each kind occurs, relative to the others."""


def disturbances(plan: Plan) -> Iterator[Disturbance]:
    """The schedule of a plan, without an end, in the order of time."""
    chance = random.Random(f"schedule {plan.seed}")
    kinds = {kind: weight for kind, weight in KINDS.items() if not plan.kinds or kind in plan.kinds}
    kinds = {kind: weight for kind, weight in kinds.items() if plan.crowd or kind != "outage"}
    at_s, number, outages = 2.0, 0, 0
    while True:
        at_s += plan.gap_s * chance.uniform(0.5, 1.5)
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        if kind == "outage":
            for target, lasts_s in _OUTAGE.items():
                yield Disturbance(number, round(at_s + crowd.QUIET_S, 2), kind, target, lasts_s, {"outage": outages})
                number += 1
            at_s += crowd.QUIET_S + crowd.LASTS_S + crowd.NOTICED_S + crowd.DRAINED_S
            outages += 1
            continue
        target, lasts_s, details = _DRAWN[kind](chance, plan)
        yield Disturbance(number, round(at_s, 2), kind, target, round(lasts_s, 2), details)
        number += 1


_OUTAGE = {name: crowd.BACK_S if name == "back" else crowd.LASTS_S for name in crowd.SHARES}
Drawn = tuple[str, float, dict[str, Any]]


def _process(chance: random.Random, plan: Plan) -> str:
    """Any process; those that send and drain more often than servers."""
    groups = names(plan)
    applications = groups["senders"] + groups["receivers"] + groups["drains"] * 2 + groups["gateways"] * 2
    others = groups["servers"] + groups["control"]
    weights = [APPLICATIONS_WEIGHT] * len(applications) + [SERVERS_WEIGHT] * len(others)
    return chance.choices(applications + others, weights)[0]


def _kill(chance: random.Random, plan: Plan) -> Drawn:
    """The seconds are those until it is started again."""
    return _process(chance, plan), chance.uniform(0.2, 4.0), {}


def _freeze(chance: random.Random, plan: Plan) -> Drawn:
    """Mostly shorter, sometimes longer than a lease and a lock of a receiver."""
    return _process(chance, plan), chance.choice((0.5, 2.0, 7.0, 12.0)) * chance.uniform(0.8, 1.2), {}


def _network(chance: random.Random, plan: Plan) -> Drawn:
    effect = chance.choice(NETWORK)
    details: dict[str, Any] = {"effect": effect}
    if effect == "delay":
        details["delay_s"] = chance.choice((0.05, 0.3, 1.0))
    if effect == "throttle":
        details["bytes_per_s"] = chance.choice((2_000, 20_000))
    return chance.choice(routes(plan)), chance.uniform(1.0, 10.0), details


def _fault(chance: random.Random, plan: Plan) -> Drawn:
    namespace = chance.choices(("primary", "secondary"), (4, 1))[0]
    fault = dict(chance.choice(FAULTS))
    is_of_one = namespace == "primary" and fault["operation"] in ("send", "attach")
    fault["entity"] = chance.choice((None, *ENTITIES)) if is_of_one else None
    return namespace, chance.uniform(2.0, 12.0), fault


def _detach(chance: random.Random, plan: Plan) -> Drawn:
    """The primary detaches links on which sends have no outcome, for so short that the entity is healthy again soon."""
    fault = {"operation": "send", "effect": "detach", "condition": "amqp:internal-error", "entity": None}
    return "primary", chance.uniform(0.2, 1.0), fault


def _operate(chance: random.Random, plan: Plan) -> Drawn:
    """The first request when it begins, the opposite one when it ends."""
    pair = chance.choice((("fail-over", "release"), ("fail-over", "mark-healthy"), ("pause-syphon", "resume-syphon")))
    return chance.choice(ENTITIES), chance.uniform(3.0, 15.0), {"begins": pair[0], "ends": pair[1]}


def _deploy(chance: random.Random, plan: Plan) -> Drawn:
    """One group is restarted, one process after the other."""
    return chance.choice(("senders", "receivers", "drains")), 0.0, {"pause_s": 2.0}


def _clock(chance: random.Random, plan: Plan) -> Drawn:
    groups = names(plan)
    step_s = chance.choice(CLOCK_STEPS_S)
    return chance.choice(groups["senders"] + groups["drains"]), chance.uniform(5.0, 15.0), {"step_s": step_s}


def _disk(chance: random.Random, plan: Plan) -> Drawn:
    return chance.choice(("primary", "secondary")), chance.uniform(2.0, 6.0), {}


_DRAWN = {
    "kill": _kill,
    "freeze": _freeze,
    "network": _network,
    "fault": _fault,
    "detach": _detach,
    "operate": _operate,
    "deploy": _deploy,
    "clock": _clock,
    "disk": _disk,
}
