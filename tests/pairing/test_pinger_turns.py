"""Each failed-over entity gets its pings, however many there are (docs/specification.md, section 7)."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

import pairing.aio.pinger
import pairing.pinger
from pairing import SendAvailabilityOptions
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

    fleet = SimpleNamespace(claim_ping=refuse)
    return SimpleNamespace(pair_state=pair, clock=clock, fleet=fleet, asked=asked, coordination=object())


def test_entities_that_others_ping_do_not_keep_the_rest_waiting(client):
    pinger = pairing.pinger.Pinger(client)
    for _ in range(3):
        pinger.ping_due()
    assert set(client.asked) == set(ENTITIES)


async def test_entities_that_others_ping_do_not_keep_the_rest_waiting_in_asyncio(client):
    pinger = pairing.aio.pinger.Pinger(client)
    for _ in range(3):
        await pinger.ping_due()
    assert set(client.asked) == set(ENTITIES)
