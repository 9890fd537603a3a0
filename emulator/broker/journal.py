"""The write-ahead interface of the broker: each change is reported here before it is acknowledged to a client.

A queue changes itself in memory and reports the change here; the server calls `commit` once per turn of its loop, after
all changes of that turn and before any byte of an answer is written. A store that keeps a transaction open between two
commits therefore loses nothing that was acknowledged and brings back nothing that was settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emulator.broker.message import StoredMessage


class Journal(Protocol):
    """Receives what must survive a restart. Paths are entity paths as they were spelled at creation.

    Dead-letter queues are queues of their own with paths ending in `/$DeadLetterQueue`; a subscription's messages are
    reported under `topic/Subscriptions/name`. Locks are not reported: a restart ends them all.
    """

    def enqueued(self, path: str, stored: StoredMessage) -> None:
        """A message was added to this queue (active or scheduled), with its sequence number assigned."""

    def changed(self, path: str, stored: StoredMessage) -> None:
        """A message, its delivery count or its state (active, deferred, scheduled) changed."""

    def removed(self, path: str, sequence_number: int) -> None:
        """A message was completed, dead-lettered, forwarded, expired, cancelled, or received and deleted."""

    def session_state(self, path: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        """A session's state was set (None: cleared)."""

    def remembered(self, path: str, message_id: str, seen_at: float) -> None:
        """A message id was added to the duplicate detection history."""

    def sequence(self, path: str, last: int) -> None:
        """The last assigned sequence number, reported when no message is stored under it."""

    def entity(self, path: str) -> None:
        """A queue, topic or subscription was created, updated (including its rules) or deleted: read it again."""

    def commit(self) -> None:
        """Make everything reported so far durable."""


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
