"""What the words of `manage.py pairing` share: how one is declared, who acts, and how an answer is told."""

import getpass
import json
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from dashboard.access.rights import Refused
from dashboard.actions.control import ControlError, Outcome, Request
from dashboard.models import Pair

Options = dict[str, Any]
if TYPE_CHECKING:
    Words = _SubParsersAction[ArgumentParser]
else:
    Words = object
MOST_OF_AN_ID = 36
NOT_WELL = 3
"""The exit status of `status --exit-code` where something is not healthy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told: a document for programs, lines for people, and the exit status."""

    document: Any
    lines: Sequence[str]
    status: int = 0


Run = Callable[[Options], Answer]


def word(words: Words, name: str, meaning: str, run: Run) -> ArgumentParser:
    """One word, with --json."""
    parser: ArgumentParser = words.add_parser(name, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.set_defaults(run=run)
    return parser


def deed(words: Words, name: str, target: str, meaning: str, run: Run) -> ArgumentParser:
    """A word that changes something: what it is about, why, and under whose name."""
    parser = word(words, name, meaning, run)
    parser.add_argument("pair")
    parser.add_argument("target", metavar=target)
    add_why(parser)
    return parser


def _reason(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("say why, in a word or two")
    return text


def add_why(parser: ArgumentParser) -> None:
    """Why, under whose name, and what makes it one deed."""
    parser.add_argument(
        "--reason", type=_reason, required=True, help="why; kept in the audit trail and told to the fleet"
    )
    parser.add_argument("--request-id", type=_identity, default="", help="any short text; a repeated call is one deed")
    add_user(parser)


def _identity(text: str) -> str:
    if len(text) > MOST_OF_AN_ID:
        raise ArgumentTypeError(f"at most {MOST_OF_AN_ID} characters")
    return text


def add_user(parser: ArgumentParser) -> None:
    """Who does it."""
    parser.add_argument("--user", help="who does it, as they sign in to the pages (default: this login's name)")


def perform(options: Options, verb: Callable[[Request], Outcome]) -> Answer:
    """Do it on the audited path; what cannot be done is one sentence."""
    return perform_on(options, pair_named(options["pair"]), options["target"], verb)


def perform_on(options: Options, pair: Pair, target: str, verb: Callable[[Request], Outcome]) -> Answer:
    """The same for a pair and a target that other words name."""
    wish = Request(
        user=user_named(options["user"]),
        pair=pair,
        target=target,
        reason=options["reason"],
        request_id=options["request_id"],
        via="a shell",
    )
    try:
        outcome = verb(wish)
    except (Refused, ControlError) as error:
        raise CommandError(str(error)) from None
    return Answer({"outcome": outcome.outcome, "sentence": outcome.sentence}, [outcome.sentence])


def confirm(options: Options, question: str) -> None:
    """Ask for the target's whole name, unless --confirm gave it: this cannot be undone."""
    given = options["confirm"]
    if given is None:
        print(question)
        try:
            given = input(f"Type {options['target']} to go on: ")
        except (EOFError, KeyboardInterrupt):
            given = ""
    if given.strip() != options["target"]:
        raise CommandError(
            f"Not confirmed, so nothing was done. Without a terminal, give --confirm {options['target']}."
        )


def add_confirm(parser: ArgumentParser) -> None:
    """For words that cannot be undone."""
    parser.add_argument("--confirm", metavar="NAME", help="the target's name once more; without it you are asked")


def pair_named(name: str) -> Pair:
    """The pair; CommandError names those there are."""
    pair = Pair.objects.filter(name=name).first()
    if pair is None:
        known = ", ".join(Pair.objects.values_list("name", flat=True)) or "none; run sync_pairs"
        raise CommandError(f"There is no pair {name}; the known ones are: {known}.")
    return pair


def pairs_named(name: str | None) -> list[Pair]:
    """That pair, or all."""
    return [pair_named(name)] if name else list(Pair.objects.all())


def user_named(name: str | None) -> User:
    """The person; CommandError where nobody signs in so."""
    wanted = name or getpass.getuser()
    user = User.objects.filter(username=wanted).first()
    if user is None:
        raise CommandError(f"Nobody signs in as {wanted}: name a person of the pages with --user.")
    return user


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns as wide as they must be: numbers to the right, the last as long as it is."""
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
