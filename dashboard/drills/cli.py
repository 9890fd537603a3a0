"""The commands for drills: list, start, abort."""

from typing import Any

from django.core.management.base import CommandError

from dashboard.command_line.subcommands import (
    Answer,
    Options,
    Subcommands,
    add_subcommand,
    add_why,
    declared,
    pair_named,
    perform_on,
    table,
)
from dashboard.drills.actions import ABORT_DRILL, START_DRILL
from dashboard.drills.canary import CANARY, canary_of
from dashboard.drills.requests import USUAL, Wanted, as_json
from dashboard.models import Drill


def add(commands: Subcommands) -> None:
    """Declare them."""
    drills = add_subcommand(commands, "drills", "drills and their results, newest first", _listing)
    drills.add_argument("pair", nargs="?", help="only drills of this pair")
    drills.add_argument("--most", type=int, default=20, help="maximum number of drills (default: 20)")
    drill = declared(commands, START_DRILL, _begin)
    drill.add_argument("pair")
    drill.add_argument("canary", nargs="?", help=f"queue or topic; default: the canary of the pair, else {CANARY}")
    drill.add_argument("--messages", type=int, default=USUAL, help=f"how many (default: {USUAL})")
    drill.add_argument("--creates", action="store_true", help="create the canary if it is missing")
    drill.add_argument("--kind", choices=Drill.Kind.values, default="queue", help="its type if it is created")
    drill.add_argument("--confirm", default="", metavar="NAME", help="repeat the name of an unmarked canary")
    add_why(drill)
    abort = declared(commands, ABORT_DRILL, _abort)
    abort.add_argument("drill", type=int, metavar="NUMBER", help="as `pairing drills` shows it")
    add_why(abort)


def _listing(options: Options) -> Answer:
    rows = Drill.objects.select_related("pair").order_by("-at", "-pk")
    if options["pair"]:
        rows = rows.filter(pair=pair_named(options["pair"]))
    drills = [as_json(row) for row in rows[: max(1, options["most"])]]
    return Answer(drills, [*_lines(drills)] or ["No drills yet."])


def _lines(drills: list[dict[str, Any]]) -> list[str]:
    columns = ("drill", "began_at", "pair", "canary", "outcome", "detail")
    rows = [[str(row[name] or "") for name in columns] for row in drills]
    for row, one in zip(rows, drills, strict=True):
        row[4] = one["outcome"] or one["step"]
    return table(columns, rows) if rows else []


def _begin(options: Options) -> Answer:
    pair = pair_named(options["pair"])
    path = options["canary"] or canary_of(pair.name) or CANARY
    what = Wanted(options["confirm"], options["creates"], options["kind"], options["messages"])
    return perform_on(options, pair, path, lambda wanted: START_DRILL.run(wanted, what))


def _abort(options: Options) -> Answer:
    row = Drill.objects.select_related("pair").filter(pk=options["drill"]).first()
    if row is None:
        raise CommandError(f"There is no drill {options['drill']}; `pairing drills` lists them.")
    return perform_on(options, row.pair, row.path, lambda wanted: ABORT_DRILL.run(wanted, row))
