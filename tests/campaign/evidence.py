"""What the judge reads: journals, the contents of queues when everything has ended, ledgers, pages and usage."""

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage

from tests.campaign import crowd, letters, plan, schedule
from tests.campaign.journal import read

SENDERS, RECEIVERS, DRAINERS = "sender-", "receiver-", "drainer-"
LOADED = re.compile(r"\d+:M (\S+ \S+ \S+ \S+) \* Ready to accept connections")
FAILED_TASK = re.compile(r"Task (\S+?)\[[^]]*\] raised unexpected: (\w+)")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a sender, for each of its messages."""

    identity: str
    digest: str
    target: str
    session: str | None
    process: str
    pid: int
    turn: int
    index: int
    began: float
    bound_s: float
    outcome: str = ""
    """`accepted`, `refused`, or empty: nobody knows."""
    ended: float = 0.0
    took_s: float = 0.0
    withheld_s: float = 0.0
    message_id: str | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One delivery, as its receiver had it in its journal before settling."""

    identity: str
    inbox: str
    message_id: str | None
    sequence: int
    enqueued: float
    at: float
    digest: str
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw of a gateway: how long a delivery had no outcome, or what it should never see."""

    process: str
    at: float
    took_s: float
    what: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """One disturbance, from its beginning to its end."""

    what: str
    target: str
    began: float
    ended: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Life:
    """One process from its start to its end; `how`: killed, asked, ended, stuck, overdue, or empty while unknown."""

    process: str
    pid: int
    began: float
    ended: float = float("inf")
    how: str = ""
    code: int | None = None
    reporter: str = ""
    """The name under which its client reports usage."""


class Lives:
    """Which life of a process a record belongs to: in a long campaign, the system gives a process id more than once."""

    def __init__(self, lives: Iterable[Life]) -> None:
        self._known: dict[tuple[str, int], list[Life]] = defaultdict(list)
        for life in lives:
            self._known[life.process, life.pid].append(life)

    def at(self, process: str, pid: int, moment: float) -> Life | None:
        """The life of the process with this id at this time; the last to begin, where the end of another is unknown."""
        fitting = (one for one in self._known[process, pid] if one.began <= moment <= one.ended)
        return max(fitting, key=lambda one: one.began, default=None)


@dataclass(frozen=True, slots=True)
class Left:
    """A message that is still in a namespace at the end."""

    namespace: str
    path: str
    sequence: int
    message_id: str | None


@dataclass(frozen=True, slots=True)
class LedgerAtEnd:
    """The ledger of one backlog queue, and the last sequence number that the namespace itself has given."""

    queue: str
    first: int
    enqueued: int
    accounted: int
    truth: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of one campaign."""

    attempts: tuple[Attempt, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    windows: tuple[Window, ...] = ()
    seen: tuple[Seen, ...] = ()
    lives: tuple[Life, ...] = ()
    left: tuple[Left, ...] = ()
    ledgers: tuple[LedgerAtEnd, ...] = ()
    statuses: Mapping[str, str] = field(default_factory=dict)
    """The status of each entity on the pages at the end."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """The active messages of each backlog queue on the pages at the end."""
    billed: Mapping[str, int] = field(default_factory=dict)
    """Messages of sends by reporter, as the usage records tell by their rule: the highest seq of each record counts."""
    barriers: tuple[str, ...] = ()
    """Sessions that still have to go to the backlog at the end."""
    failed_tasks: Mapping[str, int] = field(default_factory=dict)
    """How often a task of the workers ended with an exception that it does not handle, by task and exception."""
    redis_loaded: tuple[float, ...] = ()
    """When Redis had loaded its data after a start: with a long file of its writes that takes seconds."""
    crowd: int = 0
    """The queues that outages are of."""
    is_settled: bool = True
    """Whether everything had arrived before the time was over."""


def gather(folder: Path) -> Evidence:
    """The evidence of a folder; everything is read from its files."""
    observed: dict[str, Any] = json.loads((folder / "end.json").read_text())
    lives = tuple(_lives(folder))
    left = tuple(_left(folder))
    return Evidence(
        attempts=tuple(_attempts(folder)),
        receipts=(*_receipts(folder), *_arrived(folder)),
        windows=tuple(_windows(folder)),
        seen=tuple(_seen(folder)),
        lives=lives,
        left=left,
        ledgers=tuple(_ledgers(folder, observed["ledgers"], left)),
        statuses=observed["statuses"],
        depths=observed["depths"],
        billed=observed["billed"],
        barriers=tuple(observed["barriers"]),
        failed_tasks=failed_tasks(_lines(folder, "worker-*")),
        redis_loaded=tuple(loaded_at(_lines(folder, "redis"))),
        crowd=plan.kept(folder).crowd,
        is_settled=observed["is_settled"],
    )


def _lines(folder: Path, processes: str) -> Iterator[str]:
    for file in sorted((folder / "logs").glob(f"{processes}.log")):
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from lines


def failed_tasks(lines: Iterable[str]) -> Mapping[str, int]:
    """The tasks that Celery logs as failed, by task and exception."""
    return Counter(" ".join(found.groups()) for line in lines if (found := FAILED_TASK.search(line)))


def loaded_at(lines: Iterable[str]) -> Iterator[float]:
    """When Redis says that it accepts connections; it writes the time of this machine's zone."""
    for line in lines:
        if found := LOADED.match(line):
            yield datetime.strptime(found[1], "%d %b %Y %H:%M:%S.%f").timestamp()


def _attempts(folder: Path) -> Iterator[Attempt]:
    for file in sorted((folder / "journals").glob(f"{SENDERS}*.jsonl")):
        yield from attempts_of(file.stem, read(file))


def attempts_of(process: str, records: Iterator[dict[str, Any]]) -> Iterator[Attempt]:
    """The attempts of one sender's journal. One without an outcome is over where the next record begins."""
    pid, under_way = 0, None
    for record in records:
        if record["kind"] in ("accepted", "refused"):
            assert under_way is not None, f"an outcome without an attempt in the journal of {process}"
            yield from _of_turn(process, pid, under_way, record)
            under_way = None
            continue
        if under_way is not None:
            yield from _of_turn(process, pid, under_way, {})
            under_way = None
        if record["kind"] == "began":
            pid = record["pid"]
        elif record["kind"] == "attempted":
            under_way = record
    if under_way is not None:
        yield from _of_turn(process, pid, under_way, {})


def _of_turn(process: str, pid: int, attempted: dict[str, Any], outcome: dict[str, Any]) -> Iterator[Attempt]:
    ids = outcome.get("message_ids", [])
    for index, (identity, digest) in enumerate(attempted["letters"]):
        yield Attempt(
            identity=identity,
            digest=digest,
            target=attempted["target"],
            session=attempted["session"],
            process=process,
            pid=pid,
            turn=attempted["turn"],
            index=index,
            began=attempted["at"],
            bound_s=attempted["bound_s"],
            outcome=outcome.get("kind", ""),
            ended=outcome.get("at", 0.0),
            took_s=outcome.get("took_s", 0.0),
            withheld_s=outcome.get("withheld_s", 0.0),
            message_id=ids[index] if index < len(ids) else None,
            error=outcome.get("error", ""),
        )


def _receipts(folder: Path) -> Iterator[Receipt]:
    for file in sorted((folder / "journals").glob(f"{RECEIVERS}*.jsonl")):
        for one in read(file):
            if one["kind"] == "received":
                yield Receipt(
                    one["id"], one["inbox"], one["message_id"], one["sequence"], one["enqueued"], one["at"],
                    one["digest"], one["session"],
                )  # fmt: skip


def _seen(folder: Path) -> Iterator[Seen]:
    for name in schedule.GATEWAYS:
        for one in read(folder / "journals" / f"{name}.jsonl"):
            yield Seen(name, one["at"], one["took_s"], one["what"])


def _windows(folder: Path) -> Iterator[Window]:
    """A disturbance that was interrupted lasts until the end."""
    open_: dict[tuple[int, float], dict[str, Any]] = {}
    for record in read(folder / "windows.jsonl"):
        if record["kind"] == "began":
            open_[record["number"], 0.0] = record
        elif (began := open_.pop((record["number"], 0.0), None)) is not None:
            yield Window(began["what"], began["target"], began["at"], record["at"], began["details"])
    for began in open_.values():
        yield Window(began["what"], began["target"], began["at"], float("inf"), began["details"])


def _lives(folder: Path) -> Iterator[Life]:
    """Each with the name under which its client reported, which the application's own journal tells."""
    found = list(lives_of(read(folder / "lives.jsonl")))
    lives, reporters = Lives(found), {}
    for file in (folder / "journals").glob("*.jsonl"):
        for one in read(file):
            if one["kind"] == "began" and (life := lives.at(file.stem, one["pid"], one["at"])):
                reporters[life] = one["process"]
    yield from (replace(life, reporter=reporters.get(life, "")) for life in found)


def lives_of(records: Iterable[dict[str, Any]]) -> Iterator[Life]:
    """The lives that the campaign noted. One whose end it did not note was interrupted."""
    begun: dict[tuple[str, int], float] = {}
    for record in records:
        key = record["process"], record["pid"]
        if record["kind"] == "began":
            begun[key] = record["at"]
        else:
            yield Life(*key, begun.pop(key), record["at"], record["how"], record["code"])
    for (process, pid), began in begun.items():
        yield Life(process, pid, began, how="interrupted")


def _rows(folder: Path, name: str, query: str) -> list[tuple[Any, ...]]:
    """What the store of a namespace holds; its process has ended."""
    [file] = (path for path in (folder / "stores" / name).iterdir() if path.suffix in (".sqlite3", ".db", ".sqlite"))
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


IN_CROWD = f"path LIKE '{crowd.NAME}%' AND path NOT LIKE '%/%'"


def _arrived(folder: Path) -> Iterator[Receipt]:
    """What is in the queues from which nobody receives."""
    fields = "path, sequence, sent_message_id, enqueued_at, sent_bare"
    query = f"SELECT {fields} FROM messages JOIN queues ON messages.queue = queues.id WHERE {IN_CROWD}"
    letters.keep_types()
    for path, sequence, message_id, at, bare in _rows(folder, "primary", query):
        message = ServiceBusReceivedMessage.from_bytes(bare)
        identity, digest = letters.identity_of(message), letters.digest_of(message)
        yield Receipt(identity, path, message_id, sequence, at, at, digest)


def _left(folder: Path) -> Iterator[Left]:
    fields = "path, sequence, sent_message_id"
    query = f"SELECT {fields} FROM messages JOIN queues ON messages.queue = queues.id WHERE NOT ({IN_CROWD})"
    for name in ("primary", "secondary"):
        for path, sequence, message_id in _rows(folder, name, query):
            yield Left(name, path, sequence, message_id)


def _ledgers(folder: Path, stored: Mapping[str, Any], left: tuple[Left, ...]) -> Iterator[LedgerAtEnd]:
    truths = dict(_rows(folder, "secondary", "SELECT path, last_sequence FROM queues"))
    still_there: dict[str, int] = defaultdict(int)
    for one in left:
        still_there[one.path] += one.namespace == "secondary"
    for queue, truth in truths.items():
        if "/x-servicebus-transfer/" in queue and not queue.endswith("$deadletterqueue"):
            known = stored.get(queue, {"first": 0, "enqueued": 0, "accounted": 0})
            accounted = known["accounted"] + still_there[queue]
            yield LedgerAtEnd(queue, known["first"], known["enqueued"], accounted, truth)
