"""The control plane on the command line: the operations of the API, with the same rules."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.command_line.operations import Operation, operations

NOT_WELL = 3
HIDDEN = ("outcome", "sentence", "items", "next")
Row = Mapping[str, Any]


class Command(OneSentenceCommand):
    """Every action is permission-checked and audited for the person given by --user.

    Exit status: 0 done, or the state was as requested; 1 not done, with the reason; 2 invalid command line; 3 with
    --exit-code.
    """

    help = "Show pairs, backlogs, dead letters, costs, readiness and alerts, and run the actions of the pages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="operation", required=True, metavar="OPERATION")
        for one in operations():
            add(commands.add_parser(one.name, help=one.description, description=one.description), one)

    def handle(self, *args: Any, **options: Any) -> None:
        document = options["run"].call(options)
        if options["only"]:
            self.stdout.write(str(document[options["only"]]))
        else:
            self.stdout.write(json.dumps(document, indent=2) if options["json"] else "\n".join(lines(document)))
        if options.get("exit_code") and not is_well(document):
            sys.exit(NOT_WELL)


def add(parser: ArgumentParser, operation: Operation) -> None:
    """Add the values of an operation, and the options that all operations have."""
    parser.set_defaults(run=operation)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--only", metavar="FIELD", help="only this field of the document")
    parser.add_argument("--user", help="a user of the pages, whose rights apply (default: the name of the login)")
    if operation.method == "GET":
        parser.add_argument(
            "--exit-code", action="store_true", help=f"exit with {NOT_WELL} if something is listed, or is not ready"
        )
    for value in operation.values:
        value.add_to(parser)


def lines(document: Any) -> list[str]:
    """A list as a table; an object as its sentence, its values, and its lists."""
    if isinstance(document, list):
        return _table(document)
    listed = _table(document["items"]) if "items" in document else []
    more = [f"More: --cursor {document['next']}"] if document.get("next") else []
    rest = (line for name, value in document.items() if name not in HIDDEN for line in _named(name, value))
    return [*filter(None, [document.get("sentence")]), *rest, *listed, *more]


def is_well(document: Any) -> bool:
    """Whether an answer reports nothing: a list without items, or an object that says that all is ready."""
    if isinstance(document, dict):
        return bool(document.get("is_ready", not document.get("items", [document])))
    return not document


def _named(name: str, value: Any) -> list[str]:
    label = name.replace("_", " ")
    if value is None or value is False or value in ("", [], {}):
        return []
    match value:
        case [{}, *_]:
            return ["", f"{label}:", *_table(value)]
        case list():
            return [f"{label}: {', '.join(map(cell, value))}"]
        case dict():
            return [f"{label}: {', '.join(f'{key} {cell(each)}' for key, each in value.items() if each)}"]
    return [f"{label}: {cell(value)}"]


def _table(rows: Sequence[Any]) -> list[str]:
    """The columns that have a plain value in some row; numbers are right-aligned."""
    if not rows or not isinstance(rows[0], dict):
        return [cell(row) for row in rows] or ["None."]
    names = [name for name in rows[0] if any(_is_plain(row[name]) for row in rows)]
    cells = [names, *([cell(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = [">" if _are_numbers(column) else "<" for column in zip(*cells[1:], strict=True)]
    return ["  ".join(map(_padded, row, signs, widths)).rstrip() for row in cells]


def cell(value: Any) -> str:
    """One line without control characters, which a terminal would follow."""
    if isinstance(value, dict):
        return ", ".join(str(each) for each in value.values() if _is_plain(each))
    text = (
        f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str("" if value is None else value)
    )
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _is_plain(value: Any) -> bool:
    return value not in (None, "") and not isinstance(value, list | dict)


def _are_numbers(column: Iterable[str]) -> bool:
    return all(text.replace(",", "").replace(".", "").isdigit() for text in column if text)


def _padded(text: str, sign: str, width: int) -> str:
    return f"{text:{sign}{width}}"
