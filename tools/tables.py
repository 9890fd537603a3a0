"""The tables of actions and events in the docs, from their declarations: `python -m tools.tables`."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import django

DOCS = Path(__file__).resolve().parent.parent / "docs"
WHO = {
    "dashboard.view_pair": "viewer",
    "dashboard.operate_pair": "operator",
    "dashboard.administer_pair": "administrator",
}


def actions() -> str:
    """A row for each declared action."""
    from dashboard.access import registry

    rows = []
    for action in registry.actions().values():
        asks = [str(argument) for argument in action.arguments]
        if action.asks_reason:
            asks.append("reason (needed)" if action.is_severe else "reason")
        rows.append((action.label, f"`{action.name}`", action.effect, WHO[action.right], ", ".join(asks), action.undo))
    return _table(("action", "stored as", "does", "who", "asks for", "undo"), rows)


def events() -> str:
    """A row for each kind of event."""
    from pairing.events import KINDS

    rows = [(f"`{name}`", kind.label, kind.meaning) for name, kind in KINDS.items()]
    return _table(("kind", "on the pages", "meaning"), rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---" for _ in head], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "actions": (DOCS / "dashboard.md", actions),
    "events": (DOCS / "dashboard.md", events),
}


def written(name: str, text: str) -> str:
    """The page with the current table."""
    begin, end = f"<!-- {name}: written by tools/tables.py -->", f"<!-- end of {name} -->"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{TABLES[name][1]()}\n{end}{tail}"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    for table, (page, _) in TABLES.items():
        page.write_text(written(table, page.read_text(encoding="utf-8")), encoding="utf-8")
