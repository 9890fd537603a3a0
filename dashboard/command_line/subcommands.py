"""Shared by the subcommands of `manage.py pairing`: declaration, the acting person, and output."""

import getpass
import json
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request
from dashboard.access.declaration import Action, Argument
from dashboard.access.rights import Refused
from dashboard.models import Pair

Options = dict[str, Any]
if TYPE_CHECKING:
    Subcommands = _SubParsersAction[ArgumentParser]
else:
    Subcommands = object
MOST_OF_AN_ID = 36
VIA = "a shell"
"""The name of the command line in the audit trail."""
NOT_WELL = 3
"""The exit status of `status --exit-code` if an entity is not healthy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The output: a document for programs, lines for people, and the exit status."""

    document: Any
    lines: Sequence[str]
    status: int = 0


Run = Callable[[Options], Answer]


def add_subcommand(commands: Subcommands, name: str, meaning: str, run: Run) -> ArgumentParser:
    """Add a subcommand with --json."""
    parser: ArgumentParser = commands.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.set_defaults(run=run)
    return parser


def declared(commands: Subcommands, action: Action, run: Run) -> ArgumentParser:
    """Add the subcommand that an action declares."""
    if action.command is None:
        raise ValueError(f"the action {action.name} declares no command")
    return add_subcommand(commands, action.command.name, action.command.help, run)


def add_action(commands: Subcommands, action: Action, target: str, run: Run) -> ArgumentParser:
    """Add the subcommand of an action on a target of a pair, with its arguments, the reason, and the person."""
    parser = declared(commands, action, run)
    parser.add_argument("pair")
    parser.add_argument("target", metavar=target)
    add_why(parser)
    for argument in action.arguments:
        flag, options = OPTIONS[argument]
        parser.add_argument(flag, **options)
    return parser


def arguments(action: Action, options: Options) -> dict[str, Any]:
    """The arguments of the action from the options. Confirmations are requested separately."""
    given: dict[str, Any] = {}
    if Argument.EXPIRES in action.arguments:
        minutes = options["minutes"]
        given["expires"] = timezone.now() + timedelta(minutes=minutes) if minutes else None
    if Argument.RATE in action.arguments:
        given["rate"] = options["rate"]
    if Argument.NUMBERS in action.arguments:
        given["numbers"] = options["number"] or ()
    if Argument.DESTINATION in action.arguments:
        given["destination"] = options["to"]
    return given


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes <= 60 * 24 * 30:
        raise ValueError
    return minutes


def _rate(text: str) -> float:
    rate = float(text)
    if not 0.01 <= rate <= 1_000_000:
        raise ValueError
    return rate


OPTIONS: dict[Argument, tuple[str, dict[str, Any]]] = {
    Argument.EXPIRES: ("--minutes", {"type": _minutes, "help": "end the hold after this time"}),
    Argument.RATE: ("--rate", {"type": _rate, "help": "maximum messages per second (default: no limit)"}),
    Argument.DESTINATION: (
        "--to",
        {"default": "", "metavar": "ENTITY", "help": "send all to this entity, instead of each to its own"},
    ),
    Argument.NUMBERS: (
        "--number",
        {"type": int, "action": "append", "help": "only this sequence number; can be repeated"},
    ),
    Argument.CONFIRMATION: (
        "--confirm",
        {"metavar": "NAME", "help": "the name of the target, as a confirmation; otherwise you are asked"},
    ),
}


def add_why(parser: ArgumentParser) -> None:
    """Add the reason, the person, and the id of the request."""
    parser.add_argument(
        "--reason", type=_reason, required=True, help="the reason; stored in the audit trail and reported to the fleet"
    )
    parser.add_argument(
        "--request-id", type=_identity, default="", help="any short text; calls with the same text are one action"
    )
    add_user(parser)


def _reason(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("enter a reason")
    return text


def _identity(text: str) -> str:
    if len(text) > MOST_OF_AN_ID:
        raise ArgumentTypeError(f"at most {MOST_OF_AN_ID} characters")
    return text


def add_user(parser: ArgumentParser) -> None:
    """Add the option for the acting person."""
    parser.add_argument("--user", help="the acting user of the pages (default: the name of the current login)")


def perform(options: Options, run: Callable[[Request], Outcome]) -> Answer:
    """Run the action on the audited path; a failure is one sentence."""
    return perform_on(options, pair_named(options["pair"]), options["target"], run)


def perform_on(options: Options, pair: Pair, target: str, run: Callable[[Request], Outcome]) -> Answer:
    """The same for a pair and a target from other options."""
    wanted = Request(
        user=user_named(options["user"]),
        pair=pair,
        target=target,
        reason=options["reason"],
        request_id=options["request_id"],
        via=VIA,
    )
    with one_sentence():
        return answer_of(run(wanted))


def answer_of(outcome: Outcome) -> Answer:
    """An outcome as a document and as a line."""
    return Answer({"outcome": outcome.outcome, "sentence": outcome.sentence}, [outcome.sentence])


@contextmanager
def one_sentence(*errors: type[Exception]) -> Iterator[None]:
    """Turn refusals and failures of actions into one sentence."""
    explained: tuple[type[Exception], ...] = (Refused, ActionError, *errors)
    try:
        yield
    except explained as error:
        raise CommandError(str(error)) from None


def confirm(options: Options, question: str) -> None:
    """Require the full name of the target, from --confirm or the terminal, as the action cannot be undone."""
    given = options["confirm"]
    if given is None:
        print(question)
        try:
            given = input(f"Type {options['target']} to continue: ")
        except (EOFError, KeyboardInterrupt):
            given = ""
    if given.strip() != options["target"]:
        raise CommandError(
            f"Not confirmed, so nothing was done. Without a terminal, use --confirm {options['target']}."
        )


def pair_named(name: str) -> Pair:
    """The pair. CommandError lists the known ones."""
    pair = Pair.objects.filter(name=name).first()
    if pair is None:
        known = ", ".join(Pair.objects.values_list("name", flat=True)) or "none; run sync_pairs"
        raise CommandError(f"There is no pair {name}; the known ones are: {known}.")
    return pair


def pairs_named(name: str | None) -> list[Pair]:
    """That pair, or all."""
    return [pair_named(name)] if name else list(Pair.objects.all())


def user_named(name: str | None) -> User:
    """The person. CommandError if there is no such user."""
    wanted = name or getpass.getuser()
    user = User.objects.filter(username=wanted).first()
    if user is None:
        raise CommandError(f"There is no user {wanted}: name a user of the pages with --user.")
    return user


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table with columns of minimal width: numbers are right-aligned, and the last column is not padded."""
    cells = [list(map(str, head)), *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    signs = [">" if all(map(_is_number, column)) else "<" for column in zip(*cells[1:], strict=True)] or ["<"] * len(
        head
    )
    return ["  ".join(map(_padded, row, signs, widths)).rstrip() for row in cells]


def _padded(text: str, sign: str, width: int) -> str:
    return f"{text:{sign}{width}}"


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").isdigit()


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def as_json(document: Any) -> str:
    """For programs."""
    return json.dumps(document, indent=2, default=str)
