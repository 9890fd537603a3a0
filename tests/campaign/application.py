"""What all applications of a campaign have in common: their options, their ways, and how they are asked to end."""

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pairing import SendAvailabilityOptions
from tests.campaign.journal import Journal, now
from tests.campaign.plan import BACKLOG_QUEUES, PAIR, Plan, kept

WAYS = "ways.json"
"""Connection strings and Redis URLs by group of processes; only its owner can read it."""
INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Ways:
    """How a group of processes reaches the servers."""

    primary: str
    secondary: str
    redis: str
    gateways: tuple[str, ...] = ()


class Application:
    """One process: `python -m tests.campaign.<role> FOLDER NAME`."""

    def __init__(self, group: str) -> None:
        self.folder, self.name = Path(sys.argv[1]), sys.argv[2]
        self.plan: Plan = kept(self.folder)
        self.ways = Ways(**json.loads((self.folder / WAYS).read_text())[group])
        self.file = journal_of(self.folder, self.name)
        self.journal = Journal(self.file)
        self.stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())

    @property
    def number(self) -> int:
        """The number in its name."""
        return int(self.name.rpartition("-")[2])

    @property
    def is_gatewayed(self) -> bool:
        """Whether it sends through a gateway."""
        return self.plan.senders <= self.number

    @property
    def language(self) -> str:
        """That of the program that sends; empty for Python."""
        named = self.name.split("-")[1]
        return named if named in self.plan.languages else ""

    def begins(self, process: str) -> None:
        """Called once its client is open."""
        self.journal.write({"kind": "began", "at": now(), "pid": os.getpid(), "process": process})

    def ends(self) -> None:
        """Called once its client is closed."""
        self.journal.write({"kind": "ended", "at": now(), "pid": os.getpid()})


def journal_of(folder: Path, name: str) -> Path:
    """The journal of a process, which goes on when the process is started again."""
    return folder / "journals" / f"{name}.jsonl"


def options(ways: Ways, plan: Plan, *, drains: bool = False, pings: bool = True) -> SendAvailabilityOptions:
    """The options of every client: the same intervals, the shared state, and the order of sessions."""
    return SendAvailabilityOptions(
        primary_namespace=PAIR,
        secondary_namespace=f"{PAIR}-dr",
        backlog_queue_count=BACKLOG_QUEUES,
        failover_interval=timedelta(seconds=INTERVAL_S),
        ping_primary_interval=timedelta(seconds=INTERVAL_S),
        send_timeout=timedelta(seconds=plan.send_timeout_s),
        creation_retry_interval=timedelta(seconds=1),
        backlog_probation=timedelta(seconds=5),
        coordination=ways.redis,
        preserve_session_order=True,
        require_secondary=False,
        enable_syphon=drains,
        enable_pings=pings,
    )
