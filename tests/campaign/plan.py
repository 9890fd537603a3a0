"""What one campaign is asked to do, as it is kept in its folder: a campaign that resumes is the same one."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ENTITIES = ("orders", "payments", "sessions", "events")
"""A plain queue, one with duplicate detection, one with sessions whose order is kept, and a topic."""
INBOXES = {
    "orders": ("orders",),
    "payments": ("payments",),
    "sessions": ("sessions",),
    "events": ("events/audit", "events/mail"),
}
"""Where a message of an entity has to arrive: each subscription gets its own copy."""
ORDERED = "sessions"
DETECTS_DUPLICATES = "payments"
BACKLOG_QUEUES = 3
PAIR = "contoso"
FILE = "plan.json"
FEW = 3
MOST = 200
"""So many small messages fit into one batch, also as they are rewritten for the backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a campaign. It ends after `minutes`, or once it has reached the numbers of messages and kills."""

    seed: int
    minutes: float = 20.0
    messages: int = 0
    kills: int = 0
    senders: int = 4
    gatewayed: int = 0
    """Further senders, with the SDK alone, through a gateway."""
    languages: tuple[str, ...] = ()
    """The same with the SDKs for these languages."""
    receivers: int = 2
    rate: float = 4.0
    """Sends a second of each sender."""
    batch: int = FEW
    """The most messages of one list or batch; a turn with more than FEW has small bodies only, so that they fit."""
    crowd: int = 200
    """Queues of which outages take a part each."""
    gap_s: float = 4.0
    """Mean time between the beginnings of two disturbances."""
    has_control_plane: bool = True
    """Web, two workers and beat; without it two processes of the library drain."""
    has_postgres: bool = True
    send_timeout_s: float = 8.0
    settle_s: float = 240.0
    """After all disturbances: how long nothing may move while messages are still on their way."""
    kinds: tuple[str, ...] = ()
    """Only these kinds of disturbances; all if empty."""
    without: str = ""
    """The safeguard that is removed from the copy that runs."""

    def __post_init__(self) -> None:
        if self.senders < 1 or self.receivers < 1 or self.rate <= 0 or self.gap_s <= 0:
            raise ValueError("a campaign needs a sender, a receiver, and a positive rate and gap")
        if not 2 <= self.batch <= MOST:
            raise ValueError(f"a batch has 2 to {MOST} messages at most, not {self.batch}")

    @property
    def ends_by_size(self) -> bool:
        """Whether numbers end it, not the clock."""
        return bool(self.messages or self.kills)

    def is_reached(self, elapsed_s: float, messages: int, kills: int) -> bool:
        """Whether the part with disturbances is over."""
        if self.ends_by_size:
            return messages >= self.messages and kills >= self.kills
        return elapsed_s >= self.minutes * 60


SMALL = Plan(seed=1, minutes=2.0, senders=3, receivers=2, rate=3.0, gap_s=4.0, has_postgres=False)
"""About two minutes of disturbances."""


def keep(plan: Plan, folder: Path) -> None:
    """Write the plan to its folder."""
    (folder / FILE).write_text(json.dumps(asdict(plan), indent=2) + "\n")


def kept(folder: Path) -> Plan:
    """The plan of a folder. Raises FileNotFoundError, or TypeError for a file of another version."""
    written: dict[str, Any] = json.loads((folder / FILE).read_text())
    return replace(Plan(**written), kinds=tuple(written["kinds"]), languages=tuple(written["languages"]))
