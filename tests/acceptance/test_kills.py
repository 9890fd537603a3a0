"""Each kind of process of the control plane is killed alone and with each other one (docs/operations.md, Runbooks).

The rest goes on, nothing that was accepted is lost, no process ends by itself, and all is ready again within 15 s.
"""

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta

import duckdb
import psycopg
import pytest
import redis
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing import emulator_transport
from tests import postgres
from tests.acceptance.deployment import KINDS, Deployment, DurableRedis
from tests.acceptance.fleet import ROOT, Fleet, Member, Namespaces, SpawnServer
from tests.acceptance.inbox import Inbox
from tests.pace import GUARD, Stopwatch
from workers.heartbeats import Heartbeat

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed here"),
]
READY_WITHIN_S = 15.0
"""What docs/operations.md promises."""
ENTITIES = ("orders", "payments")
FACTS = 20
STRUCK = (*KINDS, "redis", "postgres")
CASES = [((kind,), "kill") for kind in STRUCK]
CASES += [((server,), "freeze") for server in ("redis", "postgres")]
CASES += [(pair, "kill") for pair in itertools.combinations(STRUCK, 2)]
CASES += [(("redis", "postgres"), "freeze")]


class Story:
    """The deployment, the application that sends, and what both have reported."""

    def __init__(self, plane: Deployment, namespaces: Namespaces, fleet: Fleet, inbox: Inbox) -> None:
        self.plane, self.namespaces, self.fleet, self.inbox = plane, namespaces, fleet, inbox
        self.member: Member = fleet.start(1, entities=ENTITIES)[0]
        self.emitted = 0
        self.took_s: dict[str, float] = {}

    def emit(self) -> None:
        """Some events of the application."""
        self.fleet.ask(self.member, "emit", FACTS)
        self.emitted += FACTS

    def events_stored(self) -> int:
        """How many of these are in the database."""
        query = "select count(*) from dashboard_failoverevent where entity = %s"
        with suppress(psycopg.OperationalError):
            return int(self.plane.rows(query, f"of {self.member.name}")[0][0])
        return -1

    def at_work(self, since: datetime) -> set[str]:
        """The workers whose heartbeat was written after that."""
        with suppress(redis.RedisError):
            reported = self.fleet.shared.redis.hgetall("workers:heartbeat")
            beats = {str(worker): Heartbeat.from_json(text) for worker, text in reported.items()}
            return {worker.partition("@")[0] for worker, beat in beats.items() if beat.time > since}
        return set()

    def pinged(self, since: datetime) -> bool:
        """Whether the entity that is failed over was pinged after that."""
        with suppress(redis.RedisError):
            return "payments" in (pings := self.fleet.shared.pings()) and pings["payments"].at > since
        return False

    def pages_answer(self) -> bool:
        paths = ("/readyz", "/", "/pairs/contoso/")
        return all(self.plane.get(web, path)[0] == 200 for web in KINDS["web"] for path in paths)

    def missing(self, since: datetime) -> list[str]:
        """What does not work again, of what must."""
        assert not self.plane.exits(), "a process ended by itself"
        found = {
            "pages": self.pages_answer(),
            "heartbeats": self.at_work(since) >= {*KINDS["workers"], *KINDS["collectors"]},
            "pings": self.pinged(since),
            "events": self.events_stored() == self.emitted,
        }
        return [name for name, holds in found.items() if not holds]

    def until_ready(self, since: datetime) -> None:
        missing: list[str] = []

        def is_ready() -> bool:
            missing[:] = self.missing(since)
            return not missing

        deadline = time.monotonic() + 2 * GUARD * READY_WITHIN_S
        while not is_ready():
            assert time.monotonic() < deadline, f"missing: {missing}; {self.emitted} emitted, {self.events_stored()}"
            time.sleep(0.1)  # between two looks

    def fail_over(self) -> None:
        self.namespaces.break_("payments")
        self.fleet.until(lambda: self.state() == "failed_over", 30, "payments fails over")

    def recover(self) -> None:
        """All that was accepted arrives, each message once."""
        self.namespaces.mend()
        self.fleet.until(lambda: self.state() == "healthy", 30, "payments recovers")
        accepted = set(self.member.accepted)
        self.fleet.until(lambda: accepted <= set(self.inbox.arrived), 60, "everything accepted arrives")
        assert max(self.inbox.arrived.values()) == 1
        assert not self.member.raised["orders"]

    def state(self) -> str:
        return str(self.fleet.ask(self.member, "health", "payments")[0])


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("deployment")
    with ExitStack() as ending:
        database = postgres.Server()
        ending.callback(database.end)
        database.start()
        server = DurableRedis(folder)
        ending.callback(server.kill)
        namespaces = Namespaces("contoso")
        ending.callback(namespaces.end)
        make_queues(namespaces.strings[0])
        plane = Deployment(folder, namespaces, server, database)
        ending.callback(lambda: print((folder / "workers.log").read_text()[-30_000:]))
        ending.callback(plane.end)
        plane.start(*itertools.chain.from_iterable(KINDS.values()))
        spawn_server = SpawnServer()
        ending.callback(spawn_server.end)
        fleet = Fleet(folder, namespaces, server, "contoso", spawn_server)
        ending.callback(fleet.end)
        inbox = Inbox(namespaces.strings[0], ENTITIES)
        ending.callback(inbox.end)
        story = Story(plane, namespaces, fleet, inbox)
        yield story
        print("\n".join(f"{case}: ready after {seconds:.1f} s" for case, seconds in story.took_s.items()))


def make_queues(connection_string: str) -> None:
    """Queues of the primary that drop what a killed worker delivers again."""
    with ServiceBusAdministrationClient.from_connection_string(
        connection_string, transport=emulator_transport()
    ) as client:
        for entity in ENTITIES:
            client.create_queue(
                entity, requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(days=1)
            )


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kinds", "how"), CASES, ids=["-".join((*kinds, how)) for kinds, how in CASES])
def test_all_is_ready_again_within_fifteen_seconds_and_nothing_is_lost(
    story: Story, kinds: tuple[str, ...], how: str
) -> None:
    began = datetime.now(UTC)
    story.fail_over()
    story.emit()
    story.until_ready(began)

    story.plane.strike(kinds, how)
    story.emit()
    for entity in ENTITIES:
        story.fleet.all_go_on_sending(entity, by=8)
    story.plane.repair(kinds, how)
    back = datetime.now(UTC)
    with Stopwatch() as watch:
        story.until_ready(back)
    story.took_s[f"{' and '.join(kinds)} ({how})"] = watch.took
    print(f"{kinds} {how}: {watch.elapsed:.1f} s, {watch.took:.1f} s own")

    story.recover()
    assert not story.plane.exits()
    assert watch.took < READY_WITHIN_S


def walk(story: Story, section: str) -> list[tuple[int, str]]:
    """Runs the commands of a runbook as an operator on the host of the first web process; their status and text."""
    page = (ROOT / "docs" / "operations.md").read_text()
    block = page.partition(f"### {section}\n")[2].partition("```sh\n")[2].partition("```")[0]
    address = f"127.0.0.1:{story.plane.ports['web-1']}"
    commands = block.replace("127.0.0.1:8000", address).replace(".venv/bin/python", sys.executable)
    return [story.plane.shell(command) for command in commands.splitlines()]


def walk_until_over(story: Story, section: str) -> list[tuple[int, str]]:
    """Runs them again until the runbook's sign that *it is over*, as an operator does; their status and text then."""
    found: list[tuple[int, str]] = []

    def is_over() -> bool:
        found[:] = walk(story, section)
        return '"ready": true' in found[0][1]

    deadline = time.monotonic() + GUARD * READY_WITHIN_S
    while not is_over():
        assert time.monotonic() < deadline, found
    return found


def stop(story: Story, server: str) -> datetime:
    """A server is gone, when everything works; since when."""
    began = datetime.now(UTC)
    story.fail_over()
    story.until_ready(began)
    story.plane.strike([server], "kill")
    return datetime.now(UTC)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_runbook_of_redis_shows_that_it_is_away_and_when_that_is_over(story: Story) -> None:
    stop(story, "redis")

    ready, ping = walk(story, "Redis is unavailable")
    assert '"redis": "does not answer"' in ready[1]
    assert ping[0] != 0
    for web in KINDS["web"]:
        assert story.plane.get(web, "/")[0] == 200
    story.fleet.all_go_on_sending("orders", by=4)

    story.plane.repair(["redis"], "kill")
    story.until_ready(datetime.now(UTC))
    _, ping = walk_until_over(story, "Redis is unavailable")
    assert ping == (0, "PONG\n")
    story.recover()
    assert not story.plane.exits()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_runbook_of_postgresql_shows_that_it_is_away_and_when_that_is_over(story: Story) -> None:
    since = stop(story, "postgres")

    ready, status, answers = walk(story, "PostgreSQL is unavailable")
    assert '"database": "does not answer' in ready[1]
    assert status[0] != 0
    assert status[1].startswith("error: The database postgres at 127.0.0.1:")
    assert status[1].count("\n") == 1
    assert answers[0] != 0
    for web in KINDS["web"]:
        code, text, headers = story.plane.get(web, "/")
        assert (code, "The database does not answer" in text, "Retry-After" in headers) == (503, True, True)
    story.fleet.all_go_on_sending("orders", by=4)
    story.fleet.until(lambda: story.pinged(since), 30, "workers go on pinging")

    story.plane.repair(["postgres"], "kill")
    story.until_ready(datetime.now(UTC))
    _, status, answers = walk_until_over(story, "PostgreSQL is unavailable")
    assert (status[0], answers[0]) == (0, 0)
    story.recover()
    assert not story.plane.exits()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_usage_of_all_that_was_sent_is_written_once(story: Story) -> None:
    story.fleet.close(story.member)
    once = "select record_id, reporter, kind, max_by(messages, seq) as messages from read_parquet(?) group by all"
    query = f"select sum(messages) from ({once}) where reporter = ? and kind in ('send', 'send_backlog')"

    def billed() -> int:
        files = [str(path) for path in (story.plane.usage / "usage").rglob("[!_]*.parquet")]
        with closing(duckdb.connect()) as reader:
            return int(reader.execute(query, [files, story.member.process]).fetchall()[0][0] or 0) if files else 0

    story.fleet.until(lambda: billed() >= len(story.member.accepted), 60, "usage is written")
    assert billed() == len(story.member.accepted)
