"""The course of a campaign: start everything, disturb it by the schedule, let everything arrive, end, keep what is."""

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Any

import duckdb
import redis

from pairing.drain.ledger import Ledger
from pairing.fleet.streams import USAGE
from pairing.sessions.shared import SharedSessions
from tests.campaign import crowd, schedule
from tests.campaign.actions import Actions
from tests.campaign.journal import now, read
from tests.campaign.plan import BACKLOG_QUEUES, ENTITIES, PAIR, Plan
from tests.campaign.processes import GRACE_S
from tests.campaign.schedule import Disturbance
from tests.campaign.sender import LANGUAGE_S
from tests.campaign.stage import Stage

STEP_S = 0.05
PROGRESS_S, SETTLING_S = 10.0, 30.0
PROGRESS = "progress.json"
QUEUES = tuple(f"{PAIR}/x-servicebus-transfer/{number}" for number in range(BACKLOG_QUEUES))
REPORTED_S = 30.0
"""How long pages may take after everything has arrived."""
COLLECTED_S = 120.0
"""How long usage may take to be in files: a worker that was restarted last has to start, and to get the task again."""
SCHEDULED_S = 0.5
"""How much later than scheduled a message may appear."""
SEND_KINDS = ("send", "send_backlog")


class Interrupted(Exception):
    """The campaign was asked to stop; it can be resumed."""


class Campaign:
    """One campaign in its folder."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._progress = self._read_progress()
        self._is_asked = False
        self._fewest = (math.inf, math.inf)
        self._moved_at = 0.0

    def _ask(self, *_: object) -> None:
        self._is_asked = True

    def _read_progress(self) -> dict[str, Any]:
        file = self._folder / PROGRESS
        return json.loads(file.read_text()) if file.exists() else {"elapsed_s": 0.0, "number": 0, "kills": 0}

    def run(self) -> list[str]:
        """From the beginning, or where it was interrupted, to the end; returns what was not tried, and why."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)
        stage = Stage(self._plan, self._folder, self._say)
        try:
            stage.start()
            self._say("everything is started")
            actions = Actions(stage)
            self._disturb(stage, actions)
            self._settle(stage, actions)
            self._end(stage)
            actions.close()
        finally:
            stage.close()
        return stage.notes

    # disturbing -------------------------------------------------------------------------------------------------------

    def _disturb(self, stage: Stage, actions: Actions) -> None:
        before, kills = float(self._progress["elapsed_s"]), int(self._progress["kills"])
        coming = dropwhile(lambda one: one.number < self._progress["number"], schedule.disturbances(self._plan))
        upcoming, began, said = next(coming), time.monotonic(), 0.0
        messages = Messages(self._folder)
        while True:
            elapsed_s = before + time.monotonic() - began
            if self._plan.is_reached(elapsed_s, messages.accepted(), kills + stage.processes.kills):
                return
            if elapsed_s >= upcoming.at_s:
                self._say(f"{elapsed_s:7.1f} s  {upcoming}")
                actions.begin(upcoming)
                self._keep_progress(elapsed_s, upcoming, kills + stage.processes.kills)
                upcoming = next(coming)
            if time.monotonic() - said > PROGRESS_S:
                said = time.monotonic()
                self._say(self._in_words(elapsed_s, messages.accepted(), kills + stage.processes.kills))
            self._step(stage, actions)

    def _keep_progress(self, elapsed_s: float, done: Disturbance, kills: int) -> None:
        self._progress = {"elapsed_s": elapsed_s, "number": done.number + 1, "kills": kills}
        (self._folder / PROGRESS).write_text(json.dumps(self._progress))

    def _in_words(self, elapsed_s: float, messages: int, kills: int) -> str:
        plan = self._plan
        goal = f"{plan.messages} messages and {plan.kills} kills" if plan.ends_by_size else f"{plan.minutes * 60:.0f} s"
        load = os.getloadavg()[0]
        return f"{elapsed_s:7.1f} s  {messages} messages accepted, {kills} kills; until {goal}; load {load:.1f}"

    def _step(self, stage: Stage, actions: Actions) -> None:
        if self._is_asked:
            raise Interrupted
        actions.check()
        stage.processes.check()
        time.sleep(STEP_S)  # the pace of the schedule, no synchronisation

    # arriving ---------------------------------------------------------------------------------------------------------

    def _settle(self, stage: Stage, actions: Actions) -> None:
        """All disturbances end, then the senders, and everything arrives."""
        self._say("the disturbances are over; waiting until everything is up, and has arrived")
        began = time.monotonic()
        actions.end_all()
        groups = schedule.names(self._plan)
        everything = [name for group in groups.values() for name in group]
        self._until(stage, actions, lambda: actions.is_quiet and all(map(stage.processes.is_up, everything)))
        grace_s = LANGUAGE_S if self._plan.languages else GRACE_S
        late = stage.processes.end(*groups["senders"], *groups["intruders"], grace_s=grace_s)
        if late:
            self._say(f"did not end when asked: {', '.join(late)}")
        due = max(_dues(self._folder), default=0.0) + SCHEDULED_S
        self._is_settled = self._until(stage, actions, lambda: now() > due and self._has_arrived(stage))
        took = time.monotonic() - began
        self._say(f"everything has arrived after {took:.0f} s" if self._is_settled else f"not arrived in {took:.0f} s")

    def _until(self, stage: Stage, actions: Actions, holds: Callable[[], bool]) -> bool:
        """False if it does not hold although nothing has moved for ``settle_s``."""
        looked, self._moved_at = 0.0, time.monotonic()
        said = time.monotonic()
        while time.monotonic() - self._moved_at < self._plan.settle_s:
            if time.monotonic() - said > SETTLING_S and self._fewest[0] < math.inf:
                said = time.monotonic()
                self._say("fewest so far: {} messages in the secondary, {} in the primary".format(*self._fewest))
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if holds():
                    return True
            self._step(stage, actions)
        return False

    def _has_arrived(self, stage: Stage) -> bool:
        """Nothing is in any queue or in doubt, no entity is failed over, and no session has a barrier."""
        try:
            there = sum(_there(stage, "secondary")), sum(_there(stage, "primary"))
            if there < self._fewest:  # no more are sent: they are moved home, and received there
                self._fewest, self._moved_at = there, time.monotonic()
            healthy = all(state == "healthy" for state in self._states(stage).values())
            in_doubt = any(json.loads(text)["pending"] for text in stage.shared.ledgers().values())
            return not any(there) and not in_doubt and healthy and not _barriers(stage)
        except (OSError, redis.RedisError):
            return False

    def _states(self, stage: Stage) -> dict[str, str]:
        """The states of the entities. Once all senders have ended, only the control plane ends what is left failing."""
        states = {path: str(one.state) for path, one in stage.shared.health().items()}
        if not self._plan.has_control_plane:
            return {path: "healthy" if state == "failing" else state for path, state in states.items()}
        return states

    # the end ----------------------------------------------------------------------------------------------------------

    def _end(self, stage: Stage) -> None:
        """What only the running processes can say, then all of them end, and the stores are read afterwards."""
        observed = self._observe_pages(stage)
        groups = schedule.names(self._plan)
        stage.processes.end(
            *groups["gateways"], *groups["receivers"], *(groups["drains"] if not self._plan.has_control_plane else ())
        )
        billed = self._bill(stage)
        stage.processes.end(*groups["drains"], *groups["control"])
        observed |= {"billed": billed, "barriers": _barriers(stage), "is_settled": self._is_settled}
        observed["ledgers"] = _ledgers(stage)
        stage.processes.end("primary", "secondary")
        (self._folder / "end.json").write_text(json.dumps(observed, indent=2))

    def _observe_pages(self, stage: Stage) -> dict[str, Any]:
        """What the pages show, as soon as they show the end; what they show at the latest if they never do."""
        if not self._plan.has_control_plane:
            return {"statuses": self._states(stage), "depths": {}}
        shown: dict[str, Any] = {"statuses": {}, "depths": {}}
        until, count = time.monotonic() + REPORTED_S, len(ENTITIES) + self._plan.crowd
        while time.monotonic() < until:
            try:
                shown = _shown(stage)
            except (OSError, ValueError):
                shown = shown or {}
            wrong = [one for one in shown["statuses"].values() if one != "healthy"]
            if len(shown["statuses"]) == count and not wrong and not any(shown["depths"].values()):
                break
            stage.processes.check()
            time.sleep(0.5)  # between two looks
        return shown

    def _bill(self, stage: Stage) -> dict[str, int]:
        """The messages by reporter: of the usage files once they no longer grow, or of the stream without workers."""
        if not self._plan.has_control_plane:
            return _billed_of_stream(stage)
        until, before = time.monotonic() + COLLECTED_S, dict[str, int]()
        while time.monotonic() < until:
            is_collected = not stage.client.xlen(USAGE)  # first: records leave it once they are in files
            found = _billed_of_files(self._folder / "metering" / "usage")
            if found == before and found and is_collected:
                break
            before = found
            stage.processes.check()
            time.sleep(2.0)  # between two looks
        return before


class Messages:
    """How many messages were accepted so far: reads only what was appended since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._read, self._count = folder / "journals", dict[Path, int](), 0
        self._looked = 0.0

    def accepted(self) -> int:
        if time.monotonic() - self._looked > 1.0:
            self._looked = time.monotonic()
            for file in self._folder.glob("sender-*.jsonl"):
                self._count += self._appended(file)
        return self._count

    def _appended(self, file: Path) -> int:
        with file.open("rb") as opened:
            opened.seek(self._read.get(file, 0))
            data = opened.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[file] = self._read.get(file, 0) + len(whole)
        lines = (line for line in whole.splitlines() if line.startswith(b'{"kind":"accepted"'))
        return sum(len(json.loads(line)["message_ids"]) for line in lines)


def _dues(folder: Path) -> Iterator[float]:
    """When scheduled messages appear; until then no queue counts them."""
    for file in (folder / "journals").glob("sender-*.jsonl"):
        yield from (record["due"] for record in read(file) if "due" in record)


def _there(stage: Stage, name: str) -> Iterator[int]:
    """The messages of each queue of a namespace that somebody receives; those of a topic are in its subscriptions."""
    for path, counts in stage.ask_namespace(name, "GET", "stats").items():
        if not (path.lower().endswith("deadletterqueue") or path.startswith(crowd.NAME)):
            yield counts["active"] + counts.get("scheduled", 0) + counts.get("deferred", 0)


def _barriers(stage: Stage) -> list[str]:
    sessions = SharedSessions(stage.shared)
    return sorted(session for queue in QUEUES for session in (sessions.barred(queue) or {}))


def _ledgers(stage: Stage) -> dict[str, Any]:
    found = {}
    for queue, text in stage.shared.ledgers().items():
        written = json.loads(text)
        balance = Ledger.from_json(written).balance(0)
        accounted = sum(balance.fates.values())
        first = min(written["first"], default=0)
        found[queue] = {"first": first, "enqueued": balance.enqueued, "accounted": accounted}
    return found


def _shown(stage: Stage) -> dict[str, Any]:
    entities = stage.ask_api("GET", f"/entities?pair={PAIR}&limit=500")["items"]
    queues = stage.ask_api("GET", f"/backlog?pair={PAIR}")["items"]
    statuses = {one["path"]: one["status"] for one in entities}
    return {"statuses": statuses, "depths": {one["path"]: one["active"] for one in queues}}


def _billed_of_stream(stage: Stage) -> dict[str, int]:
    highest: dict[str, tuple[int, str, int]] = {}
    for _, fields in stage.client.xrange(USAGE):
        row = json.loads(fields["record"])
        if row.get("kind") in SEND_KINDS and row["seq"] >= highest.get(row["record_id"], (-1,))[0]:
            highest[row["record_id"]] = row["seq"], row["reporter"], row["messages"]
    billed: dict[str, int] = {}
    for _, reporter, messages in highest.values():
        billed[reporter] = billed.get(reporter, 0) + messages
    return billed


def _billed_of_files(folder: Path) -> dict[str, int]:
    files = [str(path) for path in folder.rglob("*.parquet") if not path.name.startswith("_")]
    if not files:
        return {}
    once = "select record_id, reporter, max_by(messages, seq) as messages from read_parquet(?) where kind in (?, ?)"
    query = f"select reporter, sum(messages) from ({once} group by all) group by reporter"
    with duckdb.connect() as reader:
        return {reporter: int(count) for reporter, count in reader.execute(query, [files, *SEND_KINDS]).fetchall()}


def keep_result(folder: Path, result: dict[str, Any]) -> None:
    """The result, beside the journals it was found in."""
    with (folder / "result.json").open("w") as file:
        json.dump(result, file, indent=2)
