"""The control plane for people in a shell: what the pages tell, and what their buttons do, by the same rules."""

import getpass
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from dashboard import control
from dashboard.access import Refused
from dashboard.boards import last_heartbeat, status_of
from dashboard.models import EntityHealth, Pair, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.status import Status, is_silent

VERBS: dict[str, tuple[Callable[..., control.Outcome], str, str]] = {
    "fail-over": (control.fail_over, "ENTITY", "send an entity's messages to the backlog; held until released"),
    "hold": (control.hold, "ENTITY", "keep a failed-over entity from returning by itself"),
    "release": (control.release, "ENTITY", "end a hold: the next accepted ping heals the entity"),
    "mark-healthy": (control.mark_healthy, "ENTITY", "end hold and failover together, whatever the primary answers"),
    "pause": (control.pause_syphon, "QUEUE", "stop bringing messages home, from one backlog queue or from all (*)"),
    "resume": (control.resume_syphon, "QUEUE", "go on bringing messages home"),
}


class Command(BaseCommand):
    """Every deed is permission-checked and audited under the person that --user names."""

    help = "Look at pairs, and fail over, hold, release, heal, pause and resume from a shell."

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")
        status = words.add_parser("status", help="what is not healthy, since when and why")
        status.add_argument("pair", nargs="?", help="only this pair")
        status.add_argument("--all", action="store_true", help="healthy entities too")
        status.add_argument("--json", action="store_true", help="one JSON document instead of a table")
        for word, (_, target, meaning) in VERBS.items():
            deed = words.add_parser(word, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
            deed.add_argument("pair")
            deed.add_argument("target", metavar=target)
            deed.add_argument("--reason", required=True, help="why; kept in the audit trail and told to the fleet")
            deed.add_argument("--user", help="who does it, as they sign in to the pages (default: this login's name)")
            deed.add_argument("--request-id", default="", help="makes a repeated call one deed")
            deed.add_argument("--json", action="store_true", help="one JSON document instead of a sentence")
            if word == "fail-over":
                deed.add_argument("--minutes", type=_positive, help="let the failover end by itself after so long")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["word"] == "status":
            self._status(options)
        else:
            self._do(options)

    def _status(self, options: dict[str, Any]) -> None:
        pairs = [_pair(options["pair"])] if options["pair"] else list(Pair.objects.all())
        rows = [row for pair in pairs for row in _rows(pair) if options["all"] or row["status"] != Status.HEALTHY]
        if options["json"]:
            self.stdout.write(json.dumps(rows, indent=2))
        elif not pairs:
            self.stdout.write("No pair is known yet: name one in PAIRS_FILE and run sync_pairs.")
        elif not rows:
            self.stdout.write("All is healthy. --all lists every entity.")
        else:
            self.stdout.write("\n".join(_table(rows)))

    def _do(self, options: dict[str, Any]) -> None:
        verb, noun, _ = VERBS[options["word"]]
        pair = _pair(options["pair"])
        if noun == "ENTITY" and not pair.entities.filter(path=options["target"]).exists():
            raise CommandError(f"{pair} has no entity {options['target']}; `pairing status {pair} --all` lists them.")
        if noun == "QUEUE" and not _is_queue(pair, options["target"]):
            raise CommandError(f"{pair} has no backlog queue {options['target']}; `backlog --pair {pair}` lists them.")
        request = control.Request(
            user=_user(options["user"]),
            pair=pair,
            target=options["target"],
            reason=options["reason"],
            request_id=options["request_id"],
        )
        minutes = options.get("minutes")
        more = {"expires": timezone.now() + timedelta(minutes=minutes)} if minutes else {}
        try:
            outcome = verb(request, **more)
        except (Refused, control.ControlError) as error:
            raise CommandError(str(error)) from None
        told = {"outcome": outcome.outcome, "sentence": outcome.sentence}
        self.stdout.write(json.dumps(told) if options["json"] else outcome.sentence)


def _positive(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes <= 60 * 24 * 30:
        raise ValueError
    return minutes


def _pair(name: str) -> Pair:
    pair = Pair.objects.filter(name=name).first()
    if pair is None:
        known = ", ".join(Pair.objects.values_list("name", flat=True)) or "none; run sync_pairs"
        raise CommandError(f"There is no pair {name}; the known ones are: {known}.")
    return pair


def _is_queue(pair: Pair, path: str) -> bool:
    return path == WHOLE_PAIR or pair.backlog_queues.filter(path=path, is_gone=False).exists()


def _user(name: str | None) -> User:
    wanted = name or getpass.getuser()
    user = User.objects.filter(username=wanted).first()
    if user is None:
        raise CommandError(f"Nobody signs in as {wanted}: name a person of the pages with --user.")
    return user


def _rows(pair: Pair) -> list[dict[str, Any]]:
    paused = {pause.queue: pause.by for pause in SyphonPause.objects.filter(pair=pair)}
    entities = pair.entities.order_by("path")
    now = timezone.now()
    silent = is_silent(last_heartbeat(), now)
    return [_row(pair, entity, status_of(entity, now, silent), paused.get(WHOLE_PAIR)) for entity in entities]


def _row(pair: Pair, entity: EntityHealth, status: Status, paused_by: str | None) -> dict[str, Any]:
    return {
        "pair": pair.name,
        "entity": entity.path,
        "status": status.value,
        "since": entity.since.isoformat() if entity.since else None,
        "reason": entity.reason,
        "held_by": entity.held_by or None,
        "expires": entity.expires.isoformat() if entity.expires else None,
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
        f"syphon paused by {row['syphon_paused_by']}" if row["syphon_paused_by"] else "",
    ]
    return "; ".join(note for note in notes if note)
