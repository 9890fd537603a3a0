"""Several processes, one syphon per backlog queue: leases, pauses, hand-over and take-over with real kills
(docs/specification.md, sections 8 and 11)."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
import redis
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from pairing.drain.ledger import Ledger
from pairing.fleet.coordination import EVENTS, USAGE
from pairing.messages.rewriting import to_backlog
from tests import forked
from tests.pace import Stopwatch, eventually, slowed
from tests.pairing.processes import Fleet, kill


def took(holds: Callable[[], object]) -> float:
    """How many seconds it took until it held."""
    with Stopwatch() as watch:
        eventually(holds)
    return watch.took


class Syphons(Fleet):
    """Syphons, and what is known of them."""

    def freezing(self, step: str) -> tuple[forked.Process, TextIO]:
        """A syphon that stops itself right before this step, and what it prints."""
        reading, writing = os.pipe()
        process = self.start("serving_syphon.py", step, out=writing)
        os.close(writing)
        return process, os.fdopen(reading)

    def owners(self) -> set[int]:
        """The processes that hold the leases of both queues."""
        leases = self.shared.leases()
        return {int(owner.split(":")[1]) for owner in leases.values()} if len(leases) == 2 else set()

    def serves(self, process: forked.Process) -> None:
        """Wait until this process holds both leases."""
        eventually(lambda: self.owners() == {process.pid})

    def events(self) -> list[dict]:
        return [json.loads(fields["event"]) for _, fields in self.shared.redis.xrange(EVENTS)]

    def has_joined(self, process: forked.Process) -> bool:
        """Whether the process has reported that it brings home what it may."""
        return any(f":{process.pid}:" in event["process"] for event in self.events())

    def store(self, queue: int, path: str, count: int) -> None:
        sdk = ServiceBusClient.from_connection_string(self.secondary.connection_string)
        with sdk, sdk.get_queue_sender(self.queues[queue], keep_alive=0) as sender:
            sender.send_messages([to_backlog(ServiceBusMessage(str(n), message_id=str(n)), path) for n in range(count)])

    @property
    def ledger(self) -> Ledger:
        """That of the first queue, as stored."""
        kept = self.shared.ledger(self.queues[0])
        return Ledger("nobody's yet") if kept is None else Ledger.from_json(json.loads(kept))


@pytest.fixture
def fleet(primary, secondary, redis_url, redis_client):
    fleet = Syphons(primary, secondary, redis_url, redis_client)
    yield fleet
    fleet.end()


def test_queues_are_handed_over_on_a_stop_and_taken_over_after_a_kill(fleet, primary, queue):
    first = fleet.start()
    fleet.serves(first)
    second = fleet.start()
    fleet.store(0, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 20)
    assert fleet.owners() == {first.pid}
    first.terminate()
    assert took(lambda: fleet.owners() == {second.pid}) < 3
    assert first.wait(60) == 0
    fleet.store(1, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 40)

    third = fleet.start()
    eventually(lambda: fleet.has_joined(third))
    kill(second)
    assert took(lambda: fleet.owners() == {third.pid}) < 10
    fleet.store(0, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 60)


def test_what_is_paused_stands_still_and_the_rest_goes_on(fleet, primary, queue):
    """A backlog queue, which gives its lease up, and an entity of another queue."""
    other = primary.create_queue()
    process = fleet.start()
    fleet.serves(process)
    for target in (queue, fleet.queues[1]):  # the second tells by its lease that both were read
        fleet.shared.pause_syphon(target, operator="ada", reason="its receivers cannot keep up")
    eventually(lambda: list(fleet.shared.leases()) == [fleet.queues[0]])
    fleet.store(0, queue, 5)
    fleet.store(1, other, 6)
    fleet.store(0, other, 7)
    eventually(lambda: primary.stats(other).get("enqueued") == 7)
    assert primary.stats(queue).get("enqueued", 0) == 0
    assert fleet.secondary.stats(fleet.queues[1])["active"] == 6
    for target, path, count in ((queue, queue, 5), (fleet.queues[1], other, 13)):
        fleet.shared.resume_syphon(target)
        eventually(lambda path=path, count=count: primary.stats(path).get("enqueued") == count)


@pytest.mark.parametrize(
    ("step", "becomes", "arrive"),
    [
        pytest.param("send", "0 lease", 1, id="send"),
        pytest.param("keep", "refused", 2, id="keep", marks=pytest.mark.nightly),
        pytest.param("complete", str(["unknown"] * 10), 2, id="complete", marks=pytest.mark.nightly),
    ],
)
def test_a_holder_that_was_frozen_past_its_lease_does_no_harm(fleet, primary, queue, step, becomes, arrive):
    """It stops before a step, another takes the lease, and it goes on while it still has the locks."""
    fleet.create_queues(lock_s=12)
    first, printed = fleet.freezing(step)
    fleet.serves(first)
    fleet.store(0, queue, 10)
    eventually(lambda: is_stopped(first))
    assert primary.stats(queue).get("enqueued", 0) == 10 * (arrive - 1)
    second = fleet.start()
    fleet.serves(second)
    os.kill(first.pid, signal.SIGCONT)
    with printed:
        assert printed.readline() == f"{becomes}\n"
    eventually(lambda: fleet.ledger.count("restored") == 10)  # what the first had locked comes again
    first.terminate()
    assert first.wait(60) == 0
    assert fleet.ledger.reporter.split(":")[1] == str(second.pid)
    assert fleet.ledger.balance(0).missing == 0
    found = [message.message_id for message in primary.receive(queue, 10 * arrive)]
    assert sorted(found) == sorted([str(n) for n in range(10)] * arrive)


def test_what_a_holder_holds_that_stays_frozen_comes_home_lock_by_lock_and_the_rest_once_it_wakes(
    fleet, primary, queue
):
    """The broker deals in turns to all links with credit, a frozen one too: of each lapse it takes half again."""
    fleet.create_queues(lock_s=9)
    first, printed = fleet.freezing("keep")
    fleet.serves(first)
    fleet.store(0, queue, 10)
    eventually(lambda: is_stopped(first))
    second = fleet.start()
    fleet.serves(second)
    eventually(lambda: 5 <= fleet.ledger.count("restored") < 10)
    os.kill(first.pid, signal.SIGCONT)
    with printed:
        assert printed.readline() == "refused\n"
    assert took(lambda: fleet.ledger.count("restored") == 10) < 8, "its link holds messages until their locks end"
    assert first.poll() is None
    assert fleet.ledger.balance(0).missing == 0


def test_nothing_is_drained_that_a_kill_would_hide_while_redis_does_not_answer(
    primary, secondary, queue, server, tmp_path
):
    """What was completed but not recorded would be reported as missing by the next process."""
    fleet = Syphons(primary, secondary, server.url, redis.Redis.from_url(server.url, decode_responses=True))
    log = tmp_path / "first.log"
    fleet.create_queues(lock_s=9)
    try:
        with log.open("w") as stderr:
            first = fleet.start(err=stderr.fileno())
        fleet.serves(first)
        server.freeze()
        fleet.store(0, queue, 20)
        eventually(lambda: "its drain waits for Redis" in log.read_text())
        assert primary.stats(queue).get("enqueued", 0) == 0
        kill(first)
        server.thaw()
        fleet.start()
        eventually(lambda: fleet.ledger.count("restored") == 20)
        assert fleet.ledger.balance(0).missing == 0
        assert [message.message_id for message in primary.receive(queue, 20)] == [str(n) for n in range(20)]
    finally:
        fleet.end()


def test_usage_that_a_killed_syphon_had_not_reported_is_estimated_by_the_next(fleet, primary, queue):
    first = fleet.start()
    fleet.serves(first)
    fleet.store(0, queue, 10)
    eventually(lambda: moved(fleet) == 10)
    died = fleet.ledger.reporter
    kill(first)
    fleet.start()
    eventually(lambda: estimates(fleet, died))
    assert estimates(fleet, died) == {
        ("syphon_receive", "contoso-dr", queue): 10,
        ("syphon_send", fleet.name, queue): 10,
        ("syphon_settle", "contoso-dr", queue): 10,
    }
    estimated = f"after {died} died; usage of 10 messages is estimated"
    eventually(lambda: estimated in [event["reason"] for event in fleet.events()])


def test_a_pace_set_by_an_operator_is_obeyed_within_two_seconds(fleet, primary, queue):
    fleet.serves(fleet.start())
    fleet.shared.pace_syphon(queue, 10, "ada", "receivers cannot keep up")
    threading.Event().wait(slowed(2))  # what is promised, not a synchronisation
    with Stopwatch() as watch:
        fleet.store(0, queue, 100)
        eventually(lambda: primary.stats(queue).get("enqueued", 0) >= 40)
    assert watch.elapsed > 40 / 15  # at 10 a second
    fleet.shared.pace_syphon(queue, None, "ada", "they can again")
    assert took(lambda: primary.stats(queue)["enqueued"] == 100) < 5


def is_stopped(process: forked.Process) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def estimates(fleet: Syphons, reporter: str) -> dict[tuple[str, str, str], int]:
    """What was estimated for that process: messages by kind, namespace and entity."""
    records = [json.loads(fields["record"]) for _, fields in fleet.shared.redis.xrange(USAGE)]
    return {
        (record["kind"], record["namespace"], record["entity"]): record["messages"]
        for record in records
        if record["reporter"] == reporter and record["seq"] == 0
    }


def moved(fleet: Syphons) -> int:
    """Messages that were sent, according to the ledger; they are completed or about to be."""
    return sum(sum(counts.values()) for counts in fleet.ledger.recent.values())
