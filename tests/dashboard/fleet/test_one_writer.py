"""Health reaches the database by one path: columns are set in one module, and two functions lead there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WRITER = "dashboard/fleet/state/projection.py"
PATH = "dashboard/fleet/state/catching_up.py"
HEALTH = {"state", "since", "held_by", "expires", "origin", "version", "applied_at"}
OF_ENTITIES = (
    r"(EntityHealth|entities)\b.*\.(update|update_or_create|get_or_create|create|bulk_update)$|\bEntityHealth$"
)


def modules(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules with one of these words in their text."""
    for room in ("dashboard", "workers"):
        for file in sorted((ROOT / room).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if not {"migrations", "history"} & set(file.parts) and any(word in text for word in words):
                yield str(file.relative_to(ROOT)), ast.parse(text)


def named(tree: ast.AST) -> set[str]:
    """Every name and attribute that is used."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def callers(*functions: str) -> set[str]:
    return {file for file, tree in modules(*functions) if named(tree) & set(functions)}


def sets_health(tree: ast.Module) -> bool:
    """Whether a call sets health of an entity: by a keyword, or in a list of columns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(OF_ENTITIES, ast.unparse(node.func)):
            columns = [each for word in ast.walk(node) if isinstance(word, ast.List) for each in word.elts]
            given = {word.arg for word in node.keywords}
            if HEALTH & (given | {each.value for each in columns if isinstance(each, ast.Constant)}):
                return True
    return False


def test_only_the_two_functions_of_the_path_reach_the_writer():
    assert callers("apply_health", "apply_all_health") == {WRITER, PATH}


def test_collectors_and_an_operators_action_are_all_who_use_the_path():
    users = callers("take_over", "catch_up", "catching_up") - {PATH}
    assert {file for file in users if not file.startswith("dashboard/actions/")} == {
        "workers/collectors.py",
        "workers/pingers.py",
        "workers/watchers.py",
    }
    assert len([file for file in users if file.startswith("dashboard/actions/")]) == 1


def test_no_other_module_sets_the_health_of_an_entity():
    assert [file for file, tree in modules(*HEALTH) if sets_health(tree) and file != WRITER] == []


@pytest.mark.parametrize(
    "code",
    [
        "EntityHealth.objects.filter(pk=1).update(state='healthy')",
        "pair.entities.filter(path='orders').update(version=2)",
        "EntityHealth.objects.bulk_update(rows, ['state', 'since'])",
        "EntityHealth.objects.update_or_create(pair=pair, state='healthy')",
    ],
)
def test_a_second_writer_would_be_found(code):
    assert sets_health(ast.parse(code))
