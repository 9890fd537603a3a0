"""The table of events in docs/dashboard.md, from their declarations: `python tools/event_table.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/dashboard.md"
BEGIN, END = "<!-- events: written by tools/event_table.py -->", "<!-- end of events -->"


def table() -> str:
    """The rows, one for each kind of event."""
    from pairing.events import KINDS

    rows = [f"| `{name}` | {kind.label} | {kind.meaning} |" for name, kind in KINDS.items()]
    return "\n".join(["| kind | on the pages | meaning |", "| --- | --- | --- |", *rows])


def written(text: str) -> str:
    """The page with the table as it should be."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
