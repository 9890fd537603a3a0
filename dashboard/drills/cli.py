"""The words about drills: what they came to, beginning one, calling it off."""

from typing import Any

from django.core.management.base import CommandError

from dashboard.drills import requests as wanting
from dashboard.drills.canary import CANARY
from dashboard.drills.starting import begin, canary_of
from dashboard.management.subcommands import Answer, Options, Words, add_why, pair_named, perform_on, table, word
from dashboard.models import Drill


def add(words: Words) -> None:
    """Declare them."""
    drills = word(words, "drills", "drills and what they came to, the newest first", _listing)
    drills.add_argument("pair", nargs="?", help="only this pair's")
    drills.add_argument("--most", type=int, default=20, help="so many at most (default: 20)")
    drill = word(words, "drill", "begin a drill: a canary is failed over for real, and comes home", _begin)
    drill.add_argument("pair")
    drill.add_argument("canary", nargs="?", help=f"queue or topic; default: the pair's own, else {CANARY}")
    drill.add_argument("--messages", type=int, default=wanting.USUAL, help=f"how many (default: {wanting.USUAL})")
    drill.add_argument("--creates", action="store_true", help="make the canary if it is missing")
    drill.add_argument("--kind", choices=Drill.Kind.values, default="queue", help="as what it is made")
    drill.add_argument("--confirm", default="", metavar="NAME", help="the name again, for one that is not marked")
    add_why(drill)
    abort = word(words, "abort-drill", "call a drill off: a worker rolls it back within seconds", _abort)
    abort.add_argument("drill", type=int, metavar="NUMBER", help="as `pairing drills` tells it")
    add_why(abort)


def _listing(options: Options) -> Answer:
    rows = Drill.objects.select_related("pair").order_by("-at", "-pk")
    if options["pair"]:
        rows = rows.filter(pair=pair_named(options["pair"]))
    told = [wanting.as_told(row) for row in rows[: max(1, options["most"])]]
    return Answer(told, [*_lines(told)] or ["No drill was ever made."])


def _lines(told: list[dict[str, Any]]) -> list[str]:
    columns = ("drill", "began_at", "pair", "canary", "outcome", "detail")
    rows = [[str(row[name] or "") for name in columns] for row in told]
    for row, one in zip(rows, told, strict=True):
        row[4] = one["outcome"] or one["step"]
    return table(columns, rows) if rows else []


def _begin(options: Options) -> Answer:
    pair = pair_named(options["pair"])
    path = options["canary"] or canary_of(pair.name) or CANARY
    return perform_on(
        options,
        pair,
        path,
        lambda wish: begin(
            wish,
            typed=options["confirm"],
            creates=options["creates"],
            kind=options["kind"],
            messages=options["messages"],
        ),
    )


def _abort(options: Options) -> Answer:
    row = Drill.objects.select_related("pair").filter(pk=options["drill"]).first()
    if row is None:
        raise CommandError(f"There is no drill {options['drill']}; `pairing drills` lists them.")
    return perform_on(options, row.pair, row.path, lambda wish: wanting.abort(wish, row))
