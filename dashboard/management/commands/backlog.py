"""The backlog queues as on the page, for a terminal or a script."""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.models import BacklogQueue, Pair


class Command(OneSentenceCommand):
    """Reads the last samples of the workers; accesses no namespace itself."""

    help = "List backlog queues with their counts and problems."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pair", help="only queues of this pair")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = [_row(queue) for queue in _queues(options["pair"])]
        if options["json"]:
            self.stdout.write(json.dumps(rows, indent=2))
        elif not rows:
            self.stdout.write("No backlog queue was sampled yet; workers sample them periodically.")
        else:
            self.stdout.write("\n".join(_table(rows)))


def _queues(pair: str | None) -> Any:
    queues = BacklogQueue.objects.filter(is_gone=False).select_related("pair").order_by("pair__name", "index", "path")
    if pair is None:
        return queues
    if not Pair.objects.filter(name=pair).exists():
        known = ", ".join(Pair.objects.values_list("name", flat=True)) or "none; run sync_pairs"
        raise CommandError(f"There is no pair {pair}; the known ones are: {known}.")
    return queues.filter(pair__name=pair)


def _row(queue: BacklogQueue) -> dict[str, Any]:
    return {
        "pair": queue.pair.name,
        "queue": queue.path,
        "active": queue.active,
        "scheduled": queue.scheduled,
        "dead_lettered": queue.dead_lettered,
        "full": round(queue.share_full, 4),
        "status": queue.status,
        "is_orphan": queue.is_orphan,
        "deviations": queue.deviations,
        "seen_at": queue.seen_at.isoformat(),
    }


def _table(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["queue"]) for row in rows)
    head = f"{'queue':{width}}  {'active':>9}  {'scheduled':>9}  {'dead':>7}  {'full':>6}  notes"
    return [head, *(_line(row, width) for row in rows)]


def _line(row: dict[str, Any], width: int) -> str:
    notes = [
        *(["orphan"] if row["is_orphan"] else []),
        *([row["status"]] if row["status"] != "Active" else []),
        *(f"{name} is {actual}, expected {expected}" for name, (expected, actual) in row["deviations"].items()),
    ]
    counts = f"{row['active']:>9,}  {row['scheduled']:>9,}  {row['dead_lettered']:>7,}  {row['full']:>6.1%}"
    return f"{row['queue']:{width}}  {counts}  {'; '.join(notes)}".rstrip()
