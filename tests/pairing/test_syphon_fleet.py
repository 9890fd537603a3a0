"""Several processes, one syphon per backlog queue: leases, pauses, hand-over and take-over with real kills
(docs/specification.md, sections 8 and 11)."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from pairing.coordination import SharedState
from pairing.ledger import Ledger
from pairing.messages import to_backlog

PROGRAM = Path(__file__).with_name("serving_syphon.py")


def eventually(holds: Callable[[], object], within_s: float = 40) -> float:
    """How long it took."""
    began, pause = time.monotonic(), threading.Event()
    while not holds():
        assert time.monotonic() < began + within_s, "not in time"
        pause.wait(0.02)
    return time.monotonic() - began


class Fleet:
    def __init__(self, primary, secondary, redis_url, redis_client) -> None:
        self.primary, self.secondary, self.redis_url = primary, secondary, redis_url
        self.name = f"contoso-{uuid4().hex[:8]}"
        self.queues = [f"{self.name}/x-servicebus-transfer/{index}" for index in range(2)]
        self.shared = SharedState(redis_client, self.name)
        self.processes = []

    def start(self) -> subprocess.Popen:
        strings = self.primary.connection_string, self.secondary.connection_string
        command = [sys.executable, str(PROGRAM), *strings, self.name, self.redis_url]
        self.processes.append(subprocess.Popen(command, cwd=PROGRAM.parents[2], env={"PYTHONPATH": "."}))
        return self.processes[-1]

    def owners(self) -> set[int]:
        """The processes that hold the leases of both queues."""
        leases = self.shared.leases()
        return {int(owner.split(":")[1]) for owner in leases.values()} if len(leases) == 2 else set()

    def store(self, queue: int, path: str, count: int) -> None:
        sdk = ServiceBusClient.from_connection_string(self.secondary.connection_string)
        with sdk, sdk.get_queue_sender(self.queues[queue], keep_alive=0) as sender:
            sender.send_messages([to_backlog(ServiceBusMessage(str(n), message_id=str(n)), path) for n in range(count)])

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


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
    assert eventually(lambda: fleet.owners() == {second.pid}) < 6
    assert first.wait(20) == 0
    fleet.store(1, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 40)

    third = fleet.start()
    second.kill()
    assert eventually(lambda: fleet.owners() == {third.pid}) < 20
    fleet.store(0, queue, 20)
    eventually(lambda: primary.stats(queue).get("enqueued") == 60)


def test_a_paused_queue_stands_still_and_the_others_go_on(fleet, primary, queue):
    process = fleet.start()
    eventually(lambda: fleet.owners() == {process.pid})
    fleet.shared.pause_syphon(fleet.queues[0], operator="ada", reason="looks odd")
    eventually(lambda: list(fleet.shared.leases()) == [fleet.queues[1]])
    fleet.store(0, queue, 5)
    fleet.store(1, queue, 7)
    eventually(lambda: primary.stats(queue).get("enqueued") == 7)
    assert fleet.secondary.stats(fleet.queues[0])["active"] == 5
    fleet.shared.resume_syphon(fleet.queues[0])
    eventually(lambda: primary.stats(queue).get("enqueued") == 12)


def test_the_books_go_on_with_the_next_process(fleet, primary, queue):
    first = fleet.start()
    eventually(lambda: fleet.owners() == {first.pid})
    fleet.store(0, queue, 10)
    eventually(lambda: restored(fleet) == 10)
    first.kill()
    first.wait()
    fleet.start()
    fleet.store(0, queue, 10)
    eventually(lambda: restored(fleet) == 20)


def restored(fleet: Fleet) -> int:
    books = fleet.shared.ledgers().get(fleet.queues[0])
    if books is None:
        return 0
    ledger = Ledger.from_json(json.loads(books))
    return ledger.count("restored") + len(ledger.pending)
