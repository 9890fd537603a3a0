"""What docs/security.md says is tested, is: each test that it names exists."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:dashboard|workers|pairing|emulator|pipeline|acceptance)(?:/\w+)?/test_\w+\.py)`", PAGE))


def test_every_test_that_the_threat_model_names_is_there():
    assert len(NAMED) > 15
    assert not [name for name in sorted(NAMED) if not (TESTS / name).is_file()]


def test_every_threat_has_a_test_or_says_that_nothing_stands_against_it():
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.count("|") == 4 and "---" not in line]

    threats = [row for row in rows if row[0].strip() != "could try"]
    assert len(threats) > 20
    assert not [row[0] for row in threats if "`" not in row[2] and "nothing in this project" not in row[1]]
