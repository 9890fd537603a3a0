"""What each part of an installation costs: CPU time and memory at 10, 100 and 1,000 processes, and 10,000 entities.

Real: web, workers by kind, beat, Redis, PostgreSQL, the namespaces, and ten applications for the cost of a client.
Simulated: the other applications. Each is the library's own connection to Redis, with its two sockets, that compares
and reports every five seconds and reports usage every ten, driven by one process instead of threads of its own; it
sends no message. Figures are processor time, which other work on the machine hardly changes, and memory: resident, and
PSS, which divides shared pages among those who share them.

docs/sizing.md has the tables.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

from pairing.clock import SystemClock
from pairing.fleet.shared_state import SharedState
from tests import postgres
from tests.acceptance.deployment import Deployment, DurableRedis
from tests.acceptance.fleet import ROOT, Fleet, Namespaces
from tests.benchmarks.processes import cpu_s, family, size
from tests.benchmarks.table import between_marks

PAGE = ROOT / "docs" / "sizing.md"
SECONDS = size(30, 1)
KINDS = {
    "pings and syphons": "pings,syphons",
    "collectors": "collectors",
    "samples and backlog": "samples,backlog",
    "alerts and pipeline": "alerts,pipeline",
}
"""The workers, by what they do: every Celery queue is served by one of them."""
USED = 10
"""Entities to which a simulated process sends."""
COMPARES_S, REPORTS_S = 5.0, 10.0
CLIENTS = size(10, 2)
PAIRS = """
[pairs.contoso]
primary = {{ connection_string_env = "FLEET_PRIMARY", namespace = "contoso" }}
secondary = {{ connection_string_env = "FLEET_SECONDARY", namespace = "contoso-dr" }}
entities = [{entities}]
"""


NAMED = 100
MORE_ENTITIES = """
from dashboard.models import EntityHealth, Pair
pair, names = Pair.objects.get(), ["region/orders-%05d" % number for number in range({first}, {last})]
EntityHealth.objects.bulk_create([EntityHealth(pair=pair, path=name, is_configured=True) for name in names], 1000)
"""
"""As the workers find them in the primary with `entities = "*"`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`processes` that send to `entities`, of which some are failed over."""

    processes: int
    entities: int
    failed_over: int = 0

    @property
    def name(self) -> str:
        return f"{self.processes:,} processes, {self.entities:,} entities, {self.failed_over:,} failed over"


SCENARIOS = (Scenario(10, 100), Scenario(100, 100), Scenario(1_000, 100), Scenario(1_000, 10_000, 100))[: size(4, 1)]


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU per second; memory in MB."""

    cpu_ms: float
    resident_mb: float
    pss_mb: float


def path_of(number: int) -> str:
    return f"region/orders-{number:05}"


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory and PSS of a process and its children."""
    resident = pss = 0.0
    for one in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:]
            found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
            resident, pss = resident + found["Rss"] / 1000, pss + found["Pss"] / 1000
    return resident, pss


def used_s(pid: int) -> float:
    """CPU seconds of a process and of its descendants, those included that have ended."""
    return sum(cpu_s(one, with_ended=True) for one in family(pid))


def costs_of(pids: dict[str, int]) -> dict[str, Cost]:
    """Of each, over the time of one measurement."""
    before, began = {name: used_s(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(SECONDS)  # the measurement itself
    elapsed = time.monotonic() - began
    found = {}
    for name, pid in pids.items():
        used = used_s(pid) - before[name]
        found[name] = Cost(*(round(value, 1) for value in (1000 * used / elapsed, *memory_mb(pid))))
    return found


def crowd(count: int, entities: int) -> None:
    """So many simulated processes; prints how often they compared and reported, every second, until it is ended."""
    from pairing import SendAvailabilityOptions
    from pairing.fleet.presence import Presence
    from pairing.membership import Fleet as Membership
    from pairing.pair import Pair
    from pairing.telemetry.metering import UsageMeter

    url, clock = os.environ["REDIS_URL"], SystemClock()
    members, listening = [], []
    for number in range(count):
        process = f"host:{number}:{number:08x}"
        pair = Pair(SendAvailabilityOptions(), "contoso", process, clock)
        member = Membership(pair, url).coordination
        assert member is not None
        assert member.shared is not None
        member.presence = lambda: Presence(sends=True)
        subscription = member.shared.redis.pubsub()
        subscription.subscribe(member.shared.channel)
        listening.append(subscription)
        members.append((member, UsageMeter("contoso", process, clock)))
    with suppress(PermissionError):
        os.nice(-10)  # beside other work, too, it keeps the pace of as many processes
    print("ready", flush=True)
    began, done = time.monotonic(), 0
    while True:
        member, meter = members[done % count]
        due = began + done * COMPARES_S / count
        time.sleep(max(due - time.monotonic(), 0.0))  # each process at its time
        member._reconcile()
        if done // count % round(REPORTS_S / COMPARES_S) == 0:
            for number in range(USED):
                path = path_of((done + number) % entities)
                meter.count("send", "contoso", path, messages=1, bytes=256, billing_units=1)
            member.record_usage(meter.drain(clock.now(), everything=True))
            member._report_all()
        done += 1
        if done % count == 0:
            print(round(done / (time.monotonic() - began), 1), flush=True)


@contextmanager
def simulated(scenario: Scenario, redis_url: str) -> Iterator[subprocess.Popen[str]]:
    arguments = [str(scenario.processes), str(scenario.entities)]
    command = [sys.executable, "-m", "tests.benchmarks.bench_sizing", *arguments]
    environment = {**os.environ, "REDIS_URL": redis_url, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def clients(namespaces: Namespaces, server: DurableRedis, folder: Path) -> dict[str, Cost]:
    """Ten real applications that send one message a second each, and one of them while its entity is failed over."""
    folder.mkdir()
    fleet = Fleet(folder, namespaces, server, "contoso")
    try:
        members = fleet.start(CLIENTS, entities=(path_of(0),), every_s=1.0)
        fleet.all_go_on_sending(path_of(0), 60)
        healthy = average(costs_of({member.name: member.pid for member in members}))
        fleet.shared.fail_over(path_of(0), "measured", operator="ada", process="web")
        fleet.until(lambda: set(fleet.states(path_of(0))) == {"failed_over"}, 60, "failed over")
        redirected = average(costs_of({member.name: member.pid for member in members}))
        fleet.shared.mark_healthy(path_of(0), operator="ada", process="web")
        return {"client, healthy": healthy, "client, failed over": redirected}
    finally:
        fleet.end()


def average(costs: dict[str, Cost]) -> Cost:
    rows = [asdict(cost) for cost in costs.values()]
    return Cost(**{name: round(sum(row[name] for row in rows) / len(rows), 1) for name in rows[0]})


class Plane(Deployment):
    """One web process, one worker of each kind, one beat."""

    def command(self, name: str) -> list[str]:
        if name in KINDS:
            host = f"{name.replace(' ', '-')}@%h"
            return ["-m", "celery", "-A", "workers", "worker", "--hostname", host, "-Q", KINDS[name]]
        return super().command(name)

    def watch(self, scenario: Scenario) -> None:
        """Start all of it for these entities, with the intervals that an installation has."""
        entities = ", ".join(f'"{path_of(number)}"' for number in range(NAMED))
        (self.folder / "pairs.toml").write_text(PAIRS.format(entities=entities))
        self._environment["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
        self.manage("sync_pairs")
        self.manage("shell", "-v0", "-c", MORE_ENTITIES.format(first=NAMED, last=scenario.entities))
        self.start("web-1", *KINDS, "beat-1")


@contextmanager
def visited(plane: Plane) -> Iterator[None]:
    """One person looks at the overview every ten seconds, and Prometheus asks every fifteen."""
    over = Event()

    def visit(path: str, every_s: float) -> None:
        while not over.wait(every_s):
            plane.get("web-1", path)

    threads = [Thread(target=visit, args=one, daemon=True) for one in (("/", 10.0), ("/metrics", 15.0))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def installation(scenario: Scenario, folder: Path) -> tuple[dict[str, Cost], float]:
    """What each part costs while so many processes report, and which share of their reports was made in time."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as ending:
        database = postgres.Server()
        ending.callback(database.end)
        database.start()
        server = DurableRedis(folder)
        ending.callback(server.kill)
        namespaces = Namespaces("contoso", *(path_of(number) for number in range(min(scenario.entities, 100))))
        ending.callback(namespaces.end)
        plane = Plane(folder, namespaces, server, database)
        ending.callback(plane.end)
        shared = SharedState(server.client(), "contoso")
        plane.watch(scenario)
        for number in range(scenario.failed_over):
            shared.fail_over(path_of(number), "measured", operator="ada", process="web")
        applications = ending.enter_context(simulated(scenario, server.url))
        ending.enter_context(visited(plane))
        assert applications.stdout is not None
        for _ in range(2):  # all have reported twice, and the workers have what they need
            applications.stdout.readline()
        pids = {name: process.pid for name, process in plane.workers.items()}
        pids |= {"Redis": server.process.pid, "PostgreSQL": database.process.pid}
        found = costs_of(pids)
        rate = float(applications.stdout.readline())
        expected = scenario.processes / COMPARES_S
        print(f"{scenario.name}: {rate} of {expected} comparisons a second", flush=True)
        return {name.removesuffix("-1"): cost for name, cost in found.items()}, round(rate / expected, 2)


def run() -> dict[str, float | dict[str, dict[str, float]]]:
    """Costs by scenario and part."""
    found: dict[str, float | dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, scenario in enumerate(SCENARIOS):
            parts, share = installation(scenario, Path(folder) / str(number))
            found[scenario.name] = {part: asdict(cost) for part, cost in parts.items()} | {PACE: {"share": share}}
            print(found[scenario.name], flush=True)
        with ExitStack() as ending:
            namespaces, server = Namespaces("contoso", path_of(0)), DurableRedis(Path(folder))
            ending.callback(namespaces.end)
            ending.callback(server.kill)
            costs = clients(namespaces, server, Path(folder) / "clients")
        found["library"] = {part: asdict(cost) for part, cost in costs.items()}
    return found


PACE = "reports of the simulated processes, of those that were due"
ROWS = [
    ("a client, healthy", "", "{library[client, healthy][cpu_ms]} ms of CPU time a second"),
    ("a client, failed over", "", "{library[client, failed over][cpu_ms]} ms of CPU time a second"),
]


def document(found: dict[str, dict[str, dict[str, float]]]) -> None:
    """Write the tables of docs/sizing.md."""
    columns = [name for name in found if name != "library"]
    head = ["| part | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    parts = [part for part in found[columns[0]] if part != PACE]
    rows = [f"| {part} | " + " | ".join(cell(found[column].get(part)) for column in columns) + " |" for part in parts]
    rows.append(f"| {PACE} | " + " | ".join(f"{found[column][PACE]['share']:.0%}" for column in columns) + " |")
    library = [f"| {part} | {cell(cost)} |" for part, cost in found["library"].items()]
    table = "\n".join([*head, *rows, "", "| library | |", "| --- | ---: |", *library])
    PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")


def cell(cost: dict[str, float] | None) -> str:
    return f"{cost['cpu_ms']:,.0f} ms, {cost['resident_mb']:,.0f} MB ({cost['pss_mb']:,.0f})" if cost else ""


if __name__ == "__main__":
    crowd(int(sys.argv[1]), int(sys.argv[2]))
