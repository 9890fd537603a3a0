"""Live updates of open pages: one Redis subscription per process, shared by all its streams.

Collectors write to the database and then announce the change. A stream only notifies its page, which then fetches its
content: streams neither write nor check permissions on content.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from weakref import WeakKeyDictionary

import redis
import structlog
from django.conf import settings

from dashboard.site.redis import CHANGED
from pairing.fleet.redis_url import async_client_of

LEAST_GAP_S = 0.4
KEEP_ALIVE_S = 15.0
ASKED_AGAIN_S = 15.0
RETRY_S = 2.0
CANCELLED_AGAIN_S = 1.0
CHANGED_MESSAGE = b"event: changed\ndata: 1\n\n"
log = structlog.get_logger(__name__)


class Broadcast:
    """Wakes the streams that wait for a change of its pair, or of any, when it is announced."""

    def __init__(self) -> None:
        self._streams: dict[asyncio.Event, str] = {}
        self._listener: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def join(self, pair: str = "") -> asyncio.Event:
        """Register a stream. Returns its wake-up event, set for each change of this pair, or any, from now on."""
        woken = asyncio.Event()
        self._streams[woken] = pair
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        return woken

    def leave(self, woken: asyncio.Event) -> None:
        """Unregister a stream; the last one ends the subscription."""
        self._streams.pop(woken, None)
        if not self._streams and self._listener:
            self._ending.add(self._listener)  # asyncio itself would let it be collected before it has ended
            self._listener.add_done_callback(self._ending.discard)
            _cancel(self._listener)
            self._listener = None  # it takes time to end, and a stream that joins in between needs a new one

    async def _listen(self) -> None:
        """Listen until no stream is left. If Redis is unavailable, it retries, and the pages poll."""
        while True:
            try:
                await self._follow()
            except redis.RedisError as error:
                log.warning("live updates are unavailable; open pages poll", reason=type(error).__name__)
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        client = async_client_of(settings.REDIS_URL)
        async with client, client.pubsub(ignore_subscribe_messages=True) as channels:
            await channels.subscribe(CHANGED)
            self._wake("")  # for changes announced while not subscribed
            async for message in channels.listen():
                self._wake(message["data"].decode())

    def _wake(self, pair: str) -> None:
        for stream, wanted in self._streams.items():
            if not pair or wanted in ("", pair):
                stream.set()


def _cancel(listener: asyncio.Task[None]) -> None:
    """Until it has ended: while it connects, the Redis client may swallow a cancellation, and then listen for ever."""
    if not listener.done():
        listener.cancel()
        asyncio.get_running_loop().call_later(CANCELLED_AGAIN_S, _cancel, listener)


_broadcasts: WeakKeyDictionary[asyncio.AbstractEventLoop, Broadcast] = WeakKeyDictionary()


async def stream(may_go_on: Callable[[], Awaitable[bool]] | None = None, pair: str = "") -> AsyncGenerator[bytes, None]:
    """Server-sent events: `changed` (of one pair, or any; quick successions are merged), and keep-alive comments.

    Ends when `may_go_on`, which is called after a `changed` at most every ASKED_AGAIN_S, returns False. Not before it:
    a thousand pages would be told of a change only when all had been asked about.
    """
    broadcast = _broadcasts.setdefault(asyncio.get_running_loop(), Broadcast())
    woken, asked = broadcast.join(pair), time.monotonic()
    try:
        yield b"retry: 3000\n" + CHANGED_MESSAGE
        while True:
            if not await _is_woken(woken):
                yield b": still here\n\n"
                continue
            yield CHANGED_MESSAGE
            await asyncio.sleep(LEAST_GAP_S)
            if may_go_on and time.monotonic() - asked >= ASKED_AGAIN_S:
                if not await may_go_on():
                    return
                asked = time.monotonic()
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
