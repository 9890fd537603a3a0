"""The persistent state of a namespace in SQLite: entities, messages, session states and the duplicate history.

The store is a journal (`emulator/broker/journal.py`). Each change is written into an open transaction when it
is reported, and the transaction is committed to disk before any answer about it is sent. After a process is killed
between two commits, everything that was acknowledged is restored and nothing that was settled. Entities are stored as
the XML of the administration, so that there is one format.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.administration import atom
from emulator.administration.documents import read, write
from emulator.administration.entries import queue_runtime
from emulator.administration.rule_documents import read_rule, write_rule
from emulator.broker.dead_letter import DEAD_LETTER_SUFFIX, TRANSFER_SUFFIX
from emulator.broker.descriptions import (
    DescriptionError,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulator.broker.errors import BrokerError, EntityNotFound
from emulator.broker.message import StoredMessage
from emulator.broker.namespace import Namespace
from emulator.broker.queues.queue import Queue
from emulator.broker.rules import Rule, compile_rule
from emulator.broker.topic import SUBSCRIPTIONS, Inbox
from emulator.store import rows

VERSION = 1
Description = QueueDescription | TopicDescription | SubscriptionDescription

# Forwarding addresses are written with a host, which is ignored when they are read.
_HOST = "store"
_HISTORY_S = 7 * 86400.0
_SWEEP_EVERY = 10_000


class StoreError(Exception):
    """The store cannot be opened or written; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An entity as it was last written, compared to find out whether it has changed."""

    kind: str
    description: Description
    queue: Queue
    rules: tuple[Rule, ...]
    updated_at: float


class Store:
    """The journal of one namespace in one file. One process at a time may have it open."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; raise StoreError if it cannot be, or if another process has it."""
        self._path = path
        self._namespace: Namespace | None = None
        self._kept: dict[str, _Kept] = {}
        self._ids: dict[str, int] = {}
        self._last_sequences: dict[int, int] = {}
        self._remembered = 0
        self._failure: StoreError | None = None
        with self._failures():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._open()

    def _open(self) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        version = run("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise StoreError(f"{self._path} was written by another version of the emulator ({version}).")
        self._database.executescript(rows.SCHEMA)
        run(f"PRAGMA user_version = {VERSION}")
        self._ids = dict(run("SELECT path, id FROM queues"))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            # Reported changes may be written in part: nothing can be acknowledged from now on.
            self._failure = StoreError(f"The store {self._path} cannot be used: {error}.")
            raise self._failure from error

    @contextmanager
    def _invalid_contents(self) -> Iterator[None]:
        try:
            yield
        except (DescriptionError, atom.DocumentError, BrokerError) as error:
            raise StoreError(f"The store {self._path} contains unsupported data: {error}") from error

    def close(self) -> None:
        """Commit, unless the store has failed, and close the file."""
        if self._failure is None:
            self.commit()
        self._database.close()

    # --- restoring -------------------------------------------------------------------------------------------------

    def restore(self, namespace: Namespace, now: float) -> None:
        """Restore the state into an empty namespace, and record its changes from now on. A restart counts as use."""
        with self._failures(), self._invalid_contents():
            found = self._database.execute("SELECT * FROM entities ORDER BY kind = 'subscription', path").fetchall()
            times = {self._restore_entity(namespace, *row[:5]): row[4:] for row in found}
            for queue, (created_at, updated_at) in times.items():
                queue.created_at, queue.updated_at, queue.accessed_at = created_at, updated_at, now
            self._namespace = namespace
            self._kept = {row[0]: kept for row in found if (kept := _find(namespace, row[2])) is not None}
            self._restore_contents(namespace)

    def _restore_entity(
        self, namespace: Namespace, path: str, kind: str, spelling: str, text: str, created_at: float
    ) -> Queue:
        document = atom.parse(text.encode())
        if kind == "queue":
            return namespace.create_queue(spelling, read(document, QueueDescription(spelling)), created_at)
        if kind == "topic":
            return namespace.create_topic(spelling, read(document, TopicDescription(spelling)), created_at).inbox
        topic, _, name = spelling.rpartition("/Subscriptions/")
        description = read(document, SubscriptionDescription(topic, name))
        subscription = namespace.create_subscription(topic, description, created_at, ())
        subscription.restore_rules(self._restored_rules(path))
        return subscription.queue

    def _restored_rules(self, subscription: str) -> list[Rule]:
        kept = "SELECT name, document, created_at FROM rules WHERE subscription = ?"
        return [
            compile_rule(read_rule(atom.parse(document.encode()), name), created_at)
            for name, document, created_at in self._database.execute(kept, [subscription])
        ]

    def _restore_contents(self, namespace: Namespace) -> None:
        run = self._database.execute
        for number, path, last_sequence in run("SELECT id, path, last_sequence FROM queues").fetchall():
            if not namespace.knows(path):
                self._forget_contents(path)  # written after its entity was deleted
                continue
            queue = namespace.resolve(path)
            for row in run("SELECT * FROM messages WHERE queue = ? ORDER BY sequence", [number]):
                queue.restore(rows.to_message(row))
            for row in run("SELECT session_id, state, updated_at FROM sessions WHERE queue = ?", [number]):
                queue.restore_session_state(*row)
            queue.history.restore(run("SELECT message_id, seen_at FROM history WHERE queue = ?", [number]))
            queue.last_sequence_number = max(queue.last_sequence_number, last_sequence)

    # --- the journal -----------------------------------------------------------------------------------------------

    def enqueued(self, path: str, stored: StoredMessage) -> None:
        number = self._number(path)
        self._write(rows.PUT_MESSAGE, rows.from_message(number, stored))
        self._last_sequences[number] = max(stored.sequence_number, self._last_sequences.get(number, 0))

    def changed(self, path: str, stored: StoredMessage) -> None:
        self._write(rows.PUT_MESSAGE, rows.from_message(self._number(path), stored))

    def removed(self, path: str, sequence_number: int) -> None:
        self._write("DELETE FROM messages WHERE queue = ? AND sequence = ?", (self._number(path), sequence_number))

    def session_state(self, path: str, session_id: str, state: bytes | None, updated_at: float) -> None:
        number = self._number(path)
        if state is None:
            self._write("DELETE FROM sessions WHERE queue = ? AND session_id = ?", (number, session_id))
        else:
            self._write("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", (number, session_id, state, updated_at))

    def remembered(self, path: str, message_id: str, seen_at: float) -> None:
        self._write("INSERT OR REPLACE INTO history VALUES (?, ?, ?)", (self._number(path), message_id, seen_at))
        self._remembered += 1
        if self._remembered % _SWEEP_EVERY == 0:
            self._write("DELETE FROM history WHERE seen_at < ?", (seen_at - _HISTORY_S,))

    def sequence(self, path: str, last: int) -> None:
        self._begin()
        self._last_sequences[self._number(path)] = last

    def entity(self, path: str) -> None:
        """Write the entity if it is new or has changed; delete it with its contents if it is gone."""
        if self._namespace is None:
            return
        key = path.lower()
        before, now = self._kept.pop(key, None), _find(self._namespace, path)
        if before is not None and (now is None or now.queue is not before.queue):
            self._forget(key)
        if now is not None:
            self._kept[key] = now
            if now != before:
                self._keep(key, now)

    def commit(self) -> None:
        """Make everything reported so far durable.

        Raises StoreError, and from then on always: nothing may be acknowledged any more, the process has to end.
        """
        if self._failure is not None:
            raise self._failure
        if not self._database.in_transaction:
            return
        with self._failures():
            self._database.executemany(
                "UPDATE queues SET last_sequence = max(last_sequence, ?) WHERE id = ?",
                [(last, number) for number, last in self._last_sequences.items()],
            )
            self._database.execute("COMMIT")
        self._last_sequences.clear()

    # --- writing ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._failures():
            self._begin()
            self._database.execute(statement, values)

    def _number(self, path: str) -> int:
        """The number of a queue; a dead-letter queue has one of its own."""
        number = self._ids.get(path.lower())
        if number is None:
            with self._failures():
                self._begin()
                insert = "INSERT INTO queues (path, last_sequence) VALUES (?, 0) RETURNING id"
                [number] = self._database.execute(insert, [path.lower()]).fetchone()
            self._ids[path.lower()] = number
        return int(number)

    def _forget(self, path: str) -> None:
        """Delete the rows of an entity and its dead-letter queues."""
        for suffix in ("", DEAD_LETTER_SUFFIX, TRANSFER_SUFFIX):
            self._forget_contents(path + suffix.lower())
        self._write("DELETE FROM rules WHERE subscription = ?", (path,))
        self._write("DELETE FROM entities WHERE path = ?", (path,))

    def _forget_contents(self, path: str) -> None:
        number = self._ids.pop(path, None)
        if number is not None:
            self._last_sequences.pop(number, None)
            for table in ("messages", "sessions", "history"):
                self._write(f"DELETE FROM {table} WHERE queue = ?", (number,))
            self._write("DELETE FROM queues WHERE id = ?", (number,))

    def _keep(self, path: str, kept: _Kept) -> None:
        queue = kept.queue
        document = write(kept.description, queue_runtime(queue), _HOST)
        self._write(
            "INSERT OR REPLACE INTO entities VALUES (?, ?, ?, ?, ?, ?)",
            (path, kept.kind, queue.path, document, queue.created_at, queue.updated_at),
        )
        self._write("DELETE FROM rules WHERE subscription = ?", (path,))
        for rule in kept.rules:
            text = write_rule(rule.description, rule.created_at)
            self._write("INSERT INTO rules VALUES (?, ?, ?, ?)", (path, rule.name, text, rule.created_at))


def _find(namespace: Namespace, path: str) -> _Kept | None:
    """The entity of this path in its current state, None if there is none."""
    try:
        queue = namespace.resolve(path)
    except EntityNotFound:
        return None
    if isinstance(queue, Inbox):
        return _Kept("topic", queue.topic.description, queue, (), queue.updated_at)
    topic, separator, name = path.lower().rpartition(SUBSCRIPTIONS)
    if not separator or queue in namespace.queues():
        return _Kept("queue", queue.description, queue, (), queue.updated_at)
    found = namespace.topic(topic).subscription(name)
    return _Kept("subscription", found.description, queue, tuple(found.rules()), queue.updated_at)
