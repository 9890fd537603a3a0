"""Each failed-over entity gets its pings, however many there are (docs/specification.md, section 7)."""

import asyncio
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest

from pairing import SendAvailabilityOptions
from pairing.aio.links import Background
from pairing.aio.runtime import Tasks
from pairing.drive import run_async
from pairing.operations.pinger import Pinger, ping_timeout_s
from pairing.pair import Pair
from pairing.runtime import Threads
from pairing.testing import ManualClock

ENTITIES = [f"entity-{n:02}" for n in range(40)]


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

    fleet = SimpleNamespace(claim_ping=refuse, record_ping=lambda result, due: None)
    return SimpleNamespace(
        runtime=runtime,
        pair_state=pair,
        clock=clock,
        fleet=fleet,
        asked=asked,
        coordination=object(),
        options=SendAvailabilityOptions(),
        availability=pair.availability,
        meter=SimpleNamespace(count=lambda *_, **__: None),
        primary=SimpleNamespace(namespace="contoso"),
    )


async def done(runtime, operation):
    """The result of an operation, by threads or in asyncio."""
    found = runtime.run(operation) if isinstance(runtime, Tasks) else asyncio.to_thread(runtime.run, operation)
    return await found


async def test_entities_that_others_ping_do_not_keep_the_rest_waiting(client, runtime):
    pinger = Pinger(client)
    for _ in range(3):
        await done(runtime, pinger.ping_due())
    assert set(client.asked) == set(ENTITIES)


@pytest.mark.parametrize("runtime", [Threads()], ids=["sync"])
def test_a_ping_for_which_no_thread_can_be_started_is_tried_again(client, monkeypatch):
    pinger = Pinger(client)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    pinger._begin_due()
    assert client.asked == []
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    pinger._claim_again_at.clear()  # its time has come
    pinger._begin_due()
    assert set(client.asked) == set(ENTITIES)


def refuse_to_start(thread):
    raise RuntimeError("can't start new thread")


class Links:
    """Stands in for the pings on the wire; notes how many were under way at once."""

    def __init__(self, runtime) -> None:
        self.made, self.under_way, self.most = 0, 0, 0
        self.runtime, self.answered = runtime, runtime.event()

    def __call__(self, role, path):
        self.made += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return SimpleNamespace(warm=self.warm, attempt=self.attempt, close=self.close)

    def warm(self, timeout_s):
        return self.runtime.rest(self.answered, 60) if isinstance(self.runtime, Tasks) else self.blocked()

    def blocked(self):
        self.answered.wait(60)

    def attempt(self, operation, timeout_s):
        return None

    def close(self, timeout_s):
        self.under_way -= 1


async def test_pings_of_one_entity_never_overlap(client, runtime):
    client._link_to = links = Links(runtime)
    client.coordination = None
    pinger = Pinger(client)
    pings = [asyncio.create_task(done(runtime, pinger.ping(path))) for path in ("Entity-00", "entity-00", "entity-01")]
    async with asyncio.timeout(60):
        while links.made < 2:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert links.made == 2  # two entities, one ping of each
    links.answered.set()
    assert all(result.accepted for result in await asyncio.gather(*pings))
    assert (links.made, links.most) == (3, 2)


async def test_a_ping_whose_link_does_not_open_spends_no_message_and_says_why(client):
    client._link_to = lambda role, path: SimpleNamespace(
        warm=lambda timeout_s: SimpleNamespace(error=OSError("unreachable"), reused=False), close=lambda timeout_s: None
    )
    client.failed = lambda error, path, reused: SimpleNamespace(error=error, fault=None)
    client.coordination = None
    result = await run_async(Pinger(client).ping("orders"))
    assert (result.accepted, result.reason, result.busy) == (False, "OSError: unreachable", False)


@pytest.mark.parametrize(
    ("timeout", "interval", "given_up_after"), [(120, 60, 60), (120, 240, 120), (5, 60, 5), (120, 1, 2)]
)
def test_a_ping_is_given_up_at_its_timeout_or_before_the_next_is_due(timeout, interval, given_up_after):
    """Of intervals below two seconds it takes two: a link does not open in less on the way around the world."""
    assert ping_timeout_s(timeout, interval) == given_up_after
