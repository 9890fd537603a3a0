"""`pairing status`: entities that are not healthy, their backlog, and the pace of the syphon."""

from typing import Any

from django.utils import timezone

from dashboard.command_line.subcommands import NOT_WELL, Answer, Options, Subcommands, add_subcommand, pairs_named
from dashboard.fleet.boards import last_heartbeat, status_of
from dashboard.fleet.paces import paces
from dashboard.fleet.status import Status, is_silent
from dashboard.models import EntityHealth, Pair, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from pairing.fleet.shared_health import Pace


def add(commands: Subcommands) -> None:
    """Declare it."""
    status = add_subcommand(commands, "status", "entities that are not healthy, and their backlog", run)
    status.add_argument("pair", nargs="?", help="only this pair")
    status.add_argument("--all", action="store_true", help="include healthy entities")
    status.add_argument("--exit-code", action="store_true", help=f"exit with {NOT_WELL} if an entity is not healthy")


def run(options: Options) -> Answer:
    """One row per entity."""
    pairs = pairs_named(options["pair"])
    every = [row for pair in pairs for row in _rows(pair)]
    sick = [row for row in every if row["status"] != Status.HEALTHY]
    rows = every if options["all"] else sick
    if not pairs:
        lines = ["No pairs yet: add one to PAIRS_FILE and run sync_pairs."]
    elif not every:
        lines = ["No entities are known yet: workers look for them every minute, and applications report theirs."]
    elif not rows:
        lines = ["All entities are healthy. --all lists them."]
    else:
        lines = _table(rows)
    return Answer(rows, lines, NOT_WELL if options["exit_code"] and sick else 0)


def _rows(pair: Pair) -> list[dict[str, Any]]:
    paused = {pause.queue: pause.by for pause in SyphonPause.objects.filter(pair=pair)}
    now, limits = timezone.now(), paces(pair.name)
    silent = is_silent(last_heartbeat(), now)
    return [
        _row(pair, entity, status_of(entity, now, silent), paused.get(WHOLE_PAIR) or paused.get(entity.path), limits)
        for entity in pair.entities.present().order_by("path")
    ]


def _row(
    pair: Pair, entity: EntityHealth, status: Status, paused_by: str | None, limits: dict[str, Pace]
) -> dict[str, Any]:
    rates = [limits[target].rate for target in (entity.path, WHOLE_PAIR) if target in limits]
    return {
        "pair": pair.name,
        "entity": entity.path,
        "status": status.value,
        "since": entity.since.isoformat() if entity.since else None,
        "reason": entity.reason,
        "held_by": entity.held_by or None,
        "expires": entity.expires.isoformat() if entity.expires else None,
        "backlog_messages": entity.waiting,
        "pace_messages_per_s": min(rates, default=None),
        "syphon_paused_by": paused_by,
    }


def _table(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(f"{row['pair']}/{row['entity']}") for row in rows)
    return [_line(row, width) for row in rows]


def _line(row: dict[str, Any], width: int) -> str:
    name = f"{row['pair']}/{row['entity']}"
    return f"{name:{width}}  {row['status']:11}  {row['since'] or '':32}  {_notes(row)}".rstrip()


def _notes(row: dict[str, Any]) -> str:
    notes = [
        row["reason"],
        f"held by {row['held_by']}" if row["held_by"] else "",
        f"until {row['expires']}" if row["expires"] else "",
        f"{row['backlog_messages']:,} in the backlog" if row["backlog_messages"] else "",
        f"syphon at most {row['pace_messages_per_s']:g}/s" if row["pace_messages_per_s"] else "",
        f"syphon paused by {row['syphon_paused_by']}" if row["syphon_paused_by"] else "",
    ]
    return "; ".join(note for note in notes if note)
