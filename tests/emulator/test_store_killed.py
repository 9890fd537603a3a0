"""kill -9 at any moment: what the SDK was reported happened is still so after the restart."""

import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.administration import administration_of
from tests.emulator.mover import Mover
from tests.ports import free_port
from tests.selection import is_nightly


class Emulator:
    """One namespace on one port and in one folder, killed and started again."""

    def __init__(self, directory: Path, file_size_limit: int | None = None) -> None:
        self.directory = directory
        self.file_size_limit = file_size_limit
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "emulator",
            "--namespace",
            f"kept:{self._port}",
            "--store",
            str(self.directory),
        ]
        limit, errors = self.file_size_limit, subprocess.PIPE if self.file_size_limit else None
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None,
        )
        self.connection_string = self._process.stdout.readline().split(maxsplit=2)[2].strip()

    def end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait(60)
        self._process.stdout.close()

    def wait(self) -> str:
        """What it said on stderr when it ended by itself, and not with success."""
        _, errors = self._process.communicate(timeout=60)
        assert self._process.returncode == 2
        return errors

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def restart(self) -> None:
        self.kill()
        self.start()

    def client(self) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(self.connection_string, retry_total=0)

    def administration(self) -> ServiceBusAdministrationClient:
        return administration_of(self.connection_string, retry_total=0)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    running = Emulator(tmp_path / "store")
    yield running
    running.kill()


class Traffic:
    """Applications that send and receive until the namespace is gone, and write down what they were reported."""

    def __init__(self, emulator: Emulator, queue: str) -> None:
        self._client, self._queue = emulator.client(), queue
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self.settling: set[str] = set()
        self.settled: set[str] = set()
        self._progress = threading.Condition()
        work = (self._send_one_by_one, self._send_batches, self._receive, self._receive)
        self._threads = [threading.Thread(target=self._until_gone, args=(each,)) for each in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for(self, accepted: int, settled: int) -> None:
        with self._progress:
            reached = self._progress.wait_for(
                lambda: len(self.accepted) >= accepted and len(self.settled) >= settled, timeout=60
            )
        assert reached, "the applications make no progress"

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        self._client.close()

    def _until_gone(self, work) -> None:
        with suppress(ServiceBusError):
            work()

    def _note(self, where: set[str], ids: list[str]) -> None:
        with self._progress:
            where.update(ids)
            self._progress.notify_all()

    def _send_one_by_one(self) -> None:
        with self._client.get_queue_sender(self._queue) as sender:
            while True:
                self._send(sender, 1)

    def _send_batches(self) -> None:
        with self._client.get_queue_sender(self._queue) as sender:
            while True:
                self._send(sender, 20)

    def _send(self, sender, count: int) -> None:
        ids = [uuid4().hex for _ in range(count)]
        self._note(self.sent, ids)
        sender.send_messages([ServiceBusMessage(each, message_id=each) for each in ids], timeout=20)
        self._note(self.accepted, ids)

    def _receive(self) -> None:
        with self._client.get_queue_receiver(self._queue) as receiver:
            while True:
                for message in receiver.receive_messages(max_message_count=10, max_wait_time=1):
                    self._note(self.settling, [message.message_id])
                    receiver.complete_message(message)
                    self._note(self.settled, [message.message_id])


def drain(emulator: Emulator, queue: str) -> list[str]:
    """The ids of all messages that are there, in their order."""
    count = emulator.administration().get_queue_runtime_properties(queue).active_message_count
    found: list[str] = []
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with emulator.client() as client, client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        while len(found) < count:
            found += [
                message.message_id for message in receiver.receive_messages(max_message_count=500, max_wait_time=5)
            ]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_and_nothing_settled_comes_back(emulator, seed):
    chance = random.Random(seed)
    emulator.administration().create_queue("orders")
    traffic = Traffic(emulator, "orders")
    traffic.start()

    traffic.wait_for(accepted=chance.randrange(1, 600), settled=chance.randrange(1, 100))
    emulator.kill()
    traffic.join()
    emulator.start()

    found = drain(emulator, "orders")
    assert len(found) == len(set(found))
    assert traffic.accepted - traffic.settling <= set(found)
    assert not traffic.settled & set(found)
    assert set(found) <= traffic.sent


def test_of_a_transaction_all_or_nothing_is_kept(emulator):
    for queue in ("orders", "moved"):
        emulator.administration().create_queue(queue)
    number, chance, mover = 0, random.Random(1), Mover(emulator.connection_string)
    for _ in range(300 if is_nightly() else 4):
        before = number
        for _ in range(chance.randrange(3)):
            mover.move(chance, number := number + 1)
        frames = mover.transaction(chance, number + 1)
        log = next(emulator.directory.glob("*-wal"))
        written = log.stat().st_mtime_ns
        mover.socket.sendall(frames if chance.random() < 0.8 else frames[: chance.randrange(len(frames))])
        if chance.random() < 0.8:
            mover.wait_for_a_write(log, written)
        emulator.restart()
        mover.socket.close()

        mover = Mover(emulator.connection_string)
        orders, moved = mover.orders(), [int(body) for body in mover.moved()]
        last = moved[-1] if moved else before
        assert last in (number, number + 1)
        assert moved == list(range(before + 1, last + 1))
        assert orders == [b"%d of %d" % (last, len(orders))] * len(orders)
        assert bool(orders) == bool(last)
        number = last
    mover.socket.close()


def test_a_full_disk_ends_the_emulator_before_it_promises_what_it_cannot_keep(tmp_path):
    limited = Emulator(tmp_path / "store", file_size_limit=2 * 1024 * 1024)
    limited.administration().create_queue("orders")
    accepted = []
    with limited.client() as client, client.get_queue_sender("orders") as sender:
        with suppress(ServiceBusError):
            for number in range(100):
                sender.send_messages(ServiceBusMessage(b"x" * 100_000, message_id=str(number)), timeout=20)
                accepted.append(str(number))
        error = limited.wait()
    assert error.startswith("emulator: The store ")
    assert error.count("\n") == 1

    limited.file_size_limit = None
    limited.start()
    assert 0 < len(accepted) < 100
    assert drain(limited, "orders") == accepted
    limited.kill()
