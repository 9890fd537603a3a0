"""Word of changes for open pages, through a real Redis."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator

import pytest
from django.db import connections

from dashboard.fleet.state import live
from dashboard.models import EntityHealth
from dashboard.site.redis import CHANGED as CHANNEL
from dashboard.site.redis import announce_change
from pairing.fleet.coordination import SharedState
from tests.dashboard.conftest import health
from workers import collectors

DEADLINE_S = 20
CHANGED = b"event: changed\ndata: *\n\n"


async def next_change(stream: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        while (reported := await anext(stream)) != CHANGED:
            pass
    return reported


@pytest.fixture
async def stream(redis_here):
    """A stream that has reported its beginning, and that its listener is there."""
    opened = live.stream()
    assert CHANGED in await anext(opened)
    await next_change(opened)
    yield opened
    await opened.aclose()


@pytest.fixture
def collector(redis_here, pair, monkeypatch):
    """Starts a collector of health when it is called, as a worker runs it."""
    monkeypatch.setattr(collectors, "pairs", lambda: {"contoso": None})
    stop, threads = threading.Event(), []

    def collect() -> None:
        try:
            collectors.collect_health(stop)
        finally:
            connections.close_all()

    def start() -> None:
        threads.append(threading.Thread(target=collect))
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.django_db(transaction=True)
async def test_a_change_of_health_is_written_down_before_the_page_is_notified(collector, stream, redis_here):
    collector()
    shared = SharedState(redis_here, "contoso")
    await asyncio.to_thread(shared.fail_over, "orders", "storage", operator="ada", process="host:1:aaaa")

    await next_change(stream)

    entity = await EntityHealth.objects.aget(path="orders")
    assert (entity.state, entity.held_by) == ("failed_over", "ada")


@pytest.mark.django_db(transaction=True)
async def test_what_was_reported_while_nobody_listened_is_written_down_first(collector, stream, redis_here):
    shared = SharedState(redis_here, "contoso")
    await asyncio.to_thread(shared.fail_over, "orders", "storage", operator="ada", process="host:1:aaaa")

    collector()
    await next_change(stream)

    assert (await EntityHealth.objects.aget(path="orders")).state == "failed_over"


@pytest.mark.django_db(transaction=True)
async def test_a_second_page_shares_the_subscription(stream, redis_here):
    second = live.stream()
    await anext(second)
    await asyncio.to_thread(announce_change)

    assert await next_change(second) == CHANGED
    assert redis_here.pubsub_numsub(CHANNEL) == [(CHANNEL, 1)]
    await second.aclose()


async def test_a_page_of_one_pair_is_notified_of_its_changes_and_not_of_others(stream):
    broadcast = live._broadcasts[asyncio.get_running_loop()]
    woken, found = broadcast.join("contoso"), []
    for pair in ("fabrikam", "contoso"):
        await asyncio.to_thread(announce_change, pair)
        await next_change(stream)
        found.append(woken.is_set())
    broadcast.leave(woken)
    assert found == [False, True]


async def test_who_sees_all_pairs_reads_which_of_them_have_changed(stream):
    named = live.stream(names_pairs=True)
    await anext(named)
    await asyncio.to_thread(announce_change, "contoso")
    async with asyncio.timeout(DEADLINE_S):
        assert await anext(named) == b"event: changed\ndata: contoso\n\n"
    await named.aclose()


@pytest.mark.django_db(transaction=True)
async def test_a_page_that_opens_as_the_last_one_closes_is_notified_of_changes(pair, redis_here):
    broadcast = live.Broadcast()
    broadcast.leave(broadcast.join())

    woken = broadcast.join()

    async with asyncio.timeout(DEADLINE_S):
        await woken.wait()
    broadcast.leave(woken)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("channel", "text"),
    [
        ("pairing:{contoso}:health", "no json"),
        ("pairing:{contoso}:health", "{}"),
        ("pairing:{unheard-of}:health", health().to_json()),
    ],
)
def test_news_that_make_no_sense_are_passed_over(pair, channel, text):
    collectors.take_over(channel, text)

    assert set(EntityHealth.objects.values_list("state", flat=True)) == {"unknown"}


async def test_a_subscription_that_ends_is_not_destroyed_while_it_is_pending(monkeypatch):
    """It waits for its connection to close; nothing but itself knows of that wait, and asyncio does not hold it."""
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
    closing: list[weakref.ref[asyncio.Future[None]]] = []

    async def follow(self: live.Broadcast) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            closing.append(weakref.ref(closed))
            await closed

    monkeypatch.setattr(live.Broadcast, "_follow", follow)
    broadcast = live.Broadcast()
    woken = broadcast.join()
    await asyncio.sleep(0)
    broadcast.leave(woken)
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert said == []
    [waiting] = closing
    ended = waiting()
    ended.set_result(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not broadcast._ending


async def test_a_listener_that_swallows_a_cancellation_ends_all_the_same(monkeypatch):
    """As the Redis client does while it connects: a page that is closed at once left a subscription behind."""
    swallowed = 0

    async def follow(self: live.Broadcast) -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(live.Broadcast, "_follow", follow)
    monkeypatch.setattr(live, "CANCELLED_AGAIN_S", 0.01)
    broadcast = live.Broadcast()
    woken = broadcast.join()
    listener = broadcast._listener
    assert listener is not None
    await asyncio.sleep(0)
    broadcast.leave(woken)
    async with asyncio.timeout(60):
        await asyncio.wait([listener])
    assert listener.cancelled()
    assert swallowed == 3


async def test_rights_are_looked_at_after_a_change_is_sent_and_not_on_an_idle_page(redis_here, monkeypatch) -> None:
    monkeypatch.setattr(live, "ASKED_AGAIN_S", 0.0)
    asked = []

    async def may_go_on() -> bool:
        asked.append(True)
        return True

    opened = live.stream(may_go_on)
    await anext(opened)
    await next_change(opened)
    before = len(asked)
    monkeypatch.setattr(live, "KEEP_ALIVE_S", 0.01)
    async with asyncio.timeout(DEADLINE_S):
        assert [await anext(opened) for _ in range(2)] == [b": still here\n\n"] * 2
    await opened.aclose()
    assert (before, len(asked)) == (0, 1)
