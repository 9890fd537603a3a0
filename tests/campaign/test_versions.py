"""Deploys of a campaign go back to the commit before and forward again; the harness is that of this checkout."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from dashboard.demo.processes import Program
from tests.campaign import schedule, versions
from tests.campaign.plan import SMALL
from tests.campaign.versions import BEFORE, CURRENT, program_of, resolve

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="a checkout has git")
IDENTITY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    argv = ("git", *IDENTITY, *arguments)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two commits, of which each says in the product and in the tests which it is."""
    root = tmp_path / "checkout"
    for folder in ("pairing", "tests"):
        (root / folder).mkdir(parents=True)
    git(root, "init", "--quiet")
    for text in ("first", "second"):
        (root / "pairing/__main__.py").write_text(f"print('{text}')\n")
        (root / "tests/harness.py").write_text(text)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "-m", text)
    return root


@needs_git
def test_the_commit_before_is_the_newest_tag_or_that_before_this_one(checkout: Path) -> None:
    first, second = git(checkout, "rev-parse", "HEAD~1"), git(checkout, "rev-parse", "HEAD")
    assert resolve(None, checkout) == first
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "third")
    assert resolve(None, checkout) == second
    git(checkout, "tag", "v1", "HEAD~2")
    assert resolve(None, checkout) == first
    assert resolve("HEAD", checkout) == git(checkout, "rev-parse", "HEAD")
    assert resolve("none", checkout) == ""


@needs_git
def test_a_commit_that_does_not_exist_is_an_error_and_a_checkout_without_history_is_none(
    checkout: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="no commit v9"):
        resolve("v9", checkout)
    git(tmp_path, "init", "--quiet", "empty")
    assert resolve(None, tmp_path / "empty") == ""


@needs_git
def test_the_product_is_that_of_the_commit_and_the_harness_is_ours(checkout: Path, tmp_path: Path) -> None:
    tree = tmp_path / "run" / "before"
    versions.make(resolve(None, checkout), tree, checkout)
    assert "first" in (tree / "pairing/__main__.py").read_text()
    assert (tree / "tests/harness.py").read_text() == "second"
    (tree / "mark").touch()
    versions.make(resolve(None, checkout), tree, checkout)  # as a campaign does that is resumed
    assert (tree / "mark").exists()


def test_a_program_runs_with_the_code_of_the_tree_and_with_ours_again(tmp_path: Path) -> None:
    (tmp_path / "which_one.py").write_text("import os; print('theirs', os.getcwd())")
    program = Program("it", (sys.executable, "-m", "which_one"), {**os.environ, "PYTHONPATH": str(versions.ROOT)})
    theirs = program_of(program, tmp_path)
    done = subprocess.run(theirs.argv, env=dict(theirs.environment), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["theirs", str(tmp_path)]
    assert program_of(theirs, tmp_path) == theirs
    assert program_of(theirs, None) == program


def test_deploys_of_each_group_go_back_and_forward_in_turn() -> None:
    """The rest of the schedule is as without a commit before."""
    plain, versioned = (list(islice(schedule.disturbances(replace(SMALL, before=one)), 2000)) for one in ("", "c0ffee"))
    assert [replace(one, details={}) for one in plain] == [replace(one, details={}) for one in versioned]
    for group in ("senders", "receivers", "drains"):
        turns = [one.details["version"] for one in versioned if one.kind == "deploy" and one.target == group]
        assert turns[:4] == [BEFORE, CURRENT, BEFORE, CURRENT]
    assert not any("version" in one.details for one in plain)
