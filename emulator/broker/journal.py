"""What a broker object tells a store about each change, so that it is written down before anybody is told of it.

The order is the promise: a queue changes itself in memory, announces the change here, and the server calls `commit`
once per turn of its loop, after all changes of that turn and before any byte of an answer leaves. A store which keeps
a transaction open between two commits therefore loses nothing acknowledged and revives nothing settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emulator.broker.message import StoredMessage


class Journal(Protocol):
    """Where broker objects announce what must survive a restart. Paths are entity paths as shown to people.

    Dead-letter queues are queues of their own with paths ending in `/$DeadLetterQueue`; a subscription's messages are
    announced under `topic/Subscriptions/name`. Locks are not announced: a restart ends them all.
    """

    def enqueued(self, path: str, stored: StoredMessage) -> None:
        """A message is new in this queue (active or scheduled), with its sequence number given."""

    def changed(self, path: str, stored: StoredMessage) -> None:
        """Its delivery count or its state (active, deferred, scheduled) is another now."""

    def removed(self, path: str, sequence_number: int) -> None:
        """It was completed, dead-lettered, forwarded, expired, cancelled or received and deleted."""

    def session_state(self, path: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        """A session's state was set (None: cleared)."""

    def remembered(self, path: str, message_id: str, seen_at: float) -> None:
        """A message id entered the duplicate detection history."""

    def sequence(self, path: str, last: int) -> None:
        """The last sequence number given out, announced when it rises without a message that stays."""

    def entity(self, path: str) -> None:
        """The queue, topic or subscription was created, updated (its rules too) or deleted: look at it again."""

    def commit(self) -> None:
        """Everything announced so far is durable when this returns."""


class NoJournal:
    """A namespace in memory only."""

    def enqueued(self, path: str, stored: StoredMessage) -> None: ...
    def changed(self, path: str, stored: StoredMessage) -> None: ...
    def removed(self, path: str, sequence_number: int) -> None: ...
    def session_state(self, path: str, session_id: str, state: bytes | None, updated_at: float) -> None: ...
    def remembered(self, path: str, message_id: str, seen_at: float) -> None: ...
    def sequence(self, path: str, last: int) -> None: ...
    def entity(self, path: str) -> None: ...
    def commit(self) -> None: ...
