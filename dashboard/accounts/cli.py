"""`pairing tokens`, `make-token`, `revoke-token`: tokens for programs."""

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.access import tokens
from dashboard.command_line.subcommands import (
    VIA,
    Answer,
    Options,
    Subcommands,
    add_subcommand,
    add_user,
    answer_of,
    declared,
    one_sentence,
    table,
    user_named,
)
from dashboard.models import ApiToken


def add(commands: Subcommands) -> None:
    """Declare them."""
    listing = add_subcommand(commands, "tokens", "tokens for programs: owner, purpose, scope, expiry", _listing)
    listing.add_argument("--user", help="only this person's")
    make = declared(commands, tokens.MAKE_TOKEN, _make)
    make.add_argument("name", help="the program that will use it; recorded in the audit trail")
    make.add_argument("--scope", choices=ApiToken.Scope.values, default="read", help="its rights (default: read)")
    make.add_argument("--days", type=int, default=30, help="days until it expires, 1 to 365 (default: 30)")
    add_user(make)
    revoke = declared(commands, tokens.REVOKE_TOKEN, _revoke)
    revoke.add_argument("prefix", help="its first characters, without pns_")
    add_user(revoke)


def _listing(options: Options) -> Answer:
    rows, now = ApiToken.objects.select_related("owner"), timezone.now()
    if options["user"]:
        rows = rows.filter(owner=user_named(options["user"]))
    tokens_json = [
        {
            "prefix": row.prefix,
            "name": row.name,
            "owner": row.owner.username,
            "scope": row.scope,
            "is_usable": row.is_usable(now),
            "expires_at": row.expires_at.isoformat(),
            "used_at": row.used_at.isoformat() if row.used_at else None,
        }
        for row in rows
    ]
    columns = ("prefix", "name", "owner", "scope", "is_usable", "expires_at", "used_at")
    lines = table(columns, [[str(row[name]) for name in columns] for row in tokens_json])
    return Answer(tokens_json, lines if tokens_json else ["There are no tokens."])


def _make(options: Options) -> Answer:
    owner = user_named(options["user"])
    with one_sentence():
        row, text = tokens.make(owner, options["name"], options["scope"], options["days"], timezone.now(), via=VIA)
    return Answer({"prefix": row.prefix, "token": text, "expires_at": row.expires_at.isoformat()}, [text])


def _revoke(options: Options) -> Answer:
    row = ApiToken.objects.select_related("owner").filter(prefix=options["prefix"]).first()
    if row is None:
        raise CommandError(f"There is no token {options['prefix']}; `pairing tokens` lists them.")
    with one_sentence():
        return answer_of(tokens.revoke(row, user_named(options["user"]), timezone.now(), via=VIA))
