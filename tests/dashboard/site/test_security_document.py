"""What docs/security.md says is tested, is: each test that it names exists."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
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
