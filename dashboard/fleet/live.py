"""Word of changes for open pages: one Redis subscription for each process, shared by all its streams.

Streams carry the word `changed` only; pages then fetch their own part, so no stream knows what a person may see.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from weakref import WeakKeyDictionary

import redis.asyncio
import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError

from dashboard.fleet import projection
from dashboard.models import Pair
from dashboard.site.redis import CHANGED, HEALTH_PATTERN, shared_state
from pairing.fleet.coordination import SharedHealth

LEAST_GAP_S = 0.4
KEEP_ALIVE_S = 15.0
ASKED_AGAIN_S = 15.0
RETRY_S = 2.0
CHANGED_MESSAGE = b"event: changed\ndata: 1\n\n"
log = structlog.get_logger(__name__)


class Broadcast:
    """Wakes every waiting stream when Redis tells of a change."""

    def __init__(self) -> None:
        self._streams: set[asyncio.Event] = set()
        self._listener: asyncio.Task[None] | None = None

    def join(self) -> asyncio.Event:
        """A stream's own wake-up call: from now on it misses nothing."""
        woken = asyncio.Event()
        self._streams.add(woken)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        return woken

    def leave(self, woken: asyncio.Event) -> None:
        """The last one to leave ends the subscription."""
        self._streams.discard(woken)
        if not self._streams and self._listener:
            self._listener.cancel()
            self._listener = None  # it takes a while to end, and who joins meanwhile needs another

    async def _listen(self) -> None:
        """Until nobody streams any more. With Redis away it tries again, and the pages poll."""
        while True:
            try:
                await self._follow()
            except (redis.RedisError, DatabaseError) as error:
                log.warning("no word of changes; open pages poll meanwhile", reason=type(error).__name__)
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, decode_responses=True)
        async with client, client.pubsub(ignore_subscribe_messages=True) as channels:
            await channels.subscribe(CHANGED)
            await channels.psubscribe(HEALTH_PATTERN)
            await sync_to_async(catch_up, thread_sensitive=False)()
            self._wake()
            async for message in channels.listen():
                if message["type"] == "pmessage":
                    await take_over(message["channel"], message["data"])
                self._wake()

    def _wake(self) -> None:
        for stream in self._streams:
            stream.set()


async def take_over(channel: str, text: str) -> None:
    """Write a change of health down at once: the page that is told of it must find it."""
    pair = channel.removeprefix("pairing:{").removesuffix("}:health")
    try:
        await sync_to_async(projection.apply_health, thread_sensitive=False)(pair, SharedHealth.from_json(text))
    except Pair.DoesNotExist:
        return
    except (ValueError, KeyError, DatabaseError) as error:
        log.warning("a change of health was not taken over; the collectors will", pair=pair, error=str(error))


def catch_up() -> None:
    """Write down what was told while nobody listened."""
    for pair in Pair.objects.values_list("name", flat=True):
        projection.apply_all_health(pair, shared_state(pair).health().values())


_broadcasts: WeakKeyDictionary[asyncio.AbstractEventLoop, Broadcast] = WeakKeyDictionary()


async def stream(may_go_on: Callable[[], Awaitable[bool]] | None = None) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `changed` (several in short order are one), and a comment now and then.

    Ends once `may_go_on`, asked every ASKED_AGAIN_S before something is told, says no.
    """
    broadcast = _broadcasts.setdefault(asyncio.get_running_loop(), Broadcast())
    woken, asked = broadcast.join(), time.monotonic()
    try:
        yield b"retry: 3000\n" + CHANGED_MESSAGE
        while True:
            told = CHANGED_MESSAGE if await _is_woken(woken) else b": still here\n\n"
            if may_go_on and time.monotonic() - asked >= ASKED_AGAIN_S:
                if not await may_go_on():
                    return
                asked = time.monotonic()
            yield told
            await asyncio.sleep(LEAST_GAP_S)
    finally:
        broadcast.leave(woken)


async def _is_woken(woken: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(KEEP_ALIVE_S):
            await woken.wait()
    except TimeoutError:
        return False
    woken.clear()
    return True
