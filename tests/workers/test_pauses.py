"""Pauses and paces outlive Redis: docs/operations.md, "Redis is away"."""

import pytest
import redis
from django.utils import timezone

from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.pairs.sync import sync
from dashboard.models import Pair, SyphonPace, SyphonPause
from pairing.fleet.coordination import SharedState
from workers import watchers

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
QUEUE = "contoso/x-servicebus-transfer/3"


@pytest.fixture
def paused(fleet: redis.Redis, pairs: dict[str, PairConfig], monkeypatch: pytest.MonkeyPatch) -> SharedState:
    """What the fleet knows, when the pair and one of its queues have been paused and Redis has lost it."""
    monkeypatch.setattr(watchers, "pairs", lambda: pairs)
    list(sync(pairs))
    for queue in ("*", QUEUE):
        SyphonPause.objects.create(
            pair=Pair.objects.get(name="contoso"), queue=queue, by="ada", reason="maintenance", at=timezone.now()
        )
    return SharedState(fleet, "contoso")


def test_a_redis_restarted_empty_is_informed_of_the_pauses_again(paused: SharedState) -> None:
    watchers.refresh()
    assert {queue: (pause.by, pause.reason) for queue, pause in paused.paused().items()} == {
        "*": ("ada", "maintenance"),
        QUEUE: ("ada", "maintenance"),
    }


def test_what_was_resumed_stays_resumed(paused: SharedState) -> None:
    SyphonPause.objects.filter(queue="*").delete()
    watchers.refresh()
    assert set(paused.paused()) == {QUEUE}


@pytest.fixture
def paced(paused: SharedState) -> SharedState:
    """And when both have been paced."""
    pair = Pair.objects.get(name="contoso")
    for target, rate in (("*", 20), (QUEUE, 5)):
        SyphonPace.objects.create(pair=pair, target=target, rate=rate, by="ada", reason="slow", at=timezone.now())
    return paused


def test_a_redis_restarted_empty_is_informed_of_the_paces_again(paced: SharedState) -> None:
    watchers.refresh()
    assert {target: (pace.rate, pace.by, pace.reason) for target, pace in paced.paces().items()} == {
        "*": (20, "ada", "slow"),
        QUEUE: (5, "ada", "slow"),
    }


def test_a_pace_that_was_lifted_stays_lifted(paced: SharedState) -> None:
    SyphonPace.objects.filter(target=QUEUE).delete()
    watchers.refresh()
    assert set(paced.paces()) == {"*"}


def test_a_pace_that_redis_knows_is_left_as_it_is(paced: SharedState) -> None:
    paced.pace_syphon(None, 7, "grace", "")
    watchers.refresh()
    assert paced.paces()["*"].rate == 7
