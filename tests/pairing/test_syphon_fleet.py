"""Several processes, one syphon per backlog queue: leases, pauses, hand-over and take-over with real kills
(docs/specification.md, sections 8 and 11)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from pairing.drain.ledger import Ledger
from pairing.fleet.coordination import EVENTS, USAGE, SharedState
from pairing.messages.rewriting import to_backlog
from tests.pace import Stopwatch, eventually

PROGRAM = Path(__file__).with_name("serving_syphon.py")


def took(holds: Callable[[], object]) -> float:
    """How many seconds it took until it held."""
    with Stopwatch() as watch:
        eventually(holds)
    return watch.took


class Fleet:
    def __init__(self, primary, secondary, redis_url, redis_client) -> None:
        self.primary, self.secondary, self.redis_url = primary, secondary, redis_url
        self.name = f"contoso-{uuid4().hex[:8]}"
        self.queues = [f"{self.name}/x-servicebus-transfer/{index}" for index in range(2)]
        self.shared = SharedState(redis_client, self.name)
        self.processes = []

    def start(self, program: str = PROGRAM.name, *reported: str, **arguments) -> subprocess.Popen:
        strings = self.primary.connection_string, self.secondary.connection_string
        command = [sys.executable, str(PROGRAM.with_name(program)), *strings, self.name, self.redis_url, *reported]
        environment = {"PYTHONPATH": "."}
        self.processes.append(subprocess.Popen(command, cwd=PROGRAM.parents[2], env=environment, **arguments))
        return self.processes[-1]

    def owners(self) -> set[int]:
        """The processes that hold the leases of both queues."""
        leases = self.shared.leases()
        return {int(owner.split(":")[1]) for owner in leases.values()} if len(leases) == 2 else set()

    def has_joined(self, process: subprocess.Popen) -> bool:
        """Whether the process has reported that it brings home what it may."""
        return any(
            f":{process.pid}:" in json.loads(fields["event"])["process"]
            for _, fields in self.shared.redis.xrange(EVENTS)
        )

    def store(self, queue: int, path: str, count: int) -> None:
        sdk = ServiceBusClient.from_connection_string(self.secondary.connection_string)
        with sdk, sdk.get_queue_sender(self.queues[queue], keep_alive=0) as sender:
            sender.send_messages([to_backlog(ServiceBusMessage(str(n), message_id=str(n)), path) for n in range(count)])

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def fleet(primary, secondary, redis_url, redis_client):
    fleet = Fleet(primary, secondary, redis_url, redis_client)
    yield fleet
    fleet.end()


def test_queues_are_handed_over_on_a_stop_and_taken_over_after_a_kill(fleet, primary, queue):
    first = fleet.start()
    eventually(lambda: fleet.owners() == {first.pid})
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
    second.kill()
    assert took(lambda: fleet.owners() == {third.pid}) < 10
    fleet.store(0, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 60)


def test_what_is_paused_stands_still_and_the_rest_goes_on(fleet, primary, queue):
    """A backlog queue, which gives its lease up, and an entity of another queue."""
    other = primary.create_queue()
    process = fleet.start()
    eventually(lambda: fleet.owners() == {process.pid})
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
    with fleet.secondary.administration() as administration:
        administration.create_queue(fleet.queues[0], lock_duration=timedelta(seconds=12))
    first = fleet.start("freezing_syphon.py", step, stdout=subprocess.PIPE, text=True)
    eventually(lambda: fleet.owners() == {first.pid})
    fleet.store(0, queue, 10)
    eventually(lambda: is_stopped(first))
    assert primary.stats(queue).get("enqueued", 0) == 10 * (arrive - 1)
    second = fleet.start()
    eventually(lambda: fleet.owners() == {second.pid})
    os.kill(first.pid, signal.SIGCONT)
    assert first.stdout.readline() == f"{becomes}\n"
    eventually(lambda: stored_ledgers(fleet).count("restored") == 10)  # what the first had locked comes again
    first.terminate()
    assert first.wait(60) == 0
    assert stored_ledgers(fleet).reporter.split(":")[1] == str(second.pid)
    assert stored_ledgers(fleet).balance(0).missing == 0
    found = [message.message_id for message in primary.receive(queue, 10 * arrive)]
    assert sorted(found) == sorted([str(n) for n in range(10)] * arrive)


def test_what_a_holder_holds_that_stays_frozen_comes_home_lock_by_lock_and_the_rest_once_it_wakes(
    fleet, primary, queue
):
    """The broker deals in turns to all links with credit, a frozen one too: of each lapse it takes half again."""
    with fleet.secondary.administration() as administration:
        administration.create_queue(fleet.queues[0], lock_duration=timedelta(seconds=9))
    first = fleet.start("freezing_syphon.py", "keep", stdout=subprocess.PIPE, text=True)
    eventually(lambda: fleet.owners() == {first.pid})
    fleet.store(0, queue, 10)
    eventually(lambda: is_stopped(first))
    second = fleet.start()
    eventually(lambda: fleet.owners() == {second.pid})
    eventually(lambda: 5 <= stored_ledgers(fleet).count("restored") < 10)
    os.kill(first.pid, signal.SIGCONT)
    assert first.stdout.readline() == "refused\n"
    assert took(lambda: stored_ledgers(fleet).count("restored") == 10) < 8, (
        "its link holds messages until their locks end"
    )
    assert first.poll() is None
    assert stored_ledgers(fleet).balance(0).missing == 0


def test_nothing_is_drained_that_a_kill_would_hide_while_redis_does_not_answer(
    primary, secondary, queue, server, tmp_path
):
    """What was completed but not recorded would be reported as missing by the next process."""
    fleet = Fleet(primary, secondary, server.url, redis.Redis.from_url(server.url, decode_responses=True))
    log = tmp_path / "first.log"
    with secondary.administration() as administration:
        administration.create_queue(fleet.queues[0], lock_duration=timedelta(seconds=9))
    try:
        with log.open("w") as stderr:
            first = fleet.start(stderr=stderr)
        eventually(lambda: fleet.owners() == {first.pid})
        server.freeze()
        fleet.store(0, queue, 20)
        eventually(lambda: "its drain waits for Redis" in log.read_text())
        assert primary.stats(queue).get("enqueued", 0) == 0
        first.kill()
        first.wait()
        server.thaw()
        fleet.start()
        eventually(lambda: stored_ledgers(fleet).count("restored") == 20)
        assert stored_ledgers(fleet).balance(0).missing == 0
        assert [message.message_id for message in primary.receive(queue, 20)] == [str(n) for n in range(20)]
    finally:
        fleet.end()


def test_usage_that_a_killed_syphon_had_not_reported_is_estimated_by_the_next(fleet, primary, queue):
    first = fleet.start()
    eventually(lambda: fleet.owners() == {first.pid})
    fleet.store(0, queue, 10)
    eventually(lambda: moved(fleet) == 10)
    died = stored_ledgers(fleet).reporter
    first.kill()
    first.wait()
    fleet.start()
    eventually(lambda: estimates(fleet, died))
    assert estimates(fleet, died) == {
        ("syphon_receive", "contoso-dr", queue): 10,
        ("syphon_send", fleet.name, queue): 10,
        ("syphon_settle", "contoso-dr", queue): 10,
    }
    eventually(lambda: f"after {died} died; usage of 10 messages is estimated" in reasons(fleet))


def test_a_pace_set_by_an_operator_is_obeyed_within_two_seconds(fleet, primary, queue):
    process = fleet.start()
    eventually(lambda: fleet.owners() == {process.pid})
    fleet.shared.pace_syphon(queue, 10, "ada", "receivers cannot keep up")
    threading.Event().wait(2)  # what is promised, not a synchronisation
    fleet.store(0, queue, 100)
    eventually(lambda: primary.stats(queue).get("enqueued", 0) >= 10)
    began, already = time.monotonic(), primary.stats(queue)["enqueued"]
    eventually(lambda: primary.stats(queue)["enqueued"] >= 40)
    assert time.monotonic() - began > (40 - already) / 15  # 2 s for 30 messages at 10 a second
    fleet.shared.pace_syphon(queue, None, "ada", "they can again")
    assert took(lambda: primary.stats(queue)["enqueued"] == 100) < 5


def is_stopped(process: subprocess.Popen) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def reasons(fleet: Fleet) -> list[str]:
    """Why things happened, as the control plane is reported."""
    return [json.loads(fields["event"])["reason"] for _, fields in fleet.shared.redis.xrange(EVENTS)]


def estimates(fleet: Fleet, reporter: str) -> dict[tuple[str, str, str], int]:
    """What was estimated for that process: messages by kind, namespace and entity."""
    records = [json.loads(fields["record"]) for _, fields in fleet.shared.redis.xrange(USAGE)]
    return {
        (record["kind"], record["namespace"], record["entity"]): record["messages"]
        for record in records
        if record["reporter"] == reporter and record["seq"] == 0
    }


def stored_ledgers(fleet: Fleet) -> Ledger:
    kept = fleet.shared.ledger(fleet.queues[0])
    return Ledger("nobody's yet") if kept is None else Ledger.from_json(json.loads(kept))


def moved(fleet: Fleet) -> int:
    """Messages that were sent, according to the ledger; they are completed or about to be."""
    return sum(sum(counts.values()) for counts in stored_ledgers(fleet).recent.values())
