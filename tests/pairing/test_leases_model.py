"""Every life of a lease in a small world, those with the fewest faults first, the short before the long: two processes
want one backlog queue, each is frozen, cut off from Redis or not answered at any step, time passes, Redis comes back
empty. What decides is the real thing: ``Tenure`` and the scripts in a real Redis; only the clocks are models
(docs/design/leases-and-fencing.md).

A state once seen is not entered again; so many as ``PAIRING_MODEL_RUNS`` times 10 are, or all there are:
``PAIRING_MODEL_RUNS=20000 pytest tests/pairing/test_leases_model.py --timeout 0``.
"""

import os
from collections import deque
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from redis.exceptions import ConnectionError as RedisIsAwayError

from pairing import shared_state
from pairing.shared_state import SharedState
from pairing.tenure import LEASE_S, Tenure, _Post

MOST_STATES = 10 * int(os.environ.get("PAIRING_MODEL_RUNS", "150"))
QUEUE, PAIR = "backlog/0", "leases"
PREFIX = f"pairing:{{{PAIR}}}:"
TICK_S = 2.0  # a lease is renewed after one, and over after three
OLD = 4
"""Ticks after which nothing changes any more; those of a process alone are counted to twice a lease's time."""


@dataclass(frozen=True, slots=True)
class Member:
    """What one process has in its memory."""

    token: int | None = None
    is_held: bool = False
    is_served: bool = False
    renewed_at: float = float("-inf")
    looked_at: float = float("inf")
    alone_since: float | None = None
    serves: int | None = None
    """The token under which its syphon began; None where it serves nothing."""
    works: bool = False
    """Whether its syphon was allowed a step, and has not written its books since: it may have been frozen there."""


@dataclass(frozen=True, slots=True)
class State:
    """The whole world."""

    now: float = 0.0
    ms: int = 1_000_000
    members: tuple[Member, Member] = (Member(), Member())
    owner: str | None = None
    lease_since: float = 0.0
    fence: int | None = None
    kept: int | None = None
    """The token under which the books were last written."""
    granted: int = 0
    """The highest token that was ever given."""
    granted_here: int = 0
    """The highest that this Redis remembers having given."""
    emptied_at: float = float("-inf")
    faults: int = field(default=0, compare=False)
    story: tuple[str, ...] = field(default=(), compare=False)

    def key(self) -> tuple[object, ...]:
        """What makes two worlds the same: ages instead of times, the order of tokens instead of tokens."""
        tokens = [t for m in self.members for t in (m.token, m.serves)] + [self.fence, self.kept, self.granted_here]
        order = {token: rank for rank, token in enumerate(sorted({t for t in tokens if t is not None}))}

        def age(at: float | None, most: int = OLD) -> object:
            return at if at is None or abs(at) == float("inf") else min((self.now - at) / TICK_S, most)

        members = tuple(
            (m.is_held, m.is_served, age(m.renewed_at), age(m.looked_at), age(m.alone_since, 6), m.works)
            for m in self.members
        )
        since = age(self.lease_since) if self.owner else None
        return members, tuple(order.get(t, -1) for t in tokens), self.owner, since, age(self.emptied_at)


class Line:
    """A process's way to Redis: it may be cut, or lose the answer to the lease's own calls."""

    def __init__(self, shared: SharedState, how: str) -> None:
        self._shared, self._how = shared, how

    def __getattr__(self, name):
        def call(*arguments):
            if self._how == "cut":
                raise RedisIsAwayError("cut off")
            answer = getattr(self._shared, name)(*arguments)
            if self._how == "answer lost" and name in ("acquire_lease", "renew_lease", "release_lease"):
                raise RedisIsAwayError("the answer was lost")
            return answer

        return call


class World:
    """Puts a state into the real things, lets one step happen, and reads the next state from them."""

    NAMES = ("one", "two")

    def __init__(self, client) -> None:
        self.redis = client
        self.shared = SharedState(client, PAIR)
        text = shared_state._ACQUIRE
        told = text.replace("redis.call('TIME')", "{redis.call('GET', 'test:s'), redis.call('GET', 'test:us')}")
        assert told != text
        self.shared._acquire = client.register_script(told)

    def steps(self, state: State):
        """Every world that may come next."""
        for which in (0, 1):
            yield self.look(state, which, "")
            for how in ("cut", "answer lost"):
                yield replace(self.look(state, which, how), faults=state.faults + 1)
            member = state.members[which]
            if member.serves is None:
                yield self.begin(state, which)
            else:
                yield self.work(state, which)
                yield self.write(state, which)
                yield self.end(state, which)
        yield self.time_passes(state)
        empty = replace(state, owner=None, fence=None, kept=None, granted_here=0, emptied_at=state.now)
        yield replace(empty, faults=state.faults + 1, story=(*state.story, "Redis is emptied"))

    def time_passes(self, state: State) -> State:
        now = state.now + TICK_S
        is_over = state.owner is not None and now - state.lease_since >= LEASE_S
        owner = None if is_over else state.owner
        return replace(state, now=now, ms=state.ms + 2000, owner=owner, story=(*state.story, "time"))

    def look(self, state: State, which: int, how: str) -> State:
        tenure = self.tenure(state, which, how)
        self.write_down(state)
        tenure.look()
        after = self.read_back(state, which, tenure, f"{self.NAMES[which]} looks {how}")
        if state.owner is None and after.owner is not None:
            assert after.fence is not None
            assert after.fence > state.granted, "a token does not rise"
            after = replace(after, granted=after.fence, granted_here=after.fence)
        return after

    def begin(self, state: State, which: int) -> State:
        tenure = self.tenure(state, which, "")
        if not tenure.vacant():
            return state
        token = tenure.begin(QUEUE)
        members = self.with_member(state, which, tenure, serves=token or 0)
        return replace(state, members=members, story=(*state.story, f"{self.NAMES[which]} begins"))

    def work(self, state: State, which: int) -> State:
        """The syphon asks for its next step; who is refused ends."""
        tenure, token = self.tenure(state, which, ""), state.members[which].serves
        if not tenure.may_serve(QUEUE, token or None):
            return self.end(state, which)
        others = self.tenure(state, 1 - which, ""), state.members[1 - which].serves
        if token and others[1] and self.is_calm(state):
            assert not others[0].may_serve(QUEUE, others[1]), "two hold the lease"
        members = self.with_member(state, which, tenure, works=True)
        return replace(state, members=members, story=(*state.story, f"{self.NAMES[which]} works"))

    def write(self, state: State, which: int) -> State:
        """Its books, before it completes anything: they count, or it ends."""
        member = state.members[which]
        if not member.works or not member.serves:
            return state
        self.write_down(state)
        counts = self.shared.keep_ledger(QUEUE, "{}", token=member.serves)
        kept = self.number("ledger-token")
        assert counts == (member.serves >= max(state.granted_here, state.kept or 0)), "who came later is written over"
        assert (kept or 0) >= (state.kept or 0)
        members = self.with_member(state, which, self.tenure(state, which, ""), works=False)
        after = replace(state, members=members, kept=kept, story=(*state.story, f"{self.NAMES[which]} writes"))
        return after if counts else self.end(after, which)

    def end(self, state: State, which: int) -> State:
        tenure = self.tenure(state, which, "")
        self.write_down(state)
        tenure.end(QUEUE, leaving=True)
        after = self.read_back(state, which, tenure, f"{self.NAMES[which]} ends")
        assert after.owner == state.owner or state.owner == self.NAMES[which], "another's lease was given up"
        members = self.with_member(after, which, tenure, serves=None, works=False)
        return replace(after, members=members)

    def is_calm(self, state: State) -> bool:
        """Whether Redis has answered and remembered everybody for a lease's time; else two may believe they hold."""
        return state.now - state.emptied_at >= LEASE_S and all(m.alone_since is None for m in state.members)

    # Into the real things, and back --------------------------------------------------------------------------------

    def tenure(self, state: State, which: int, how: str) -> Tenure:
        member, name = state.members[which], self.NAMES[which]
        line = SimpleNamespace(shared=Line(self.shared, how))
        tenure = Tenure(line, name, lambda: [QUEUE], lambda *told: None, lambda: state.now)
        post = tenure._posts[QUEUE] = _Post()
        post.token, post.is_held, post.is_served = member.token, member.is_held, member.is_served
        post.renewed_at, tenure._looked_at = member.renewed_at, member.looked_at
        tenure._alone_since = member.alone_since
        return tenure

    def write_down(self, state: State) -> None:
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.delete(*(PREFIX + name for name in (f"lease:{QUEUE}", "fence", "ledger-token", "ledger")))
            pipe.mset({"test:s": state.ms // 1000, "test:us": state.ms % 1000 * 1000})
            if state.owner:
                pipe.set(PREFIX + f"lease:{QUEUE}", state.owner)  # its end is the model's: no PX, unless taken anew
            for name, token in (("fence", state.fence), ("ledger-token", state.kept)):
                if token is not None:
                    pipe.hset(PREFIX + name, QUEUE, token)
            pipe.execute()

    def read_back(self, state: State, which: int, tenure: Tenure, step: str) -> State:
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.get(PREFIX + f"lease:{QUEUE}")
            pipe.pttl(PREFIX + f"lease:{QUEUE}")
            owner, left = pipe.execute()
        since = state.now if left > 0 else state.lease_since
        members, story = self.with_member(state, which, tenure), (*state.story, step)
        return replace(
            state,
            ms=state.ms + 1,
            members=members,
            owner=owner,
            lease_since=since,
            fence=self.number("fence"),
            story=story,
        )

    def with_member(self, state: State, which: int, tenure: Tenure, **more) -> tuple[Member, Member]:
        post = tenure._posts[QUEUE]
        member = replace(
            state.members[which],
            token=post.token,
            is_held=post.is_held,
            is_served=post.is_served,
            renewed_at=post.renewed_at,
            looked_at=tenure._looked_at,
            alone_since=tenure._alone_since,
            **more,
        )
        return (member, state.members[1]) if which == 0 else (state.members[0], member)

    def number(self, name: str) -> int | None:
        found = self.redis.hget(PREFIX + name, QUEUE)
        return None if found is None else int(found)


def explore(world: World, most: int) -> tuple[int, bool]:
    """How many states were entered, and whether they are all there are; a broken rule comes with its story."""
    seen, waiting, entered = {State().key()}, {0: deque([State()])}, 0
    while (faults := next((n for n in sorted(waiting) if waiting[n]), None)) is not None and entered < most:
        state = waiting[faults].popleft()
        entered += 1
        try:
            for after in world.steps(state):
                if (key := after.key()) not in seen:
                    seen.add(key)
                    waiting.setdefault(after.faults, deque()).append(after)
        except AssertionError as error:
            error.add_note(f"after {' | '.join(state.story)}")
            raise
    print(f"{entered} states, with {faults} faults at last")
    return entered, faults is None


def test_of_all_lives_of_a_lease_none_has_two_holders_whose_books_count(redis_client):
    entered, is_all = explore(World(redis_client), MOST_STATES)
    assert is_all or entered == MOST_STATES
