"""Names and texts use the terms of the field: docs/glossary.md lists the words that they do not use."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "pairing",
    "amqp10",
    "emulator",
    "gateway",
    "dashboard",
    "workers",
    "pipeline",
    "examples",
    "tools",
    "tests",
)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TABLE = GLOSSARY.split("## Terms not used")[1]
UNUSED = {row.split("|")[1].strip() for row in TABLE.splitlines() if row.startswith("|") and "---" not in row} - {"not"}

TEXTS = (*PACKAGES, "templates", "docs", "deploy")
SUFFIXES = {".py", ".html", ".md", ".js", ".css", ".lua", ".yml", ".toml", ".txt", ".json"}
LISTS = {ROOT / "docs" / "glossary.md", Path(__file__).resolve()}
SUSPECT = re.compile("|".join(UNUSED), re.IGNORECASE)


def words_of(name: str) -> set[str]:
    """`SyphonLedger` and `syphon_ledger` are the words syphon and ledger, in singular and plural."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


def texts() -> Iterator[Path]:
    """All source files, templates and documents, without migrations, which keep the names of their time."""
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    for folder in TEXTS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "migrations" not in path.parts and path not in LISTS:
                yield path


def unused_words(line: str) -> set[str]:
    """The words of the table that a line of text or code contains."""
    if not SUSPECT.search(line):  # most lines
        return set()
    return words_of(line) & UNUSED


def test_texts_and_code_use_the_terms_of_the_glossary() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {', '.join(sorted(words))}"
        for path in texts()
        for number, line in enumerate([path.stem, *path.read_text(encoding="utf-8").splitlines()])
        if (words := unused_words(line))
    ]
    assert not found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("    verdict: str", {"verdict"}),
        ("# the books balance", {"books"}),
        ("def act(deed): ...", {"deed"}),
        ("test_a_wish_is_stored", {"wish"}),
        ("drill_verdicts, Deeds, DepthSample", {"verdict", "deed"}),
        ("a bookstore with a verdictless wishbone", set()),
    ],
)
def test_words_are_found_in_names_and_sentences(line: str, words: set[str]) -> None:
    assert unused_words(line) == words
