"""How many messages of a backlog queue are for whom, of queues too long for one look."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.fleet.depth.census import Census
from tests.selection import depth

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
MOST, PAGE = 40, 10


@dataclass
class Message:
    sequence_number: int
    entity: str
    enqueued_time_utc: datetime = NOW

    @property
    def application_properties(self) -> dict[bytes, bytes]:
        return {b"x-ms-path": self.entity.encode()}


@dataclass
class Queue:
    """A backlog queue whose numbers rise without gaps, and its census."""

    messages: list[Message] = field(default_factory=list)
    last: int = 0
    peeks: int = 0
    census: Census = field(default_factory=Census)

    def send(self, entity: str, count: int) -> None:
        self.messages += [Message(self.last + number, entity) for number in range(1, count + 1)]
        self.last += count

    def drain(self, count: int, *entities: str) -> None:
        """The first so many messages come home: of these entities, or of all."""
        leaving = [one.sequence_number for one in self.messages if not entities or one.entity in entities]
        gone = set(leaving[:count])
        self.messages = [one for one in self.messages if one.sequence_number not in gone]

    def peek(self, number: int) -> list[Message]:
        self.peeks += 1
        return [one for one in self.messages if one.sequence_number >= number][:PAGE]

    def look(self, times: int = 1) -> Census:
        """So many looks; the census goes from one to the next through Redis."""
        for _ in range(times):
            self.census.look(len(self.messages), self.peek, MOST)
            self.census = Census(**json.loads(json.dumps(asdict(self.census))))
        return self.census

    @property
    def reported(self) -> dict[str, int]:
        return self.census.waiting(len(self.messages))


def holding(**counts: int) -> Queue:
    queue = Queue()
    for entity, count in counts.items():
        queue.send(entity, count)
    return queue


def test_what_one_look_can_see_is_counted_exactly_each_time():
    queue = holding(orders=30, payments=5)
    queue.look()
    queue.drain(30, "orders")
    assert (queue.look().is_exact, queue.reported) == (True, {"payments": 5})


def test_an_empty_queue_holds_nothing_for_anybody_at_once_and_costs_no_peek():
    queue = holding(orders=500)
    queue.look()
    queue.drain(500)
    peeks = queue.peeks
    assert (queue.look().is_exact, queue.reported, queue.peeks) == (True, {}, peeks)


def test_a_long_queue_is_gone_through_over_successive_looks():
    queue = holding(orders=90, payments=30)
    assert [queue.look().is_exact for _ in range(3)] == [False] * 3
    assert (queue.look().is_caught_up, queue.reported) == (True, {"orders": 90, "payments": 30})
    assert queue.peeks <= 4 * (MOST / PAGE + 1)


def test_a_first_pass_that_is_not_over_says_that_not_all_was_seen():
    assert not holding(orders=100).look().is_caught_up


def test_an_entity_whose_messages_are_home_has_none_after_a_bounded_number_of_looks():
    queue = holding(payments=50, orders=400)
    queue.look(13)
    assert queue.reported == {"payments": 50, "orders": 400}
    queue.drain(50, "payments")
    queue.look(2 * 400 // (MOST // 2))
    assert queue.reported == {"orders": 400}


def test_new_messages_are_seen_at_the_next_look_however_long_the_queue():
    queue = holding(orders=400)
    queue.look(12)
    queue.send("payments", 5)
    queue.look()
    assert queue.reported == {"orders": 400, "payments": 5}


def test_estimates_sum_to_what_the_queue_holds():
    queue = holding(orders=300)
    queue.look()
    assert queue.reported == {"orders": 300}
    queue.drain(100)
    queue.look()
    assert queue.reported == {"orders": 200}


def test_the_oldest_message_for_each_is_known():
    queue = holding(orders=3)
    queue.messages[1].enqueued_time_utc = NOW - timedelta(hours=1)
    assert queue.look().oldest == {"orders": NOW - timedelta(hours=1)}


def test_a_queue_that_was_made_anew_is_found_out():
    queue = holding(orders=400)
    queue.look(12)
    queue.messages, queue.last = [], 0
    queue.send("payments", 100)
    queue.look(12)
    assert queue.reported == {"payments": 100}


@settings(deadline=None, max_examples=depth(60))
@given(st.data())
def test_when_nothing_changes_any_more_the_counts_become_right(data):
    queue = Queue()
    for _ in range(data.draw(st.integers(1, 6))):
        for entity in ("orders", "payments", "stock"):
            queue.send(entity, data.draw(st.integers(0, 70)))
        queue.look()
        queue.drain(data.draw(st.integers(0, 90)), *data.draw(st.sets(st.sampled_from(["orders", "payments"]))))
    queue.look(2 * len(queue.messages) // (MOST // 2) + 4)
    names = [one.entity for one in queue.messages]
    assert queue.reported == {name: names.count(name) for name in names}
