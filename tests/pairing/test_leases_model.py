"""Every life of a lease in a bounded world, all of them: two processes want one backlog queue, each is frozen, cut off
from Redis or not answered at any step, an operator pauses and resumes, time passes, Redis comes back empty or with its
clock behind. What decides is the real thing: ``LeaseHolder`` and the scripts in a real Redis; only the clocks are
models (docs/design/leases-and-fencing.md).

The bound: one queue, two processes, time in ticks of 2 s and at most ``MOST`` disturbances in a life (one at night,
none in `make test`), or in ticks of 1.25 s, by which a look comes between two renewals, and one disturbance less. A
disturbance is: being cut off or not answered, an operator's word, a Redis emptied or with its clock behind. To freeze
is none: whoever does nothing while time passes is frozen. A life is of any length, in any order. Two worlds are one
where nothing can tell them apart: ages matter up to the longest that anything asks for, of tokens the order, of the
processes no name. What a script has answered to one question is not asked again. No bound on disturbances has
``PAIRING_MODEL_RUNS=20000 pytest tests/pairing/test_leases_model.py --timeout 0``.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial, partialmethod
from math import ceil
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from redis.exceptions import ConnectionError as RedisIsAwayError

from pairing.drain.shared.lease_holder import LEASE_S, LeaseHolder, _QueueLease
from pairing.fleet import shared_state
from pairing.fleet.shared_health import Pause
from pairing.fleet.shared_state import SharedState
from tests.selection import is_nightly

MOST = 1000 if int(os.environ.get("PAIRING_MODEL_RUNS", "150")) > 1000 else int(is_nightly())
QUEUE, PAIR = "backlog/0", "leases"
PREFIX = f"pairing:{{{PAIR}}}:"
TICK_S = 2.0
OVER, ALONE = 3, 5
"""Ticks after which a lease is over, and after which a process alone serves what it did not hold."""
AHEAD_MS, STEP = 1_000_000, 10
NAMES = ("one", "two")
PAUSE = Pause("ann", "looks odd", SimpleNamespace(astimezone=None))


class Member(NamedTuple):
    """What one process has in its memory; times as ticks ago, at most so many as matter."""

    token: int | None = None
    is_held: bool = False
    is_served: bool = False
    is_paused: bool = False
    has_reported: bool = False
    renewed: int = OVER
    looked: int | None = None
    """None where it never has."""
    alone: int | None = None
    serves: int | None = None
    """The token under which its syphon began, 0 for none; None where it serves nothing."""
    works: bool = False
    """Whether its syphon was allowed a step, and has not written its ledger since: it may have been frozen there."""

    def in_short(self) -> "Member":
        """Without what nobody asks for any more: how old a lease is that is not held, what was before a freeze."""
        awake = self.looked != OVER
        return self._replace(
            token=self.token if self.is_held or self.serves else None,
            has_reported=False,  # of pauses, to people
            renewed=self.renewed if self.is_held and awake else OVER,
            alone=self.alone if awake else None,
        )

    def renumbered(self, places: dict[int | None, int | None]) -> "Member":
        """With other numbers for its tokens."""
        if self.token is None and not self.serves:
            return self
        return self._replace(token=places[self.token], serves=places[self.serves])


in_short = cache(Member.in_short)
"""There are few members and many worlds that they are in."""


class Content(NamedTuple):
    """What Redis holds."""

    owner: str | None = None
    fence: int | None = None
    kept: int | None = None
    """The token under which the ledger was last written."""


class State(NamedTuple):
    """The whole world."""

    members: tuple[Member, Member] = (Member(), Member())
    content: Content = Content()
    lease_age: int = 0
    granted: int = 0
    """The highest token that was ever given."""
    granted_here: int = 0
    """The highest that this Redis remembers having given."""
    emptied: int = OVER
    is_paused: bool = False

    def canonical(self) -> "State":
        """The same world in a canonical form: without what is no longer used, tokens as their places in order."""
        first, second = map(in_short, self.members)
        owner = self.content.owner
        if (hash(second), owner == "two") < (hash(first), owner == "one"):
            first, second = second, first  # which of the two is called "one" makes no difference
            owner = owner and NAMES[1 - NAMES.index(owner)]
        fence, kept = self.content.fence, self.content.kept
        tokens = {first.token, first.serves, second.token, second.serves, fence, kept, self.granted, self.granted_here}
        places = {token: STEP * place for place, token in enumerate(sorted(tokens - {None, 0}), 1)}
        places |= {None: None, 0: 0}
        return self._replace(
            members=(first.renumbered(places), second.renumbered(places)),
            content=Content(owner, places[fence], places[kept]),
            granted=places[self.granted],
            granted_here=places[self.granted_here],
        )


LONG_MS = 12 * 3_600_000
"""No test lasts so long, and no lease is; but one without an end is nobody's."""


class Redis:
    """The real scripts in a real Redis: puts a content in, calls, and reads what it holds then."""

    def __init__(self, client) -> None:
        self.client, self.shared = client, SharedState(client, PAIR)
        text = shared_state._ACQUIRE
        reported = text.replace("redis.call('TIME')", "{redis.call('GET', 'test:s'), 0}")
        assert reported != text
        self.shared._acquire = client.register_script(reported)
        self.answers = {}

    def ask(self, content: Content, ms: int, name: str, arguments: tuple):
        """The answer, the content then, and whether the lease runs anew."""
        question = content, ms, name, arguments
        if question not in self.answers:
            self.write_down(content, ms)
            keywords = {"token": arguments[-1]} if name == "keep_ledger" else {}
            answer = getattr(self.shared, name)(*(arguments[:-1] if keywords else arguments), **keywords)
            self.answers[question] = answer, *self.read_back()
        return self.answers[question]

    def write_down(self, content: Content, ms: int) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            pipe.flushdb()
            pipe.set("test:s", ms // 1000)
            if content.owner:  # its end is the model's, unless set anew
                pipe.set(PREFIX + f"lease:{QUEUE}", content.owner, px=LONG_MS)
            for name, token in (("fence", content.fence), ("ledger-token", content.kept)):
                if token is not None:
                    pipe.hset(PREFIX + name, QUEUE, token)
            pipe.execute()

    def read_back(self) -> tuple[Content, bool]:
        with self.client.pipeline(transaction=False) as pipe:
            pipe.get(PREFIX + f"lease:{QUEUE}")
            pipe.pttl(PREFIX + f"lease:{QUEUE}")
            pipe.hget(PREFIX + "fence", QUEUE)
            pipe.hget(PREFIX + "ledger-token", QUEUE)
            owner, left, fence, kept = pipe.execute()
        tokens = [None if token is None else int(token) for token in (fence, kept)]
        return Content(owner, *tokens), 0 < left < LONG_MS / 2


class Line:
    """A process's way to Redis: it may be cut, or lose the answer to the lease's own calls."""

    def __init__(self, redis: Redis, state: State, how: str) -> None:
        self._redis, self._how = redis, how
        self._is_paused = state.is_paused
        self.content, self.lease_age = state.content, state.lease_age

    def paused(self):
        self._answer()
        return {QUEUE: PAUSE} if self._is_paused else {}

    def paces(self):
        self._answer()
        return {}

    def _call(self, name: str, *arguments):
        self._answer()
        ms = 0 if self._how == "clock behind" else AHEAD_MS
        answer, self.content, is_anew = self._redis.ask(self.content, ms, name, arguments)
        self.lease_age = 0 if is_anew else self.lease_age
        if self._how == "answer lost":
            raise RedisIsAwayError("the answer was lost")
        return answer

    acquire_lease = partialmethod(_call, "acquire_lease")
    renew_lease = partialmethod(_call, "renew_lease")
    release_lease = partialmethod(_call, "release_lease")
    keep_ledger = partialmethod(_call, "keep_ledger")

    def _answer(self):
        if self._how == "cut off":
            raise RedisIsAwayError("cut off")


class World:
    """Puts a state into the real things, lets one step happen, and reads the next state from them."""

    def __init__(self, client) -> None:
        self.redis = Redis(client)
        self.done: dict[tuple, tuple[Member, Content, int]] = {}

    def steps(self, state: State) -> Iterator[tuple[str, bool, State]]:
        """What may happen, whether it is a disturbance, and the world after it."""
        for which, name in enumerate(NAMES):
            yield f"{name} looks", False, self.look(state, which, "")
            for how in ("cut off", "answer lost"):
                yield f"{name} looks, {how}", True, self.look(state, which, how)
            if state.granted_here == state.granted:  # a Redis that has forgotten has nothing but its clock
                yield f"{name} looks, clock behind", True, self.look(state, which, "clock behind")
            if state.members[which].serves is None:
                yield f"{name} begins", False, self.begin(state, which)
            else:
                yield f"{name} works", False, self.work(state, which)
                yield f"{name} writes", False, self.write(state, which)
                yield f"{name} leaves", False, self.end(state, which)
                yield f"{name} ends", False, self.end(state, which, leaving=False)
        yield "time passes", False, self.time_passes(state)
        yield "the operator speaks", True, state._replace(is_paused=not state.is_paused)
        empty = state._replace(content=Content(), granted_here=0, emptied=0, is_paused=False)
        yield "Redis is emptied", True, empty

    def time_passes(self, state: State) -> State:
        def older(age: int | None, most: int = OVER) -> int | None:
            return None if age is None else min(age + 1, most)

        members = tuple(
            m._replace(renewed=older(m.renewed), looked=older(m.looked), alone=older(m.alone, ALONE))
            for m in state.members
        )
        is_over = state.content.owner is None or state.lease_age + 1 >= OVER
        content = state.content._replace(owner=None) if is_over else state.content
        age = 0 if is_over else state.lease_age + 1
        emptied = older(state.emptied)
        return state._replace(members=members, content=content, lease_age=age, emptied=emptied)

    def look(self, state: State, which: int, how: str) -> State:
        after = self.does(state, which, how, "look", LeaseHolder.look)
        member = after.members[which]
        if state.content.owner is None and after.content.owner is not None:
            fence = after.content.fence
            assert fence is not None
            assert fence > (state.granted_here if how == "clock behind" else state.granted), "a token does not rise"
            after = after._replace(granted=max(fence, state.granted), granted_here=fence)
        if state.is_paused and not how and not member.is_served and after.content.owner == NAMES[which]:
            assert not state.members[which].is_held, "a lease is kept of a queue that is paused and not served"
            assert after.lease_age == state.lease_age, "one that it does not know of, by a lost answer, never runs out"
        return after

    def begin(self, state: State, which: int) -> State:
        holder, line = self.holder(state, which, "")
        if not holder.vacant():
            return state
        token = holder.begin(QUEUE)
        return self.after(state, which, holder, line, serves=token or 0)

    def work(self, state: State, which: int) -> State:
        """The syphon asks for its next step; who is refused ends."""
        (holder, line), token = self.holder(state, which, ""), state.members[which].serves
        if not holder.may_serve(QUEUE, token or None):
            return self.end(state, which, leaving=False)
        member, other = state.members[which], state.members[1 - which]
        assert not member.is_paused, "what is paused is served"
        assert not token or not member.is_held or token == member.token, "a syphon goes on under another lease"
        if token and other.serves and self.is_calm(state):
            others = self.holder(state, 1 - which, "")[0]
            assert not others.may_serve(QUEUE, other.serves), "two hold the lease"
        return self.after(state, which, holder, line, works=True)

    def write(self, state: State, which: int) -> State:
        """Its ledger, before it completes anything: the ledger is stored, or the process ends."""
        member, content = state.members[which], state.content
        if not member.works or not member.serves:
            return state
        holder, line = self.holder(state, which, "")
        counts = line.keep_ledger(QUEUE, "{}", member.serves)
        latest = max(content.fence or 0, content.kept or 0, state.granted_here)
        assert counts == (member.serves >= latest), "who came later is written over"
        assert (line.content.kept or 0) >= (content.kept or 0)
        after = self.after(state, which, holder, line, works=False)
        return after if counts else self.end(after, which, leaving=False)

    def end(self, state: State, which: int, *, leaving: bool = True) -> State:
        end = partial(LeaseHolder.end, queue=QUEUE, leaving=leaving)
        after = self.does(state, which, "", f"end, leaving: {leaving}", end, serves=None, works=False)
        mine = state.content.owner == NAMES[which]
        assert after.content.owner == state.content.owner or mine, "another's lease was given up"
        return after

    def is_calm(self, state: State) -> bool:
        """Whether Redis has answered and remembered everybody for a lease's time; else two may believe they hold."""
        return state.emptied >= OVER and all(m.alone is None for m in state.members)

    def does(
        self, state: State, which: int, how: str, name: str, action: Callable[[LeaseHolder], None], **more
    ) -> State:
        """The world after an action. What comes of it follows from the memory, Redis and the line: asked once."""
        known = name, which, how, state.members[which], state.content, state.lease_age, state.is_paused
        if known not in self.done:
            holder, line = self.holder(state, which, how)
            action(holder)
            after = self.after(state, which, holder, line, **more)
            self.done[known] = after.members[which], after.content, after.lease_age
        member, content, lease_age = self.done[known]
        members = (member, state.members[1]) if which == 0 else (state.members[0], member)
        return state._replace(members=members, content=content, lease_age=lease_age)

    # Into the real things, and back --------------------------------------------------------------------------------

    def holder(self, state: State, which: int, how: str) -> tuple[LeaseHolder, Line]:
        member, line = state.members[which], Line(self.redis, state, how)
        never = float("inf")
        holder = LeaseHolder(
            SimpleNamespace(shared=line), NAMES[which], lambda: [QUEUE], lambda *reported: None, lambda: 0.0
        )
        lease = holder._leases[QUEUE] = _QueueLease()
        lease.token, lease.is_held, lease.is_served = member.token, member.is_held, member.is_served
        lease.is_paused, lease.has_reported = member.is_paused, member.has_reported
        lease.renewed_at = -TICK_S * member.renewed
        holder._looked_at = never if member.looked is None else -TICK_S * member.looked
        holder._alone_since = None if member.alone is None else -TICK_S * member.alone
        return holder, line

    def after(self, state: State, which: int, holder: LeaseHolder, line: Line, **more) -> State:
        lease = holder._leases[QUEUE]
        looked = holder._looked_at
        member = state.members[which]._replace(
            token=lease.token,
            is_held=lease.is_held,
            is_served=lease.is_served,
            is_paused=lease.is_paused,
            has_reported=lease.has_reported,
            renewed=min(round(-lease.renewed_at / TICK_S), OVER),
            looked=None if looked == float("inf") else round(-looked / TICK_S),
            alone=None if holder._alone_since is None else round(-holder._alone_since / TICK_S),
            **more,
        )
        members = (member, state.members[1]) if which == 0 else (state.members[0], member)
        return state._replace(members=members, content=line.content, lease_age=line.lease_age)


class Explored:
    """The worlds that were entered, and how each came about."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.come_from: dict[State, tuple[State, str] | None] = {State(): None}

    def enter_all(self, most: int) -> bool:
        """Enters every world with at most so many disturbances before it; whether these are all there are."""
        line, later = deque([State()]), deque()
        for count in range(most + 1):
            while line:
                self.enter(line.popleft(), line, later)
            print(f"{len(self.come_from)} worlds with at most {count} disturbances")
            line.extend(state for state, *reported in later if self.is_new(state, *reported))
            later.clear()
        return not line

    def enter(self, state: State, line: deque, later: deque) -> None:
        try:
            for reported, is_disturbance, after in self.world.steps(state):
                found = after.canonical()
                if is_disturbance and found not in self.come_from:
                    later.append((found, state, reported))
                elif not is_disturbance and self.is_new(found, state, reported):
                    line.append(found)
        except AssertionError as error:
            error.add_note(f"after {self.story(state)}")
            raise

    def is_new(self, state: State, before: State, reported: str) -> bool:
        if state in self.come_from:
            return False
        self.come_from[state] = before, reported
        return True

    def story(self, state: State) -> str:
        steps = []
        while (came := self.come_from[state]) is not None:
            state, reported = came
            steps.append(reported)
        return " | ".join(reversed(steps))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("tick_s", "most"),
    [(2.0, MOST), pytest.param(1.25, max(MOST - 1, 0), marks=pytest.mark.nightly)],
    ids=["coarse", "fine"],
)
def test_of_all_lives_of_a_lease_none_has_two_holders_whose_ledgers_count(redis_client, monkeypatch, tick_s, most):
    over, alone = ceil(LEASE_S / tick_s), ceil(2 * LEASE_S / tick_s)
    for name, value in (("TICK_S", tick_s), ("OVER", over), ("ALONE", alone)):
        monkeypatch.setitem(globals(), name, value)
    explored = Explored(World(redis_client))
    is_all = explored.enter_all(most)
    assert len(explored.come_from) > 1000
    assert is_all or most < 1000
