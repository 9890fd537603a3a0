"""The many queues of which a large outage takes half: their names, their parts in an outage, and what is sent to them.

Each outage has four groups. `silent` answers nothing until its end, `back` until it is mended meanwhile, `deleted` is
deleted and created again, `held` is failed over by an operator, who releases it. Nobody receives from these queues:
what has arrived is read from the namespace at the end.
"""

import random
from collections.abc import Sequence

from tests.campaign.letters import Turn, letter

NAME = "crowd-"
SENDER = f"sender-{NAME}0"
FILE = "outages"
"""Holds how many outages have begun: so many times the sender sends to every queue."""
SHARES = {"deleted": 0.1, "held": 0.1, "silent": 0.5, "back": 0.3}
BACK_S, LASTS_S = 45.0, 110.0
"""How long an outage of the group `back`, and of the others, lasts."""
DRAINED_S, NOTICED_S = 60.0, 15.0
"""How long messages may take to be home after an entity works again, and how long the ping may take that notices it."""
QUIET_S = 20.0
"""Nothing else begins so long before an outage, during it, and until everything must be home."""
AT_ONCE = 25
LARGE, LISTS = 4, 40
"""So many queues get 1,000 messages, in so many lists, ahead of all others, which get one list."""
ATTACK = tuple({"operation": operation, "effect": "silent"} for operation in ("attach", "send"))
"""The faults of a queue that answers nothing."""


def names(size: int) -> tuple[str, ...]:
    return tuple(f"{NAME}{number:03}" for number in range(size))


def group(of: str, outage: int, size: int) -> tuple[str, ...]:
    """The queues of a group in the outage of this number; each outage begins with others."""
    begin = 0
    for name, share in SHARES.items():
        end = begin + round(share * size)
        if name == of:
            return tuple(f"{NAME}{(number + outage * size // 7) % size:03}" for number in range(begin, end))
        begin = end
    raise LookupError(of)


def targets(size: int) -> Sequence[str]:
    """Where the lists of one outage go, in turn."""
    everything = names(size)
    return everything[:: max(size // LARGE, 1)] * (LISTS - 1) + everything


def turn(seed: int, number: int, size: int) -> Turn:
    """What the sender does in one turn."""
    chance, lists = random.Random(f"{seed} {SENDER} {number}"), targets(size)
    target = lists[number % len(lists)]
    letters = (letter(chance, f"{SENDER}-{number}-{index}", target, None, {200: 1}) for index in range(AT_ONCE))
    return Turn(number, target, "list", tuple(letters))
