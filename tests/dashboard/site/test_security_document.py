"""What docs/security.md says is tested, is: each test that it names exists, and runs when it says."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
MARKED = re.findall(r"`([\w/]+/test_\w+\.py)::(\w+)`(?: \(([a-z ,]+)\))?", PAGE)
ATTACKS = [tuple(found) for found in re.findall(r"`([\w/]+/test_\w+\.py)::(\w+)`", PAGE)]
NAMED = set(re.findall(r"`((?:dashboard|workers|pairing|emulator|pipeline|acceptance)(?:/\w+)?/test_\w+\.py)`", PAGE))


def test_every_test_that_the_threat_model_names_is_there():
    assert len(NAMED) > 15
    assert not [name for name in sorted(NAMED) if not (TESTS / name).is_file()]


def test_every_test_that_an_attack_names_is_defined_in_its_file():
    assert len(ATTACKS) > 35
    missing = [(file, name) for file, name in ATTACKS if f"def {name}(" not in (TESTS / file).read_text("utf-8")]
    assert missing == []


def test_every_attack_names_the_test_that_carries_it_out():
    section = PAGE.partition("\n## What was tried\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    assert [row for row in rows if "::test_" not in row] == []


def test_every_threat_has_a_test_or_says_that_nothing_stands_against_it():
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.count("|") == 4 and "---" not in line]

    threats = [row for row in rows if row[0].strip() not in ("could try", "attack")]
    assert len(threats) > 20
    assert not [row[0] for row in threats if "`" not in row[2] and "nothing in this project" not in row[1]]


def marks_of(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The source of each mark of a module or of a test."""
    if not isinstance(node, ast.Module):
        return [ast.unparse(mark) for mark in node.decorator_list]
    assigned = [one.value for one in node.body if isinstance(one, ast.Assign) and names(one) == ["pytestmark"]]
    return [ast.unparse(mark) for one in assigned for mark in (one.elts if isinstance(one, ast.List) else [one])]


def names(assignment: ast.Assign) -> list[str]:
    return [ast.unparse(target) for target in assignment.targets]


def runs(source: str, name: str) -> str:
    """When a test runs, in the words of the page."""
    module = ast.parse(source)
    [test] = [
        one for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name
    ]
    marks = [*marks_of(module), *marks_of(test)]
    partly = "partly at night" if any(re.search(r"\bnightly\b", mark) for mark in marks) else ""
    when = "at night" if "pytest.mark.nightly" in marks else partly
    where = "if installed" if any("skipif" in mark for mark in marks) else ""
    return ", ".join(filter(None, (when, where)))


def test_what_runs_only_at_night_or_where_a_server_is_installed_says_so():
    wrong = [
        (name, said, found)
        for file, name, said in MARKED
        if said != (found := runs((TESTS / file).read_text("utf-8"), name))
    ]
    assert wrong == []
    assert "at night" in {said for _, _, said in MARKED}


def test_marks_are_read_from_the_source_of_a_test():
    head = "pytestmark = [pytest.mark.acceptance, pytest.mark.skipif(True, reason='away')]\n"
    assert runs("def test_one(): pass", "test_one") == ""
    assert runs(head + "@pytest.mark.nightly\ndef test_one(): pass", "test_one") == "at night, if installed"
    partly = "@pytest.mark.parametrize('one', [1, *nightly(2)])\nasync def test_one(one): pass"
    assert runs(partly, "test_one") == "partly at night"
    assert runs("pytestmark = pytest.mark.postgres_nightly\ndef test_one(): pass", "test_one") == ""
