"""Documents of the API as lines for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HIDDEN = ("outcome", "sentence", "items", "next")
Row = Mapping[str, Any]


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
