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
def lost(fleet: redis.Redis, pairs: dict[str, PairConfig], monkeypatch: pytest.MonkeyPatch) -> SharedState:
    """What the fleet knows, when the pair and one of its queues are paused and paced and Redis has lost it."""
    monkeypatch.setattr(watchers, "pairs", lambda: pairs)
    list(sync(pairs))
    pair = Pair.objects.get(name="contoso")
    for target, rate in (("*", 20), (QUEUE, 5)):
        SyphonPause.objects.create(pair=pair, queue=target, by="ada", reason="maintenance", at=timezone.now())
        SyphonPace.objects.create(pair=pair, target=target, rate=rate, by="ada", reason="slow", at=timezone.now())
    return SharedState(fleet, "contoso")


def test_a_redis_restarted_empty_is_informed_of_pauses_and_paces_again(lost):
    watchers.refresh()
    assert {queue: (pause.by, pause.reason) for queue, pause in lost.paused().items()} == {
        "*": ("ada", "maintenance"),
        QUEUE: ("ada", "maintenance"),
    }
    assert {target: (pace.rate, pace.by, pace.reason) for target, pace in lost.paces().items()} == {
        "*": (20, "ada", "slow"),
        QUEUE: (5, "ada", "slow"),
    }


def test_what_was_resumed_or_lifted_stays_so_and_what_redis_knows_is_left_as_it_is(lost):
    SyphonPause.objects.filter(queue="*").delete()
    SyphonPace.objects.filter(target=QUEUE).delete()
    lost.pace_syphon(None, 7, "grace", "")
    watchers.refresh()
    assert set(lost.paused()) == {QUEUE}
    assert {target: pace.rate for target, pace in lost.paces().items()} == {"*": 7}
