"""A reader of a Redis stream in the control plane's consumer group: entries are removed only after they are saved."""

import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import redis

from workers.slices import PROCESS

GROUP = "control-plane"
ABANDONED_MS = 10_000  # longer than saving the entries takes
FORGOTTEN_MS = 3_600_000
_WAIT_MS = 1000  # far below the client's socket timeout
_COUNT = 1000
_LOOK_AGAIN_S = 5.0

Entries = list[tuple[str, str]]
"""Entry ids with the value of the stream's only field."""


class Reader:
    """This process as a consumer of the group. All calls can raise redis errors."""

    def __init__(
        self,
        client: redis.Redis,
        stream: str,
        field: str,
        consumer: str = PROCESS,
        *,
        abandoned_ms: int = ABANDONED_MS,
    ) -> None:
        self._redis = client
        self._stream = stream
        self._field = field
        self._consumer = consumer
        self._abandoned_ms = abandoned_ms

    def batches(self, stop: threading.Event) -> Iterator[Entries]:
        """Entries abandoned by others, then new ones; an empty list after each second without entries; until stop."""
        self._join()
        look_at = time.monotonic()
        while not stop.is_set():
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _LOOK_AGAIN_S
                yield from self._abandoned()
            answer = self._redis.xreadgroup(GROUP, self._consumer, {self._stream: ">"}, count=_COUNT, block=_WAIT_MS)
            yield [entry for _, entries in cast("list[Any]", answer) for entry in self._values(entries)]

    def acknowledge(self, entries: Entries) -> None:
        """Call after the entries are saved: removes them from the stream."""
        if entries:
            ids = [identity for identity, _ in entries]
            with self._redis.pipeline(transaction=True) as pipe:
                pipe.xack(self._stream, GROUP, *ids)
                pipe.xdel(self._stream, *ids)
                pipe.execute()

    def _join(self) -> None:
        try:
            self._redis.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        for consumer in self._redis.xinfo_consumers(self._stream, GROUP):
            if consumer["pending"] == 0 and consumer["idle"] > FORGOTTEN_MS:
                self._redis.xgroup_delconsumer(self._stream, GROUP, consumer["name"])

    def _abandoned(self) -> Iterator[Entries]:
        cursor = "0-0"
        while True:
            cursor, entries, *_ = self._redis.xautoclaim(
                self._stream, GROUP, self._consumer, self._abandoned_ms, cursor, count=_COUNT
            )
            if claimed := self._values(entries):
                yield claimed
            if cursor == "0-0":
                return

    def _values(self, entries: list[tuple[str, dict[str, str] | None]]) -> Entries:
        return [(identity, fields.get(self._field, "")) for identity, fields in entries if fields is not None]
