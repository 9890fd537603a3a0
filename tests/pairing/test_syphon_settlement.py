"""Both ways to settle do the same, message by message (docs/specification.md, section 8)."""

from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncioClient

from pairing.drain.settlement import choose, one_by_one, overlapped
from pairing.drive import run, run_async


@pytest.fixture(params=[one_by_one, overlapped], ids=["one by one", "overlapped"])
def way(request):
    return request.param


@pytest.fixture
def queue(secondary):
    return secondary.create_queue()


@pytest.fixture
def receiver(secondary, queue):
    sdk = ServiceBusClient.from_connection_string(secondary.connection_string, retry_total=0)
    with sdk, sdk.get_queue_receiver(queue, prefetch_count=99, keep_alive=0) as receiver:
        yield receiver


def put(secondary, queue, count: int) -> None:
    sdk = ServiceBusClient.from_connection_string(secondary.connection_string)
    with sdk, sdk.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(count)])


def take(receiver, count: int) -> list:
    taken = []
    while len(taken) < count:
        taken += receiver.receive_messages(count - len(taken), max_wait_time=5)
    return taken


def settle(way, receiver, verb, messages) -> list[str]:
    outcomes = ["unknown"] * len(messages)
    run(way(receiver, (verb, messages, "a reason", "a description"), outcomes, 10.0))
    return outcomes


def test_every_other_message_of_a_batch_can_be_settled_otherwise(way, receiver, secondary, queue):
    put(secondary, queue, 60)
    messages = take(receiver, 60)
    assert settle(way, receiver, "complete", [*messages[::2], *messages[21::2]]) == ["done"] * 50
    assert settle(way, receiver, "dead_letter", messages[1:20:2]) == ["done"] * 10
    assert (secondary.stats(queue)["completed"], secondary.stats(queue)["active"]) == (50, 0)
    letters = secondary.receive(f"{queue}/$DeadLetterQueue", 10)
    assert [str(letter) for letter in letters] == [str(number) for number in range(1, 20, 2)]
    assert {(letter.dead_letter_reason, letter.dead_letter_error_description) for letter in letters} == {
        ("a reason", "a description")
    }


def test_abandoned_messages_come_again_in_their_order(way, receiver, secondary, queue):
    put(secondary, queue, 5)
    assert settle(way, receiver, "abandon", take(receiver, 5)) == ["done"] * 5
    assert [str(message) for message in take(receiver, 5)] == list("01234")


def test_deferred_messages_are_fetched_by_their_numbers_and_can_be_settled_twice_over(way, receiver, secondary, queue):
    put(secondary, queue, 6)
    messages = take(receiver, 6)
    numbers = [message.sequence_number for message in messages]
    assert settle(way, receiver, "defer", messages) == ["done"] * 6
    fetched = receiver.receive_deferred_messages(numbers)
    assert settle(way, receiver, "abandon", fetched[3:]) == ["done"] * 3
    assert settle(way, receiver, "complete", fetched[:3]) == ["done"] * 3
    again = receiver.receive_deferred_messages(numbers[3:])
    assert settle(way, receiver, "complete", again) == ["done"] * 3
    assert secondary.stats(queue)["completed"] == 6


def test_of_a_lost_lock_is_reported_and_the_others_are_settled(way, receiver, secondary, queue):
    put(secondary, queue, 4)
    messages = take(receiver, 4)
    settle(way, receiver, "abandon", messages[1:2])
    again = take(receiver, 1)  # under a new lock: the old one is lost
    messages[1]._settled = False
    assert settle(way, receiver, "complete", messages) == ["done", "lost", "done", "done"]
    assert settle(way, receiver, "complete", again) == ["done"]


def test_messages_that_came_by_another_link_are_settled_by_their_locks(way, receiver, secondary, queue):
    put(secondary, queue, 3)
    messages = take(receiver, 3)
    sdk = ServiceBusClient.from_connection_string(secondary.connection_string, retry_total=0)
    with sdk, sdk.get_queue_receiver(queue) as other:
        assert settle(way, other, "complete", messages) == ["done"] * 3
    assert secondary.stats(queue)["completed"] == 3


async def test_the_asyncio_sdk_settles_in_the_overlapped_way_too(secondary, queue):
    put(secondary, queue, 60)
    sdk, taken, outcomes = AsyncioClient.from_connection_string(secondary.connection_string), [], ["unknown"] * 60
    async with sdk, sdk.get_queue_receiver(queue, prefetch_count=99) as receiver:
        while len(taken) < 60:
            taken += await receiver.receive_messages(60 - len(taken), max_wait_time=5)
        assert choose(receiver) is overlapped
        await run_async(overlapped(receiver, ("complete", taken, "", ""), outcomes, 10.0))
    assert (outcomes, secondary.stats(queue)["completed"]) == (["done"] * 60, 60)


def test_the_overlapped_way_is_chosen_only_where_the_sdk_has_all_it_takes(receiver):
    assert choose(receiver) is overlapped
    stranger = SimpleNamespace(_handler=SimpleNamespace(_link=SimpleNamespace(_pending_dispositions={})))
    assert choose(stranger) is one_by_one
