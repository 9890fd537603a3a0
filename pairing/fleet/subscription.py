"""Listening to what Redis publishes, and again after each interruption."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing

import redis
from redis.client import PubSub
from redis.exceptions import RedisError

_LOGGER = logging.getLogger("pairing")

_SLICE_S = 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Subscription:
    """Calls the reader of a channel with each text that is published there, on the thread that runs it.

    ``on_gap`` is called, with its error, wherever something may have been published while nobody listened. ``is_cut``
    ends a subscription that can no longer be trusted; the next one begins at once.
    """

    def __init__(
        self,
        client: redis.Redis,
        readers: Mapping[str, Callable[[str], None]],
        *,
        on_gap: Callable[[Exception | None], None],
        is_cut: threading.Event,
        is_closing: Callable[[], bool],
        rest: Callable[[float], None],
    ) -> None:
        self._redis, self._readers = client, readers
        self._on_gap, self._is_cut, self._is_closing, self._rest = on_gap, is_cut, is_closing, rest

    def run(self) -> None:
        """Listen until closing. No error ends it."""
        while not self._is_closing():
            self._is_cut.clear()
            try:
                self._listen(self._redis.pubsub(ignore_subscribe_messages=True))  # type: ignore[no-untyped-call]
            except (RedisError, OSError) as error:
                self._on_gap(error)
                self._rest(_FIRST_PAUSE_S)
            except Exception:
                _LOGGER.exception("pairing: listening to Redis failed; it continues")
                self._rest(_LONGEST_PAUSE_S)

    def _listen(self, pubsub: PubSub) -> None:
        with closing(pubsub):
            pubsub.subscribe(*self._readers)
            self._on_gap(None)  # for what was said before this process listened
            while not self._is_closing() and not self._is_cut.is_set():
                message = pubsub.get_message(timeout=_SLICE_S)
                if message is not None:
                    self._readers[message["channel"]](message["data"])
