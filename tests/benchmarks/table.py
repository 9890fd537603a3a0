"""The table of all figures, as docs/performance.md has it.

Each benchmark is a module with `run() -> dict`, the figures of one run, and `ROWS`: what a figure is about, its goal,
and how it is written, as `str.format` reads it.
"""

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.processes import ROOT

PAGE = ROOT / "docs" / "performance.md"
MARKS = "<!-- measured: written by tests/benchmarks -->", "<!-- end of measured -->"
HEAD = "| benchmark | what | goal | measured |\n| --- | --- | --- | --- |"


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def module(name: str) -> Any:
    return importlib.import_module(f"tests.benchmarks.bench_{name}")


class Unknown:
    """A figure that could not be had here."""

    def __getitem__(self, name: str) -> "Unknown":
        return self

    def __format__(self, specification: str) -> str:
        return "–"


class Figures(dict[str, Any]):
    """The figures of one benchmark; those that are not there are dashes."""

    def __missing__(self, name: str) -> Unknown:
        return Unknown()


def table(results: dict[str, dict[str, Any]]) -> str:
    """All rows of these benchmarks."""
    rows = [
        f"| `{name}` | {what} | {goal} | {text} |".format_map(Figures(found))
        for name, found in results.items()
        for what, goal, text in module(name).ROWS
    ]
    return "\n".join([HEAD, *rows])


def between_marks(page: str, text: str) -> str:
    """The page with this text between its marks."""
    before, _, rest = page.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def document(about: dict[str, str], results: dict[str, dict[str, Any]], *, is_all: bool) -> None:
    """Write the pages; that of all figures only where all were measured, so that they are of one commit."""
    if "sizing" in results:
        module("sizing").document(results["sizing"])
    if is_all:
        measured = f"Measured at commit {about['commit']} on {datetime.now(UTC):%Y-%m-%d}, CPython {about['python']}."
        text = between_marks(PAGE.read_text(encoding="utf-8"), f"{measured}\n\n{table(results)}")
        PAGE.write_text(text, encoding="utf-8")
