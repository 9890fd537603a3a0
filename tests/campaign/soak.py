"""`make soak`: one hour of the demo with an outage every minute; ends with what grew, exit code 1 if anything did.

make soak ARGS="--minutes 60"
make soak ARGS="--judge FOLDER"          judges the samples of one again, also of one that was interrupted
"""

import argparse
import json
import logging
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, cast

import django
import httpx
import redis

from dashboard.demo.faults import EFFECTS, EVERYTHING, EmulatorError, LocalNamespace
from tests.acceptance.demo_client import PASSWORD, Demo, DemoClient
from tests.campaign import flatness, sampling
from tests.campaign.flatness import Judged
from tests.campaign.journal import Journal, read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".campaign"
SAMPLES, RESULT = "samples.jsonl", "result.json"
OUTAGE_BEGINS_S, OUTAGE_ENDS_S = 3.0, 23.0
"""Of each minute, so that one sample of a minute is taken at rest, and one while messages return."""
EVERY_S = 60.0
STEP_S = 0.2
PAGES = ("", "pairs/contoso/", "events/", "workers/", "alerts/", "backlog/", "costs/", "readiness/", "metrics")
"""What somebody looks at meanwhile."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=60.0, help="how long (default: 60)")
    add("--warm-up", type=float, default=10.0, metavar="MINUTES", help="is not judged (default: 10)")
    add("--sample", type=float, default=30.0, metavar="SECONDS", help="time between two samples (default: 30)")
    add("--folder", type=Path, help="keep everything here (default: a new folder in .campaign)")
    add("--judge", type=Path, metavar="FOLDER", help="judge the samples of an earlier one")
    return parser


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def main() -> int:
    given = parser().parse_args()
    if given.judge:
        return conclude(given.judge, given.warm_up * 60)
    folder = (given.folder or FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-soak").absolute()
    folder.mkdir(mode=0o700, parents=True)
    os.environ |= {"NO_PROXY": "127.0.0.1,localhost", "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    os.environ["STATE_DIR"] = str(folder / "outer")  # nothing of a control plane on this host
    django.setup()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request
    say(f"soak {folder}")
    demo = Demo(folder / "demo", DEMO_PASSWORD=PASSWORD)
    try:
        ready = demo.await_ready()
        say("the demo is ready")
        Soak(demo, DemoClient(demo, ready[1], PASSWORD), folder).run(given.minutes * 60, given.sample)
    except KeyboardInterrupt:
        say("interrupted: the samples so far are judged")
    finally:
        say(f"the demo ended with {demo.end()}")
    return conclude(folder, given.warm_up * 60)


class Soak:
    """A running demo with its outages and samples."""

    def __init__(self, demo: Demo, person: DemoClient, folder: Path) -> None:
        self._demo, self._person = demo, person
        self._samples = Journal(folder / SAMPLES)
        self._redis = redis.Redis.from_url(demo.environment["REDIS_URL"], socket_timeout=30)
        self._redis_pid = int(cast(dict[str, Any], self._redis.info("server"))["process_id"])
        self._database = Path(demo.environment["DATABASE_URL"].removeprefix("sqlite:///"))
        address = re.search(r"Endpoint=sb://([^;/]+)", demo.environment["CONTOSO_PRIMARY"])
        assert address
        self._primary = LocalNamespace("contoso", f"http://{address[1]}")
        self._outages = 0
        self._pages: dict[str, int] = {}

    def run(self, for_s: float, sample_s: float) -> None:
        """Outages, and samples, until the time is over. RuntimeError if the demo ends before."""
        began, samples = time.monotonic(), count()
        due_s, is_out = next(samples) * sample_s, False
        while (elapsed_s := time.monotonic() - began) < for_s or due_s <= for_s:
            if self._demo.process.poll() is not None:
                raise RuntimeError(f"the demo ended by itself: {self._demo.last_words()}")
            of_minute = elapsed_s % EVERY_S
            if is_out != (OUTAGE_BEGINS_S <= of_minute < OUTAGE_ENDS_S):
                is_out = self._change(is_out)
            if elapsed_s >= due_s:
                self._sample(elapsed_s)
                due_s = next(samples) * sample_s
            time.sleep(STEP_S)  # the pace of the outages, no synchronisation

    def _change(self, is_out: bool) -> bool:
        """The primary goes away or comes back; a namespace too busy to answer is asked again at the next step."""
        try:
            if is_out:
                self._primary.mend(EVERYTHING)
            else:
                self._primary.break_down(EVERYTHING, list(EFFECTS)[self._outages % len(EFFECTS)])
                self._outages += 1
        except EmulatorError:
            return is_out
        return not is_out

    def _sample(self, elapsed_s: float) -> None:
        self._look()
        pids = sampling.processes(self._demo.marker, self._demo.process.pid, self._redis_pid)
        values = sampling.of_processes(pids) | sampling.of_redis(self._redis) | sampling.of_database(self._database)
        messages = {name: sum(self._messages(name)) for name in ("accepted", "received")}
        about = {"outages": self._outages, "pages": self._pages, "load": os.getloadavg()[0]}
        self._samples.write({"at_s": round(elapsed_s, 1), "pids": pids, "values": values, **messages, **about})
        memory = sum(value for name, value in values.items() if name.startswith("memory (MiB): "))
        say(f"{elapsed_s:6.0f} s  {self._outages} outages, {messages['accepted']} messages, {memory:.0f} MiB in all")

    def _messages(self, kind: str) -> list[int]:
        return [int(self._redis.bitcount(f"demo:{{{queue}}}:{kind}")) for queue in self._person.accounts]

    def _look(self) -> None:
        """Every page once, and the live updates for a moment."""
        for page in PAGES:
            self._count(page)
        try:
            with self._person.http.stream("GET", "live/") as updates:
                next(updates.iter_raw(), b"")
        except httpx.HTTPError:
            self._pages["no answer"] = self._pages.get("no answer", 0) + 1

    def _count(self, page: str) -> None:
        try:
            status = str(self._person.http.get(page).status_code)
        except httpx.HTTPError:
            status = "no answer"
        self._pages[status] = self._pages.get(status, 0) + 1


def conclude(folder: Path, warm_up_s: float) -> int:
    """Judge the samples, and say what grew."""
    samples = list(read(folder / SAMPLES))
    try:
        judged = flatness.judge(samples, warm_up_s)
    except ValueError as error:
        say(f"error: {error}")
        return 2
    again = flatness.restarted(samples)
    print(table(samples, judged, again, warm_up_s), flush=True)
    growing = [one.name for one in judged if one.result == "grows"]
    result = {"growing": growing, "restarted": again, "series": [asdict(one) for one in judged]}
    (folder / RESULT).write_text(json.dumps(result, indent=2))
    return 1 if growing or again else 0


def table(samples: Sequence[dict[str, Any]], judged: Sequence[Judged], again: dict[str, int], warm_up_s: float) -> str:
    """What was reached, and the series that are not constant."""
    last, constant = samples[-1], [one for one in judged if one.is_constant]
    lines = [
        "",
        f"soak of {last['at_s'] / 60:.0f} minutes, judged from minute {warm_up_s / 60:.0f}, {len(samples)} samples",
        f"  {last['outages']} outages, {last['accepted']} messages accepted, {last['received']} received",
        f"  pages by status: {last['pages']}; load {min(one['load'] for one in samples):.0f} to "
        f"{max(one['load'] for one in samples):.0f}",
        f"  started again: {again or 'nothing'}",
        "",
        f"{'series':<58} {'first':>9} {'last':>9} {'an hour':>9} {'rise':>8} {'allowed':>8}  result",
    ]
    lines += [
        f"{one.name:<58} {one.first:>9.1f} {one.last:>9.1f} {one.per_hour:>9.2f} {one.rise:>8.2f} {one.allowed:>8.2f}"
        f"  {one.result}"
        for one in judged
        if not one.is_constant
    ]
    growing = sum(one.result == "grows" for one in judged)
    lines += ["", f"and {len(constant)} series that never changed", f"{growing} of {len(judged)} series grow"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
