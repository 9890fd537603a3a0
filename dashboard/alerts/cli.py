"""The commands for alerts and channels."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.access.audited import Outcome
from dashboard.alerts import channel_board
from dashboard.alerts.actions import ACKNOWLEDGE_ALERT, CHANNEL_ACTIONS, ChannelAction, Request, describe
from dashboard.alerts.config import ChannelsFileError
from dashboard.alerts.message import one_line
from dashboard.command_line.subcommands import (
    NOT_WELL,
    VIA,
    Answer,
    Options,
    Subcommands,
    add_subcommand,
    add_why,
    declared,
    one_sentence,
    pair_named,
    table,
    user_named,
)
from dashboard.models import Alert, AlertRule

ALL = "all"
COLUMNS = ("id", "severity", "since", "where", "acknowledged_by", "title")


def add(commands: Subcommands) -> None:
    """Declare them."""
    alerts = add_subcommand(commands, "alerts", "alerts, newest first", _listing)
    alerts.add_argument("pair", nargs="?", help="only alerts of this pair")
    alerts.add_argument("--state", choices=("open", "over", "all"), default="open", help="default: open")
    alerts.add_argument("--most", type=int, default=100, help="maximum number of alerts (default: 100)")
    alerts.add_argument("--exit-code", action="store_true", help=f"exit with {NOT_WELL} if an alert is open")
    acknowledge = declared(commands, ACKNOWLEDGE_ALERT, _acknowledge)
    acknowledge.add_argument("alert", metavar="ALERT", help=f"its number, or {ALL}")
    add_why(acknowledge)
    add_subcommand(commands, "channels", "notification channels and their states", _channels)
    add_subcommand(commands, "alert-rules", "rules of notifications", _rules)
    for action in CHANNEL_ACTIONS:
        parser = declared(commands, action, partial(_on_channel, action))
        parser.add_argument("channel", help="its name in CHANNELS_FILE")
        add_why(parser)


def _listing(options: Options) -> Answer:
    rows = Alert.objects.order_by("-opened_at", "-pk")
    if options["state"] != "all":
        rows = rows.filter(resolved_at__isnull=options["state"] == "open")
    if options["pair"]:
        rows = rows.filter(pair=pair_named(options["pair"]).name)
    found = [_as_json(row) for row in rows[: max(1, options["most"])]]
    lines = table(COLUMNS, [[one_line(str(row[name] or "")) for name in COLUMNS] for row in found])
    is_open = any(row["ended_at"] is None for row in found)
    return Answer(found, lines if found else ["No alerts."], NOT_WELL if options["exit_code"] and is_open else 0)


def _as_json(row: Alert) -> dict[str, Any]:
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
        return _perform(options, ACKNOWLEDGE_ALERT.run_on_all)
    if not (which.isascii() and which.isdigit() and len(which) < 19):
        raise CommandError(f"{which} is not the number of an alert; `pairing alerts` lists them.")
    return _perform(options, lambda wanted: ACKNOWLEDGE_ALERT.run(wanted, int(which)))


def _on_channel(action: ChannelAction, options: Options) -> Answer:
    return _perform(options, lambda wanted: action.run(wanted, options["channel"]))


def _perform(options: Options, run: Callable[[Request], Outcome]) -> Answer:
    """Execute the action on the audited path of alerts; failures become CommandError."""
    wanted = Request(
        user=user_named(options["user"]),
        at=timezone.now(),
        request_id=options["request_id"],
        reason=options["reason"],
        via=VIA,
    )
    with one_sentence(ChannelsFileError):
        found = run(wanted)
    return Answer({"outcome": found.outcome, "sentence": found.sentence}, [found.sentence])


def _channels(options: Options) -> Answer:
    try:
        found = channel_board.described()
    except ChannelsFileError as error:
        raise CommandError(str(error)) from None
    columns = ("channel", "kind", "state", "sent_at")
    lines = table(columns, [[str(row[name] or "") for name in columns] for row in found])
    return Answer(found, lines if found else ["CHANNELS_FILE has no channels."])


def _rules(options: Options) -> Answer:
    rows = [
        {"id": row.pk, "rule": row.name, "is_enabled": row.is_enabled, "says": describe(row)}
        for row in AlertRule.objects.all()
    ]
    lines = [f"{row['id']}  {row['rule']}: {row['says']}" for row in rows]
    return Answer(rows, lines or ["No rules, so nobody is notified."])
