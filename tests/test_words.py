"""Names use the terms of the field: docs/glossary.md lists the words that names do not use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pairing", "emulator", "dashboard", "workers", "pipeline", "examples", "tools", "tests")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TABLE = GLOSSARY.split("## Terms not used in names")[1]
UNUSED = {row.split("|")[1].strip() for row in TABLE.splitlines() if row.startswith("|") and "---" not in row} - {"not"}


def words_of(name: str) -> set[str]:
    """`SyphonLedger` and `syphon_ledger` are the words syphon and ledger, in singular and plural."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


def public_names(path: Path) -> Iterator[str]:
    """The module itself, its classes, and the functions and methods without a leading underscore."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_named and not node.name.startswith(("_", "test_")):
            yield node.name


@pytest.mark.parametrize("package", PACKAGES)
def test_names_use_the_terms_of_the_glossary(package: str) -> None:
    modules = [path for path in sorted((ROOT / package).rglob("*.py")) if "migrations" not in path.parts]
    assert modules
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules
        for name in public_names(path)
        if words_of(name) & UNUSED
    }
    assert not found


def test_the_table_of_the_glossary_is_read() -> None:
    assert {"deed", "wish", "verdict"} <= UNUSED
    assert words_of("drill_verdicts") & UNUSED
    assert words_of("Deeds") & UNUSED
    assert not words_of("DepthSample") & UNUSED
