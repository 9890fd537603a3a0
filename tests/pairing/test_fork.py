"""A client that was opened before a fork: the child is refused at once, and the parent goes on."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import PairedNamespaceFaultedError

HUNG_S = 60


@pytest.fixture
def client(make_world):
    with make_world("sync").client(backlog_queue_count=1, enable_pings=False) as client:
        yield client


def in_child(work: Callable[[], None]) -> int:
    """The exit status of a forked child that does this; a child that hangs is killed by its alarm."""
    child = os.fork()
    if not child:
        signal.alarm(HUNG_S)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(PairedNamespaceFaultedError, match="create one in each process after the fork"):
        call()


def bodies(primary, queue: str, count: int) -> list[str]:
    return [str(message) for message in primary.receive(queue, count)]


def test_a_child_is_refused_at_once_and_the_parent_goes_on(client, primary, queue):
    """Also where a thread of the parent held every lock: it does not live in the child."""
    sender = client.get_queue_sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sender._link._lock, client.pair_state.condition, client._lock, client.watchdog._links_lock:
            held.set()
            done.wait(HUNG_S)

    def work() -> None:
        refused(lambda: sender.send_messages(ServiceBusMessage("child")))
        refused(lambda: sender.schedule_messages(ServiceBusMessage("child"), None))
        refused(lambda: client.get_queue_sender(queue))
        refused(lambda: client.fail_over(queue, "test"))
        refused(client.open)
        sender.close()
        client.close()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    status = in_child(work)
    done.set()
    thread.join()
    assert status == 0
    sender.send_messages(ServiceBusMessage("after"))
    assert bodies(primary, queue, 2) == ["before", "after"]


def test_a_child_of_multiprocessing_that_only_exits_leaves_the_parents_link_open(client, primary, queue):
    sender = client.get_queue_sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    link = sender._link.sender
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join(HUNG_S)
    assert child.exitcode == 0
    sender.send_messages(ServiceBusMessage("after"))
    assert sender._link.sender is link
    assert bodies(primary, queue, 2) == ["before", "after"]


def test_a_client_that_was_not_open_yet_works_in_the_child(make_world, primary, queue):
    client = make_world("sync").client(backlog_queue_count=1, enable_pings=False)

    def work() -> None:
        with client, client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("child"))

    assert in_child(work) == 0
    assert bodies(primary, queue, 1) == ["child"]
