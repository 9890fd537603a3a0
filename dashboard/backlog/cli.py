"""The commands for orphans and dead letters. Deleting and discarding cannot be undone, so they ask first."""

from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from dashboard.access.declaration import Argument
from dashboard.backlog import browsing, cleanup
from dashboard.backlog.actions import LETTER_ACTIONS, QUEUE_ACTIONS, LetterAction, QueueAction
from dashboard.backlog.browsing import Wanted
from dashboard.backlog.places import Place, in_the_primary, place
from dashboard.command_line.subcommands import (
    Answer,
    Options,
    Subcommands,
    add_action,
    add_subcommand,
    arguments,
    confirm,
    pair_named,
    perform,
    table,
)
from dashboard.fleet.namespaces import NamespaceError, namespace
from dashboard.models import BacklogQueue, Pair


def add(commands: Subcommands) -> None:
    """Declare them."""
    for name, run, meaning in (
        ("orphans", _orphans, "backlog queues that no pair and no process uses"),
        ("dead-letters", _letters, "dead letters by queue and subscription, or those of one"),
    ):
        parser = add_subcommand(commands, name, meaning, run)
        parser.add_argument("pair", nargs="?", help="only queues of this pair")
        if name == "dead-letters":
            parser.add_argument("queue", nargs="?", help="peek into this queue, or <topic>/Subscriptions/<name>")
            parser.add_argument("--after", type=int, default=0, help="continue at this sequence number")
    for queue_action in QUEUE_ACTIONS:
        add_action(commands, queue_action, "QUEUE", partial(_on_queue, queue_action))
    for letter_action in LETTER_ACTIONS:
        add_action(commands, letter_action, "QUEUE", partial(_on_letters, letter_action))


def _queues(pair: str | None) -> QuerySet[BacklogQueue]:
    rows = BacklogQueue.objects.filter(is_gone=False).select_related("pair").order_by("pair__name", "path")
    return rows.filter(pair=pair_named(pair)) if pair else rows


def _orphans(options: Options) -> Answer:
    rows = [
        {
            "pair": queue.pair.name,
            "queue": queue.path,
            "messages": queue.messages,
            "dead_lettered": queue.dead_lettered,
            "status": queue.status,
            "accessed_at": queue.accessed_at.isoformat() if queue.accessed_at else None,
            "seen_at": queue.seen_at.isoformat(),
        }
        for queue in _queues(options["pair"]).filter(is_orphan=True)
    ]
    columns = ("pair", "queue", "messages", "dead_lettered", "status", "accessed_at")
    lines = table(columns, [[row[name] or 0 for name in columns] for row in rows]) if rows else ["No orphans."]
    return Answer(rows, lines)


def _letters(options: Options) -> Answer:
    if options["queue"]:
        return _peeked(options)
    rows = [
        {"pair": queue.pair.name, "queue": queue.path, "dead_lettered": queue.dead_lettered}
        for queue in _queues(options["pair"]).filter(dead_lettered__gt=0)
    ]
    rows += [
        {"pair": pair.name, "queue": path, "dead_lettered": count}
        for pair in ([pair_named(options["pair"])] if options["pair"] else Pair.objects.order_by("name"))
        for path, count in in_the_primary(pair)
    ]
    lines = table(("pair", "queue", "dead letters"), [list(row.values()) for row in rows])
    return Answer(rows, lines if rows else ["No dead letters."])


def _peeked(options: Options) -> Answer:
    """Without bodies, which must not stay in a terminal's scrollback."""
    pair, queue = pair_named(options["pair"]), options["queue"]
    at = _require_letters({**options, "target": queue})
    try:
        with namespace(pair.name, at.role) as here:
            found = browsing.scan(here, queue, Wanted(), dead=True, after=max(0, options["after"]))
    except NamespaceError as error:
        raise CommandError(str(error)) from None
    rows: list[dict[str, Any]] = [
        {
            "sequence_number": one.number,
            "message_id": one.message_id,
            "entity": one.entity,
            "enqueued_at": one.enqueued_at.isoformat() if one.enqueued_at else None,
            "size_bytes": one.size,
            "reason": one.reason,
            "description": one.about,
        }
        for one in found.messages
    ]
    columns = ("sequence_number", "message_id", "entity", "reason")
    lines = table(columns, [[_one_line(row[name]) for name in columns] for row in rows]) if rows else ["None found."]
    more = [f"More: --after {found.goes_on_at}"] if found.goes_on_at is not None else []
    return Answer({"messages": rows, "after": found.goes_on_at}, [*lines, *more])


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _on_queue(action: QueueAction, options: Options) -> Answer:
    pair = _require(options)
    if Argument.CONFIRMATION not in action.arguments:
        return perform(options, action.run)
    look = cleanup.read(pair, options["target"])
    if look.proof is None:
        raise CommandError(look.trouble)
    confirm(options, f"{options['target']} holds {look.proof.messages:,} messages, which are deleted with it.")
    return perform(options, partial(action.run, typed=options["target"], confirmed=look.confirmation))


def _on_letters(action: LetterAction, options: Options) -> Answer:
    _require_letters(options)
    if Argument.CONFIRMATION in action.arguments:
        which = f"{len(options['number'])} chosen" if options["number"] else "all"
        confirm(options, f"Discards {which} dead letters of {options['target']} permanently.")
    return perform(options, partial(action.run, **arguments(action, options)))


def _require(options: Options) -> Pair:
    pair = pair_named(options["pair"])
    if not cleanup.known(pair, options["target"]):
        raise CommandError(f"{pair} has no backlog queue {options['target']}; `backlog --pair {pair}` lists them.")
    return pair


def _require_letters(options: Options) -> Place:
    pair, path = pair_named(options["pair"]), options["target"]
    if (at := place(pair, path)) is None:
        raise CommandError(f"{pair} has no queue or subscription {path}; `pairing dead-letters {pair}` lists them.")
    return at
