"""Each failed-over entity gets its pings, however many there are (docs/specification.md, section 7)."""

import asyncio
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest

import pairing.aio.pinger
import pairing.pinger
from pairing import SendAvailabilityOptions
from pairing.aio.links import Background
from pairing.operations.pinger import ping_timeout_s
from pairing.pair import Pair
from pairing.testing import ManualClock

ENTITIES = [f"entity-{n:02}" for n in range(40)]


@pytest.fixture
def client():
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


def test_entities_that_others_ping_do_not_keep_the_rest_waiting(client):
    pinger = pairing.pinger.Pinger(client)
    for _ in range(3):
        pinger.ping_due()
    assert set(client.asked) == set(ENTITIES)


def test_a_ping_for_which_no_thread_can_be_started_is_tried_again(client, monkeypatch):
    pinger = pairing.pinger.Pinger(client)
    monkeypatch.setattr(client, "coordination", None)
    monkeypatch.setattr(pinger, "ping", client.asked.append)
    monkeypatch.setattr(pairing.pinger.threading.Thread, "start", refuse_to_start)
    pinger._begin_due()
    assert client.asked == []
    monkeypatch.setattr(pairing.pinger.threading.Thread, "start", threading.Thread.run)
    pinger._claim_again_at.clear()  # its time has come
    pinger._begin_due()
    assert set(client.asked) == set(ENTITIES)


def refuse_to_start(thread):
    raise RuntimeError("can't start new thread")


async def test_entities_that_others_ping_do_not_keep_the_rest_waiting_in_asyncio(client):
    pinger = pairing.aio.pinger.Pinger(client, Background())
    for _ in range(3):
        await pinger.ping_due()
    assert set(client.asked) == set(ENTITIES)


class Attempts:
    """Stands in for the pings on the wire; notes how many of one entity were under way at once."""

    def __init__(self) -> None:
        self.under_way, self.most, self.made = 0, 0, 0
        self.begun, self.answered = threading.Semaphore(0), threading.Event()

    def begin(self) -> None:
        self.under_way += 1
        self.made += 1
        self.most = max(self.most, self.under_way)
        self.begun.release()

    def end(self) -> None:
        self.under_way -= 1


def test_pings_of_one_entity_never_overlap(client):
    attempts = Attempts()

    class PingLink:
        def __init__(self):
            attempts.begin()

        def warm(self, timeout_s):
            attempts.answered.wait(60)

        def attempt(self, operation, timeout_s):
            pass

        def close(self, timeout_s):
            attempts.end()

    client._link_to = lambda role, path: PingLink()
    pinger = pairing.pinger.Pinger(client)
    pings = [threading.Thread(target=pinger.ping, args=(path,)) for path in ("Entity-00", "entity-00", "entity-01")]
    for ping in pings:
        ping.start()
    assert attempts.begun.acquire(timeout=60)
    assert attempts.begun.acquire(timeout=60)
    assert not attempts.begun.acquire(timeout=0.2)  # two entities, one ping of each
    attempts.answered.set()
    for ping in pings:
        ping.join(60)
    assert (attempts.made, attempts.most) == (3, 2)


async def test_pings_of_one_entity_never_overlap_in_asyncio(client):
    attempts, answered = Attempts(), asyncio.Event()

    class PingLink:
        def __init__(self):
            attempts.begin()

        async def warm(self, timeout_s):
            await answered.wait()

        async def attempt(self, operation, timeout_s):
            pass

        async def close(self, timeout_s):
            attempts.end()

    client._link_to = lambda role, path: PingLink()
    client.coordination = None
    pinger = pairing.aio.pinger.Pinger(client, Background())
    pings = [asyncio.create_task(pinger.ping(path)) for path in ("Entity-00", "entity-00", "entity-01")]
    for _ in range(10):
        await asyncio.sleep(0)
    assert attempts.made == 2
    answered.set()
    assert all(result.accepted for result in await asyncio.gather(*pings))
    assert (attempts.made, attempts.most) == (3, 2)


@pytest.mark.parametrize(
    ("timeout", "interval", "given_up_after"), [(120, 60, 60), (120, 240, 120), (5, 60, 5), (120, 1, 2)]
)
def test_a_ping_is_given_up_at_its_timeout_or_before_the_next_is_due(timeout, interval, given_up_after):
    """Of intervals below two seconds it takes two: a link does not open in less on the way around the world."""
    assert ping_timeout_s(timeout, interval) == given_up_after
