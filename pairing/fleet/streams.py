"""The Redis streams of all pairs, on which processes report to the control plane."""

from collections.abc import Iterable
from typing import Any

import redis

EVENTS = "pairing:events"
USAGE = "pairing:usage"
_MOST_ENTRIES = 1_000_000  # the limit of a stream without readers


def add(pipeline: Any, stream: str, field: str, text: str) -> None:
    """Append one entry within a pipeline."""
    pipeline.xadd(stream, {field: text}, maxlen=_MOST_ENTRIES, approximate=True)


def append(client: redis.Redis, stream: str, field: str, texts: Iterable[str]) -> None:
    """Append entries in order, atomically."""
    entries = list(texts)
    if not entries:
        return
    with client.pipeline(transaction=True) as pipeline:
        for text in entries:
            add(pipeline, stream, field, text)
        pipeline.execute()
