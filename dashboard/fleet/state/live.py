"""Live updates of open pages: one Redis subscription per process, shared by all its streams.

Collectors write to the database and then announce the change. A stream only notifies its page, which then fetches its
content: streams neither write nor check permissions on content.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
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
ANYTHING = "*"
"""What has changed, if it is not known to be of some pairs; as the pair of a stream: only such changes."""
CHANGED_MESSAGE = "event: changed\ndata: {}\n\n"
log = structlog.get_logger(__name__)


class Woken(asyncio.Event):
    """Set for each change of the pair, or of any; `changed`: the pairs since it was cleared."""

    def __init__(self, pair: str) -> None:
        super().__init__()
        self.pair, self.changed = pair, set[str]()

    def clear(self) -> None:
        super().clear()
        self.changed = set()


class Broadcast:
    """Wakes the streams that wait for a change of its pair, or of any, when it is announced."""

    def __init__(self) -> None:
        self._streams: set[Woken] = set()
        self._listener: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def join(self, pair: str = "") -> Woken:
        """Register a stream. Returns its wake-up event, set for each change of this pair, or any, from now on."""
        woken = Woken(pair)
        self._streams.add(woken)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        return woken

    def leave(self, woken: Woken) -> None:
        """Unregister a stream; the last one ends the subscription."""
        self._streams.discard(woken)
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
        for stream in self._streams:
            if not pair or stream.pair in ("", pair):
                stream.changed.add(pair or ANYTHING)
                stream.set()


def _cancel(listener: asyncio.Task[None]) -> None:
    """Until it has ended: while it connects, the Redis client may swallow a cancellation, and then listen for ever."""
    if not listener.done():
        listener.cancel()
        asyncio.get_running_loop().call_later(CANCELLED_AGAIN_S, _cancel, listener)


_broadcasts: WeakKeyDictionary[asyncio.AbstractEventLoop, Broadcast] = WeakKeyDictionary()


async def stream(
    may_go_on: Callable[[], Awaitable[bool]] | None = None, pair: str = "", *, names_pairs: bool = False
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `changed` (of one pair, or any; quick successions are merged), and keep-alive comments.

    `names_pairs`: with the names of the pairs that have changed, or `*`; otherwise always `*`. Ends when `may_go_on`,
    which is called after a `changed` at most every ASKED_AGAIN_S, returns False. Not before it: a thousand pages would
    be notified of a change only when all had been asked about.
    """
    broadcast = _broadcasts.setdefault(asyncio.get_running_loop(), Broadcast())
    woken, asked = broadcast.join(pair), time.monotonic()
    try:
        yield ("retry: 3000\n" + CHANGED_MESSAGE.format(ANYTHING)).encode()
        while True:
            if not (changed := await _changed(woken)):
                yield b": still here\n\n"
                continue
            names = " ".join(sorted(changed)) if names_pairs and ANYTHING not in changed else ANYTHING
            yield CHANGED_MESSAGE.format(names).encode()
            await asyncio.sleep(LEAST_GAP_S)
            if may_go_on and time.monotonic() - asked >= ASKED_AGAIN_S:
                if not await may_go_on():
                    return
                asked = time.monotonic()
    finally:
        broadcast.leave(woken)


async def _changed(woken: Woken) -> set[str]:
    """The pairs that have changed, or `*`; nothing within the time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(KEEP_ALIVE_S):
            await woken.wait()
    changed = woken.changed
    woken.clear()
    return changed
