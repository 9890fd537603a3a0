"""The usage of both namespaces by draining a backlog queue, for the bill."""

import time
from collections import Counter, defaultdict
from typing import Any

from pairing.drain.backlog_queue import Item, Settled
from pairing.drain.host import SyphonHost
from pairing.drain.sorting import path_of
from pairing.messages.sizes import received_size
from pairing.telemetry.metering import STEP, billing_units

GRANT_S = 900.0
"""How long one grant of link credit lasts without a message."""
_REWRITING = 1024  # the maximum number of bytes that rewriting for the backlog adds


class Tally:
    """Meters the operations of one backlog queue; knows when a grant of link credit has ended without a delivery."""

    def __init__(self, client: SyphonHost, queue: str) -> None:
        self._count = client.meter.count
        self._primary, self._secondary = client.primary.namespace, client.secondary.namespace
        self._queue = queue
        self._sizes: dict[int, int] = {}
        self._granted_by: Any = None
        self._granted_at = 0.0
        self._is_empty = True

    @property
    def grant_is_over(self) -> bool:
        """Whether the grant has expired, so that the link must be opened again."""
        return self._granted_by is not None and time.monotonic() - self._granted_at > GRANT_S

    def granted(self, receiver: Any) -> None:
        """A receive starts; each receiver grants credit once."""
        if receiver is not self._granted_by:
            self.grant_ended()
            self._granted_by, self._granted_at, self._is_empty = receiver, time.monotonic(), True

    def grant_ended(self) -> None:
        """The link is closed; a grant without messages is an empty receive."""
        if self._granted_by is not None and self._is_empty:
            self._count("syphon_receive_empty", self._secondary, self._queue, billing_units=1)
        self._granted_by = None

    def received(self, messages: list[Any]) -> None:
        """Messages came from the backlog."""
        if messages:
            self._is_empty, self._granted_at = False, time.monotonic()
            self._sizes.clear()
        by_entity: defaultdict[str, list[int]] = defaultdict(list)
        for message in messages:
            size = self._sizes[message.sequence_number] = received_size(message)
            by_entity[path_of(message) or self._queue].append(size)
        for entity, sizes in by_entity.items():
            self._add("syphon_receive", self._secondary, entity, sizes)

    def settled(self, items: list[Item], outcomes: list[Settled]) -> None:
        """Messages were settled in the backlog."""
        done = Counter(item.path for item, outcome in zip(items, outcomes, strict=False) if outcome == "done")
        for path, count in done.items():
            entity, each = path or self._queue, {"operations": count, "messages": count, "billing_units": count}
            self._count("syphon_settle", self._secondary, entity, **each)

    def sent(self, path: str, items: list[Item]) -> None:
        """Messages were accepted by the primary."""
        self._add("syphon_send", self._primary, path, [self._restored_size(item) for item in items], operations=1)

    def _restored_size(self, item: Item) -> int:
        """An upper bound of the restored size; the received size, unless it is just above a billing step."""
        size = self._sizes.get(item.number, STEP)
        return size if size < STEP or size % STEP > _REWRITING else received_size(item.message)

    def refused(self, path: str) -> None:
        """A send was attempted, and not accepted."""
        self._count("syphon_send", self._primary, path)

    def managed(self) -> None:
        """A request about the backlog queue."""
        self._count("manage", self._secondary, self._queue, operations=1, billing_units=1)

    def asked(self, path: str, calls: int) -> None:
        """Administration calls about an entity of the primary."""
        self._count("manage", self._primary, path, operations=calls, billing_units=calls)

    def _add(self, kind: str, namespace: str, entity: str, sizes: list[int], *, operations: int | None = None) -> None:
        self._count(
            kind,
            namespace,
            entity,
            operations=len(sizes) if operations is None else operations,
            messages=len(sizes),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)),
        )
