"""Each failed-over entity gets its pings, however many there are (docs/specification.md, section 7)."""

import asyncio
import heapq
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest

from pairing import SendAvailabilityOptions
from pairing.aio.links import Background
from pairing.aio.runtime import Tasks
from pairing.drive import run, run_async
from pairing.operations.pinger import OPENING_S, PATIENCE, PLACES, TICK_S, Pinger, Places
from pairing.operations.threads import Threads
from pairing.pair import Pair
from pairing.testing import ManualClock

ENTITIES = [f"entity-{n:03}" for n in range(240)]


@pytest.fixture(params=["sync", "asyncio"])
def runtime(request):
    return Threads() if request.param == "sync" else Tasks(Background())


@pytest.fixture
def client(runtime):
    clock, asked = ManualClock(), []
    pair = Pair(SendAvailabilityOptions(), "contoso", "host:1:abc", clock)
    for path in ENTITIES:
        pair.fail_over(path, "test", False, None, "ann")
    clock.advance(timedelta(minutes=2))

    def refuse(path, *_):
        asked.append(path)
        return False

    fleet = SimpleNamespace(record_ping=lambda result, due: None)
    return SimpleNamespace(
        _runtime=runtime,
        pair_state=pair,
        clock=clock,
        _fleet=fleet,
        asked=asked,
        coordination=SimpleNamespace(claim_ping=refuse),
        options=SendAvailabilityOptions(),
        meter=SimpleNamespace(count=lambda *_, **__: None),
        primary=SimpleNamespace(namespace="contoso"),
    )


async def done(runtime, operation):
    """The result of an operation, by threads or in asyncio."""
    found = runtime.run(operation) if isinstance(runtime, Tasks) else asyncio.to_thread(runtime.run, operation)
    return await found


async def test_entities_that_others_ping_do_not_keep_the_rest_waiting(client, runtime):
    pinger = Pinger(client)
    for _ in range(2):
        await done(runtime, pinger.ping_due())
    assert set(client.asked) == set(ENTITIES)
    await done(runtime, pinger.ping_due())
    assert len(client.asked) == len(ENTITIES)  # until another moment, nobody is asked twice


async def test_a_release_is_pinged_at_once_although_another_process_has_claimed_the_ping_before(client, runtime):
    pinger = Pinger(client)
    for _ in range(2):
        await done(runtime, pinger.ping_due())
    client.asked.clear()
    client.clock.advance(0.1)
    client.pair_state.release("entity-007", "ann")
    await done(runtime, pinger.ping_due())
    assert client.asked == ["entity-007"]


async def test_as_many_links_as_there_are_places_open_at_once_and_an_open_one_gives_its_place_back(client, runtime):
    """In both worlds, in the order of the due times, by the client's own pinger and by ``ping_due``."""
    client._link_to = links = Links(runtime)
    client.coordination = None
    for n, path in enumerate(ENTITIES):
        client.pair_state.availability(path).ping_at = 100.0 - n / 10  # the last one first
    pinger = Pinger(client)
    runtime.spawn(pinger.work(), "pinger")
    await until(lambda: links.made >= PLACES)
    assert await done(runtime, pinger.ping_due()) == []
    assert (links.made, links.most) == (PLACES, PLACES)
    assert links.paths == set(ENTITIES[-PLACES:])
    links.answered.set()
    await until(lambda: links.made == len(ENTITIES) and not links.under_way)
    pinger.stop()


async def test_a_ping_that_waits_for_its_answer_keeps_no_other_from_being_sent(client, runtime):
    client._link_to = links = Links(runtime)
    links.opens_at_once = True
    client.coordination = None
    pinger = Pinger(client)
    results = [asyncio.create_task(done(runtime, pinger.ping_due()))]
    await until(lambda: links.made == len(links.opened_within) == PLACES)
    results.append(asyncio.create_task(done(runtime, pinger.ping_due())))
    await until(lambda: links.made == len(ENTITIES))
    links.answered.set()
    assert sum(map(len, await asyncio.gather(*results))) == len(ENTITIES)


async def test_a_link_that_does_not_open_is_given_up_after_ten_seconds(client):
    client._link_to = links = Links(Threads())
    links.answered.set()
    client.coordination = None
    await run_async(Pinger(client).ping("orders"))
    assert links.opened_within == [pytest.approx(10.0, abs=TICK_S)]


@pytest.mark.parametrize(("silent", "longest_s"), [(0, 60), (36, 70), (900, 110), (999, 110)])
def test_an_entity_is_pinged_within_an_interval_and_ten_seconds_for_each_two_hundred_silent_ones(silent, longest_s):
    """A model of ten minutes: 1,000 entities that fail over at once, and each answers after 0 or 10 s."""
    pair = Pair(SendAvailabilityOptions(flap_damping=False), "contoso", "host:1:abc", ManualClock())
    machines = [pair.availability(f"entity-{n:04}") for n in range(1000)]
    for machine in machines:
        machine.force("test", 0.0, operator="ann", hold=True)
    places, answers, begun, longest = Places(), [], dict.fromkeys((m.path for m in machines), 0.0), 0.0
    for tick in range(int(600 / TICK_S)):
        now = tick * TICK_S
        while answers and answers[0][0] <= now:
            _, path = heapq.heappop(answers)
            places.free(path)
            pair.availability(path).pinged(False, "no answer", now)
            places.end(path)
        taken = places.take(machines, now, PATIENCE)
        for path in taken:
            longest, begun[path] = max(longest, now - begun[path]), now
            heapq.heappush(answers, (now + (OPENING_S if int(path[-4:]) < silent else 0.0), path))
        assert sum(int(path[-4:]) < silent for _, path in answers) <= PLACES
    assert min(begun.values()) > 600 - longest_s - 1  # none was forgotten
    assert 60 <= longest <= longest_s + len(machines) / PLACES * TICK_S  # a tick begins as many as there are places


@pytest.mark.parametrize("runtime", [Threads()], ids=["sync"])
def test_a_ping_for_which_no_thread_can_be_started_is_tried_again(client, monkeypatch):
    pinger = Pinger(client)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    run(pinger.ping_due())
    assert client.asked == []
    monkeypatch.undo()
    client.clock.advance(TICK_S)
    run(pinger.ping_due())
    assert len(set(client.asked)) == PLACES


def refuse_to_start(thread):
    raise RuntimeError("can't start new thread")


class Links:
    """Stands in for the pings on the wire; notes how many were under way at once."""

    opens_at_once = False

    def __init__(self, runtime) -> None:
        self.made, self.under_way, self.most = 0, 0, 0
        self.paths: set[str] = set()
        self.opened_within: list[float] = []
        self.answered_within: list[float] = []
        self.lock = threading.Lock()
        self.runtime, self.answered = runtime, runtime.event()

    def __call__(self, role, path):
        with self.lock:
            self.made += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self.paths.add(path)
        return SimpleNamespace(warm=self.warm, attempt=self.attempt, close=self.close)

    def warm(self, timeout_s):
        self.opened_within.append(timeout_s)
        return None if self.opens_at_once else self.wait()

    def attempt(self, operation, timeout_s):
        self.answered_within.append(timeout_s)
        return self.wait()

    def wait(self):
        return self.runtime.rest(self.answered, 60) if isinstance(self.runtime, Tasks) else self.blocked()

    def blocked(self):
        self.answered.wait(60)

    def close(self, timeout_s):
        with self.lock:
            self.under_way -= 1


async def until(happens):
    """Wait until it is so."""
    async with asyncio.timeout(60):
        while not happens():
            await asyncio.sleep(0.01)


async def test_pings_of_one_entity_never_overlap(client, runtime):
    client._link_to = links = Links(runtime)
    client.coordination = None
    pinger = Pinger(client)
    pings = [asyncio.create_task(done(runtime, pinger.ping(path))) for path in ("Entity-00", "entity-00", "entity-01")]
    await until(lambda: links.made >= 2)
    await asyncio.sleep(0.1)
    assert links.made == 2  # two entities, one ping of each
    links.answered.set()
    assert all(result.accepted for result in await asyncio.gather(*pings))
    assert (links.made, links.most) == (3, 2)


async def test_a_ping_whose_link_does_not_open_spends_no_message_and_says_why(client):
    client._link_to = lambda role, path: SimpleNamespace(
        warm=lambda timeout_s: SimpleNamespace(error=OSError("unreachable"), reused=False), close=lambda timeout_s: None
    )
    client._primary_failed = lambda error, path, reused: SimpleNamespace(error=error, fault=None)
    client.coordination = None
    result = await run_async(Pinger(client).ping("orders"))
    assert (result.accepted, result.reason, result.busy) == (False, "OSError: unreachable", False)


@pytest.mark.parametrize(
    ("timeout", "interval", "given_up_after"), [(120, 60, 60), (120, 240, 120), (5, 60, 5), (120, 1, 2)]
)
async def test_a_ping_is_given_up_at_its_timeout_or_before_the_next_is_due(client, timeout, interval, given_up_after):
    """Of intervals below two seconds it takes two: a link does not open in less on the way around the world."""
    client._link_to = links = Links(Threads())
    links.answered.set()
    client.coordination = None
    client.options = SendAvailabilityOptions(ping_timeout=timedelta(seconds=timeout))
    client.pair_state.options = SendAvailabilityOptions(ping_primary_interval=timedelta(seconds=interval))
    await run_async(Pinger(client).ping("orders"))
    assert links.answered_within == [pytest.approx(given_up_after, abs=0.5)]
