"""The tables of a store, and messages as rows of one of them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from emulator.broker.message import Message, MessageState, StoredMessage

# Columns are named after the fields. Fields that are not listed are lost in a restart.
MESSAGE_FIELDS = (
    *("bare", "annotations", "annotation_count", "durable", "priority", "header_ttl_ms", "ttl_s", "scheduled_at"),
    *("partition_key", "message_id", "session_id", "size"),
)
STORED_FIELDS = (
    *("enqueued_at", "expires_at", "state", "delivery_count", "scheduled_at", "enqueue_sequence_number"),
    *("dead_letter_source", "hops"),
)

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS entities (
    path TEXT PRIMARY KEY, kind TEXT NOT NULL, spelling TEXT NOT NULL, document TEXT NOT NULL,
    created_at REAL NOT NULL, updated_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS rules (
    subscription TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL, created_at REAL NOT NULL,
    PRIMARY KEY (subscription, name));
CREATE TABLE IF NOT EXISTS queues (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, last_sequence INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    queue INTEGER NOT NULL, sequence INTEGER NOT NULL,
    {", ".join(f"sent_{field}" for field in MESSAGE_FIELDS)}, {", ".join(STORED_FIELDS)},
    PRIMARY KEY (queue, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    queue INTEGER NOT NULL, session_id TEXT NOT NULL, state BLOB NOT NULL, updated_at REAL NOT NULL,
    PRIMARY KEY (queue, session_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (
    queue INTEGER NOT NULL, message_id TEXT NOT NULL, seen_at REAL NOT NULL,
    PRIMARY KEY (queue, message_id)) WITHOUT ROWID;
"""
PUT_MESSAGE = f"INSERT OR REPLACE INTO messages VALUES ({', '.join('?' * (2 + len(MESSAGE_FIELDS + STORED_FIELDS)))})"

_STATE_OF = {int(state): state for state in MessageState}

_of_message = attrgetter(*MESSAGE_FIELDS)
_of_stored = attrgetter(*STORED_FIELDS)


def from_message(queue: int, stored: StoredMessage) -> tuple[Any, ...]:
    """The row of a message in the queue of this number."""
    return (queue, stored.sequence_number, *_of_message(stored.message), *_of_stored(stored))


def to_message(row: tuple[Any, ...]) -> StoredMessage:
    """The message of a row, unlocked. A restart calls this for each message, so it names each column once."""
    # fmt: off
    (_, number,
     bare, annotations, annotation_count, durable, priority, header_ttl_ms, ttl_s, sent_scheduled_at,
     partition_key, message_id, session_id, size,
     enqueued_at, expires_at, state, delivery_count, scheduled_at, enqueue_sequence_number,
     dead_letter_source, hops) = row
    # fmt: on
    message = Message(
        bare,
        None if durable is None else bool(durable),
        priority,
        header_ttl_ms,
        ttl_s,
        annotations,
        annotation_count,
        sent_scheduled_at,
        partition_key,
        message_id,
        session_id,
        size=size,
    )
    return StoredMessage(
        message,
        number,
        enqueued_at,
        expires_at,
        _STATE_OF[state],
        delivery_count,
        scheduled_at,
        enqueue_sequence_number,
        dead_letter_source,
        hops,
    )
