"""Whose turn it is in a backlog queue, which sessions are drained, and when the sends of one are held back so that its
barrier can be lifted (docs/design/session-order.md)."""

from types import SimpleNamespace

import hypothesis.strategies as st
from hypothesis import given

from pairing.drain.backlog_queue import Sent
from pairing.drain.session_order import InTurn
from pairing.messages.rewriting import PATH, SCHEDULED_ENQUEUE_TIME, SESSION_ID
from pairing.sessions.rulings import session_key
from pairing.sessions.turns import Holds, Turns
from tests.pairing.steps import Barred, Fetch, Lift, Peek, Queue, Receive, Send, Settle, answered


def test_a_message_waits_for_the_lower_numbers_of_its_session_only():
    turns = Turns()
    for number, key in [(1, "a"), (2, "b"), (3, "a"), (4, None)]:
        turns.see(number, key)
    assert turns.ready([3], "a") == 0
    assert turns.ready([1, 3], "a") == 2
    assert turns.ready([2], "b") == 1
    assert turns.ready([4], None) == 1
    turns.sent(1)
    assert turns.ready([3], "a") == 1


def test_of_deferred_messages_those_are_fetched_before_which_none_is_left():
    turns = Turns()
    for number, key in [(1, "a"), (2, "b"), (3, "a"), (4, None), (5, "b")]:
        turns.see(number, key)
    assert turns.in_turn([2, 3, 4, 5]) == [2, 4, 5]


def test_messages_go_as_far_as_none_is_missing_between_them():
    turns = Turns()
    for number in (1, 2, 3):
        turns.see(number, "a")
    assert turns.ready([1, 3], "a") == 1


def test_a_session_is_drained_only_when_the_whole_queue_was_looked_through():
    turns = Turns()
    turns.page([(1, "a"), (2, "b")])
    turns.gone(1)
    assert turns.drained(["a", "b"]) == []
    turns.page([])
    assert turns.drained(["a", "b"]) == ["a"]


def test_what_was_sent_and_is_still_there_keeps_its_session_barred():
    turns = Turns()
    turns.page([(1, "a")])
    turns.page([])
    turns.sent(1)
    assert turns.drained(["a"]) == []
    turns.doubt()
    turns.page([])
    assert turns.drained(["a"]) == ["a"]


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=12), st.data())
def test_a_look_from_the_beginning_knows_what_the_queue_holds(sessions, data):
    """Whatever was believed before: pages of any size, of a queue from which anything has vanished."""
    queue = dict(enumerate(sessions, start=1))
    turns = Turns()
    for number, key in queue.items():
        turns.see(number, key)
    for number in data.draw(st.sets(st.sampled_from(sorted(queue)))) if queue else ():
        del queue[number]
    turns.doubt()
    turns.look_from = 1
    while not turns.is_whole:
        size = data.draw(st.integers(1, 4))
        turns.page([(n, k) for n, k in sorted(queue.items()) if n >= turns.look_from][:size])
    assert turns.sessions() == {key for key in queue.values() if key}


def waiting(number, *, session=b"s", scheduled=False):
    """A message in the backlog."""
    properties = {PATH.encode(): b"orders"} | ({} if session is None else {SESSION_ID.encode(): session})
    if scheduled:
        properties[SCHEDULED_ENQUEUE_TIME.encode()] = b"later"
    return SimpleNamespace(sequence_number=number, application_properties=properties)


def test_a_scheduled_message_takes_none_of_its_session_along_out_of_turn():
    """Number 3 is locked by a syphon that died: 5, which is scheduled, may go before it, and 7 may not."""
    queue = {3: waiting(3), 5: waiting(5, scheduled=True), 7: waiting(7)}
    items = [SimpleNamespace(number=n, received=queue[n]) for n in (5, 7)]
    outcomes = []

    def sending(in_turn):
        yield from in_turn.fetch([5, 7])
        outcomes.append((yield from in_turn.send("orders", items)))
        outcomes.append((yield from in_turn.send("orders", items[1:])))

    pages = [[*queue.values()], []]

    def outcome(action):
        match action:
            case Barred():
                return {session_key("orders", "s"): 1}
            case Peek():
                return pages.pop(0)
            case Fetch():
                return [queue[5], queue[7]]
            case Send():
                return Sent(len(action.items))

    answered(sending(InTurn(Queue(), may_work=lambda: True, now=lambda: 0.0)), outcome)
    assert [(sent.count, sent.why) for sent in outcomes] == [(1, None), (0, "turn")]


class LongQueue:
    """A queue with messages of two sessions and of none, the primary, and syphons that are restarted."""

    def __init__(self, length):
        keys = [b"s", b"t", None]
        self.held = {number: waiting(number, session=keys[number % 3]) for number in range(1, length + 1)}
        self.home, self.peeks, self.lifted = [], 0, set()

    def syphon_lives(self, actions):
        """It is killed after so many; returns whether it had more to do."""
        steps = self.moving(InTurn(Queue(), may_work=lambda: True, now=lambda: 0.0))
        action = next(steps)
        for _ in range(actions):
            try:
                action = steps.send(self.performed(action))
            except StopIteration:
                return False
        return True

    def moving(self, queue):
        while found := (yield from queue.receive(100, 1.0)):
            for message in found:
                item = SimpleNamespace(number=message.sequence_number, received=message)
                sent = yield from queue.send("orders", [item])
                yield from queue.settle("complete" if sent.count else "abandon", [item])

    def performed(self, action):
        match action:
            case Barred():
                return {session_key("orders", session): 1 for session in "st" if session not in self.lifted}
            case Peek(number=number):
                self.peeks += 1
                return [message for n, message in self.held.items() if n >= number][:100]
            case Receive(count=count):
                return [*self.held.values()][:count]
            case Send(items=items):
                self.home += [item.number for item in items]
                return Sent(len(items))
            case Settle(verb=verb, items=items):
                for item in items:
                    if verb == "complete":
                        del self.held[item.number]
                return ["done"] * len(items)
            case Lift(drained=drained):
                self.lifted |= {session for session in "st" if session_key("orders", session) in drained}
                return len(drained)
            case _:
                return None


def test_a_long_queue_is_drained_although_its_syphon_is_killed_again_and_again():
    """Each of them looks through the whole queue once, but sends from the beginning."""
    queue = LongQueue(3000)
    lives = next(life for life in range(1, 1000) if not queue.syphon_lives(actions=25))  # to look through it takes 30
    assert lives > 400
    came_home = list(dict.fromkeys(queue.home))  # what a killed one had sent and not completed is sent again
    assert came_home == list(range(1, 3001))


def test_a_syphon_that_stays_looks_through_a_long_queue_once_and_lifts_its_barriers():
    queue = LongQueue(3000)
    assert not queue.syphon_lives(actions=100_000)
    assert queue.home == list(range(1, 3001))
    assert queue.peeks < 2 * 30 + 10
    assert not queue.syphon_lives(actions=10)  # the queue is empty now
    assert queue.lifted == {"s", "t"}


def looks_until_due(holds, near=("a",), barred=("a",)):
    for look in range(1, 1000):
        if holds.due(near, barred):
            return look
    raise AssertionError("never due")


def test_a_session_is_held_back_after_five_looks_and_then_ever_more_seldom():
    holds = Holds()
    assert [looks_until_due(holds) for _ in range(7)] == [5, 10, 20, 40, 80, 80, 80]


def test_looks_count_only_one_after_the_other():
    holds = Holds()
    for _ in range(4):
        assert not holds.due(["a"], ["a"])
    assert not holds.due([], ["a"])
    assert looks_until_due(holds) == 5


def test_a_new_barrier_begins_anew():
    holds = Holds()
    assert looks_until_due(holds) == 5
    holds.due([], [])
    assert looks_until_due(holds) == 5


def test_each_session_is_counted_for_itself():
    holds = Holds()
    holds.due(["a"], ["a", "b"])
    for _ in range(3):
        assert holds.due(["a", "b"], ["a", "b"]) == []
    assert holds.due(["a", "b"], ["a", "b"]) == ["a"]
    assert holds.due(["a", "b"], ["a", "b"]) == ["b"]
