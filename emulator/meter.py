"""Billable operations by entity and kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass

UNIT = 64 * 1024


@dataclass(slots=True)
class Usage:
    """The use of one entity in one way. `operations` counts attempts, the other fields what was accepted."""

    operations: int = 0
    messages: int = 0
    bytes: int = 0
    billing_units: int = 0


def billing_units(size: int) -> int:
    """The number of started 64 KB blocks of a message, at least one."""
    return max(1, -(-size // UNIT))


class Meter:
    """The counts of one namespace. Kinds: send, ping, receive, receive_empty, settle, manage."""

    def __init__(self) -> None:
        self._usage: dict[tuple[str, str], Usage] = {}

    def message(self, path: str, kind: str, size: int) -> None:
        """A message of `size` bytes was sent or delivered."""
        usage = self._of(path, kind)
        usage.operations += 1
        usage.messages += 1
        usage.bytes += size
        usage.billing_units += 1 if size <= UNIT else billing_units(size)

    def call(self, path: str, kind: str) -> None:
        """A call without a message, billed as one operation."""
        usage = self._of(path, kind)
        usage.operations += 1
        usage.billing_units += 1

    def refused(self, path: str, kind: str) -> None:
        """An operation that was attempted and refused; it is not billed."""
        self._of(path, kind).operations += 1

    def billed(self, path: str) -> dict[str, int]:
        """Billing units of one entity by kind."""
        return {kind: usage.billing_units for (entity, kind), usage in self._usage.items() if entity == path}

    def by_entity(self) -> dict[str, dict[str, int]]:
        """Billing units of all entities by kind."""
        billed: dict[str, dict[str, int]] = {}
        for (path, kind), usage in self._usage.items():
            billed.setdefault(path, {})[kind] = usage.billing_units
        return billed

    def as_json(self) -> dict[str, dict[str, dict[str, int]]]:
        """Everything, by entity and kind."""
        answer: dict[str, dict[str, dict[str, int]]] = {}
        for (path, kind), usage in sorted(self._usage.items()):
            answer.setdefault(path, {})[kind] = asdict(usage)
        return answer

    def _of(self, path: str, kind: str) -> Usage:
        usage = self._usage.get((path, kind))
        if usage is None:
            usage = self._usage[path, kind] = Usage()
        return usage
