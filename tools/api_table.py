"""The table of the API's operations in docs/api.md, from the OpenAPI document: `python tools/api_table.py`."""

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/api.md"
BEGIN, END = "<!-- operations: written by tools/api_table.py -->", "<!-- end of operations -->"


def table() -> str:
    """The rows, one for each operation; the document itself is not one of its own operations."""
    import dashboard.routes  # noqa: F401  (adds the operations)
    from dashboard.api.site import openapi, operations

    described = [*operations(), ("GET", "/api/v1/openapi.json", str(openapi.__doc__))]
    lines = ["| method | address | description |", "| --- | --- | --- |"]
    for method, path, description in described:
        address = path.replace("{", "<").replace("}", ">")
        lines.append(f"| {method} | `{address}` | {' '.join(description.split())} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with the current table."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
