"""The tables of a store, and messages as rows of one of them."""

from __future__ import annotations

import sqlite3
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

_BLOB, _TEXT, _COUNT, _TIME = "'blob'", "'text'", "'integer'", "'real', 'integer'"
_OPTIONAL = ", 'null'"
# The types of values in each column. SQLite itself stores any value in any column.
_COLUMNS = {
    "entities": {
        **dict.fromkeys(("path", "kind", "spelling", "document"), _TEXT),
        **dict.fromkeys(("created_at", "updated_at"), _TIME),
    },
    "rules": {"subscription": _TEXT, "name": _TEXT, "document": _TEXT, "created_at": _TIME},
    "queues": {"path": _TEXT, "last_sequence": _COUNT},
    "sessions": {"session_id": _TEXT, "state": _BLOB, "updated_at": _TIME},
    "history": {"message_id": _TEXT, "seen_at": _TIME},
    "messages": {
        **dict.fromkeys(("sent_bare", "sent_annotations"), _BLOB),
        **dict.fromkeys(("sent_annotation_count", "sent_size", "delivery_count", "hops"), _COUNT),
        **dict.fromkeys(
            ("sent_durable", "sent_priority", "sent_header_ttl_ms", "enqueue_sequence_number"), _COUNT + _OPTIONAL
        ),
        **dict.fromkeys(("sent_ttl_s", "sent_scheduled_at", "scheduled_at"), _TIME + _OPTIONAL),
        **dict.fromkeys(("sent_partition_key", "sent_message_id", "sent_session_id"), _TEXT + _OPTIONAL),
        **dict.fromkeys(("enqueued_at", "expires_at"), _TIME),
        "dead_letter_source": _TEXT + _OPTIONAL,
        "state": _COUNT,
    },
}
_STATE_OF = {int(state): state for state in MessageState}
_STATES = ", ".join(str(int(state)) for state in MessageState)

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


def damaged_table(database: sqlite3.Connection) -> str | None:
    """A table with a value that no store writes, None if there is none."""
    for table, columns in _COLUMNS.items():
        wrong = [f"typeof({column}) NOT IN ({types})" for column, types in columns.items()]
        if table == "messages":
            wrong.append(f"state NOT IN ({_STATES})")
        if database.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(wrong)} LIMIT 1").fetchone():
            return table
    return None
