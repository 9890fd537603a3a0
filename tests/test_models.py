"""Models go on where an earlier run was interrupted; at night each goes on for a while, until its 20,000 lives."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import models
from tests.models import MODELS, Asked, Model, Progress, fingerprint, reach

NIGHT_S = 1800.0
"""How long the nightly run goes on with them; the next night continues."""
NAMES = ("pairs", "syphons")
TEST = "def test_it(): pass\n"


class Parts:
    """What was lived, and from which seed; one of them may find something."""

    def __init__(self, finds: int = -1) -> None:
        self.lived: list[tuple[str, int, int]] = []
        self._finds = finds

    def __call__(self, model: Model, lives: int, seed: int) -> bool:
        self.lived.append((next(name for name, one in MODELS.items() if one is model), lives, seed))
        return len(self.lived) - 1 != self._finds


def ticking() -> Callable[[], float]:
    moments = iter(range(10**6))
    return lambda: float(next(moments))


def test_each_reaches_its_lives_and_no_seed_is_lived_twice(tmp_path: Path) -> None:
    parts = Parts()
    assert reach(Asked(NAMES, goal=25, part=10), Progress.of(tmp_path), parts) == ""
    assert sorted(parts.lived) == sorted((name, *part) for name in NAMES for part in ((10, 0), (10, 10), (5, 20)))


def test_a_run_goes_on_where_the_one_before_was_interrupted(tmp_path: Path) -> None:
    first, second = Parts(), Parts()
    reach(Asked(NAMES, goal=40, part=10, until=7), Progress.of(tmp_path), first, ticking())
    assert 0 < len(first.lived) < 8
    assert reach(Asked(NAMES, goal=40, part=10), Progress.of(tmp_path), second) == ""
    assert len({*first.lived, *second.lived}) == len(first.lived) + len(second.lived) == 8


def test_a_part_that_finds_something_ends_the_run_and_does_not_count(tmp_path: Path) -> None:
    progress = Progress.of(tmp_path)
    assert reach(Asked(("pairs",), goal=30, part=10), progress, Parts(finds=1)) == "pairs"
    assert progress.lives("pairs", fingerprint(MODELS["pairs"])) == 10


def test_lives_count_for_the_code_they_were_lived_with(tmp_path: Path) -> None:
    progress = Progress.of(tmp_path)
    progress.add("pairs", "old", 30, 1.0)
    assert progress.lives("pairs", "new") == 0
    progress.add("pairs", "new", 10, 1.0)
    assert Progress.of(tmp_path).lives("pairs", "new") == 10


@pytest.mark.parametrize("changed", ["pairing/deep/rule.py", "pairing/lua/script.lua", "tests/test_it.py"])
def test_the_fingerprint_changes_with_the_code_and_the_model(tmp_path: Path, changed: str) -> None:
    model = Model("tests/test_it.py::test_it")
    for name in ("pairing/deep/rule.py", "pairing/lua/script.lua", "tests/test_it.py", "docs/proof.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TEST)
    before = fingerprint(model, tmp_path)
    (tmp_path / "docs/proof.md").write_text("another")
    assert fingerprint(model, tmp_path) == before
    (tmp_path / changed).write_text("another")
    assert fingerprint(model, tmp_path) != before


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_a_test_that_lives_as_many_lives_as_it_is_asked_for(name: str) -> None:
    model = MODELS[name]
    text = (models.ROOT / model.file).read_text()
    assert model.test.partition("::")[2].removeprefix("Test") in text
    assert "lives(" in text


@pytest.mark.nightly
@pytest.mark.timeout(4 * NIGHT_S)
def test_a_night_of_lives_finds_nothing() -> None:
    """It fails by what a model finds, never by how far the night came."""
    until = time.monotonic() + NIGHT_S
    assert reach(Asked(until=until), Progress.of(models.FOLDER)) == ""
