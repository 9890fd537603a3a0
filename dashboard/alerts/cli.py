"""The words about alerts: what is so now, acknowledging it, and whether channels work."""

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.access.rights import Refused
from dashboard.actions.control import ControlError
from dashboard.alerts import actions as deeds
from dashboard.alerts import channel_board
from dashboard.alerts.actions import Wish
from dashboard.alerts.config import ChannelsFileError
from dashboard.alerts.message import one_line
from dashboard.management.subcommands import (
    NOT_WELL,
    Answer,
    Options,
    Words,
    add_why,
    pair_named,
    table,
    user_named,
    word,
)
from dashboard.models import Alert, AlertRule

ALL = "all"
COLUMNS = ("id", "severity", "since", "where", "acknowledged_by", "title")


def add(words: Words) -> None:
    """Declare them."""
    alerts = word(words, "alerts", "what needs somebody's attention, the newest first", _listing)
    alerts.add_argument("pair", nargs="?", help="only this pair's")
    alerts.add_argument("--state", choices=("open", "over", "all"), default="open", help="default: open")
    alerts.add_argument("--most", type=int, default=100, help="so many at most (default: 100)")
    alerts.add_argument("--exit-code", action="store_true", help=f"exit with {NOT_WELL} where one is open")
    acknowledge = word(words, "acknowledge", "say that you look after an alert: nobody further is told", _acknowledge)
    acknowledge.add_argument("alert", metavar="ALERT", help=f"its number, or {ALL}")
    add_why(acknowledge)
    word(words, "channels", "the ways to tell people, and how each fares", _channels)
    word(words, "alert-rules", "who is told of which alerts", _rules)
    for name, verb, meaning in (
        ("try-channel", deeds.try_channel, "send a test through a channel"),
        ("enable-channel", deeds.enable_channel, "use a channel again that said it is gone for good"),
    ):
        parser = word(words, name, meaning, _of_channel(verb))
        parser.add_argument("channel", help="its name in CHANNELS_FILE")
        add_why(parser)


def _listing(options: Options) -> Answer:
    rows = Alert.objects.order_by("-opened_at", "-pk")
    if options["state"] != "all":
        rows = rows.filter(resolved_at__isnull=options["state"] == "open")
    if options["pair"]:
        rows = rows.filter(pair=pair_named(options["pair"]).name)
    told = [_told(row) for row in rows[: max(1, options["most"])]]
    lines = table(COLUMNS, [[one_line(str(row[name] or "")) for name in COLUMNS] for row in told])
    is_open = any(row["ended_at"] is None for row in told)
    return Answer(told, lines if told else ["There is none."], NOT_WELL if options["exit_code"] and is_open else 0)


def _told(row: Alert) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": row.kind,
        "severity": row.severity,
        "pair": row.pair,
        "entity": row.entity,
        "where": row.where,
        "title": row.title,
        "detail": row.detail,
        "since": row.began_at.isoformat(),
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "acknowledged_by": row.acknowledged_by or None,
    }


def _acknowledge(options: Options) -> Answer:
    which = options["alert"]
    if which == ALL:
        return _perform(options, deeds.acknowledge_all)
    if not (which.isascii() and which.isdigit() and len(which) < 19):
        raise CommandError(f"{which} is no number of an alert; `pairing alerts` lists them.")
    return _perform(options, lambda wish: deeds.acknowledge(wish, int(which)))


def _of_channel(verb: Callable[[Wish, str], str]) -> Callable[[Options], Answer]:
    return lambda options: _perform(options, lambda wish: verb(wish, options["channel"]))


def _perform(options: Options, verb: Callable[[Wish], str]) -> Answer:
    """Do it on the audited path of alerts; what cannot be done is one sentence."""
    wish = Wish(
        user=user_named(options["user"]),
        at=timezone.now(),
        request_id=options["request_id"],
        reason=options["reason"],
        via="a shell",
    )
    try:
        sentence = verb(wish)
    except (Refused, ControlError, ChannelsFileError) as error:
        raise CommandError(str(error)) from None
    return Answer({"outcome": "done", "sentence": sentence}, [sentence])


def _channels(options: Options) -> Answer:
    try:
        told = channel_board.told()
    except ChannelsFileError as error:
        raise CommandError(str(error)) from None
    columns = ("channel", "kind", "state", "sent_at")
    lines = table(columns, [[str(row[name] or "") for name in columns] for row in told])
    return Answer(told, lines if told else ["CHANNELS_FILE has none."])


def _rules(options: Options) -> Answer:
    rows = [
        {"id": row.pk, "rule": row.name, "is_enabled": row.is_enabled, "says": deeds.told(row)}
        for row in AlertRule.objects.all()
    ]
    lines = [f"{row['id']}  {row['rule']}: {row['says']}" for row in rows]
    return Answer(rows, lines or ["There is none, so nobody is told of anything."])
