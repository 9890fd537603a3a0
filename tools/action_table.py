"""The table of operators' actions in docs/dashboard.md, from their declarations: `python tools/action_table.py`."""

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/dashboard.md"
BEGIN, END = "<!-- actions: written by tools/action_table.py -->", "<!-- end of actions -->"
WHO = {
    "dashboard.view_pair": "viewer",
    "dashboard.operate_pair": "operator",
    "dashboard.administer_pair": "administrator",
}


def table() -> str:
    """The rows, one for each declared action."""
    from dashboard.access.registry import actions

    lines = [
        "| action | stored as | does | who | asks for | command | undo |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for action in actions().values():
        asks = [str(argument) for argument in action.arguments]
        if action.asks_reason:
            asks.append("reason (needed)" if action.is_severe else "reason")
        command = f"`{action.command.name}`" if action.command else ""
        cells = (
            action.label,
            f"`{action.name}`",
            action.effect,
            WHO[action.right],
            ", ".join(asks),
            command,
            action.undo,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with the table as it should be."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
