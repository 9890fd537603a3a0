"""The code of the commit before, beside that of this checkout: a deploy goes back to it, the next one forward again.

Product code is that of the other commit; senders and receivers of the campaign are those of this one, so that their
journals mean the same. Without git, or in a clone without history, every deploy is of this checkout.
"""

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

from dashboard.demo.processes import Program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "before"
BEFORE, CURRENT = "before", "current"
ROOMS = ("pairing", "emulator", "dashboard", "workers", "pipeline", "examples", "templates")
FILES = ("manage.py", "pyproject.toml")
NONE = "none"
_BEGIN = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
"""Goes on as the program in another folder, which `python -m` imports from first."""


def resolve(asked: str | None, root: Path = ROOT) -> str:
    """The id of the commit that is asked for; by default of the newest tag, else of the commit before this one.

    Empty if there is none. ValueError if one is asked for that does not exist.
    """
    if asked == NONE:
        return ""
    tag = _git(root, "describe", "--tags", "--abbrev=0", "HEAD~1") if asked is None else ""
    found = _git(root, "rev-parse", "--verify", "--quiet", f"{asked or tag or 'HEAD~1'}^{{commit}}")
    if asked and not found:
        raise ValueError(f"there is no commit {asked}")
    return found


def is_tagged(commit: str, root: Path = ROOT) -> bool:
    """Whether it is a version that was released."""
    return bool(commit and _git(root, "tag", "--points-at", commit))


def _git(root: Path, *arguments: str) -> str:
    """What git answers; empty if it has no answer, or is missing."""
    try:
        done = subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def make(commit: str, tree: Path, root: Path = ROOT) -> None:
    """A folder with the product code of the commit and the tests of this checkout, unless it is there already.

    A tree that was not finished is not taken for one: it gets its name at the end.
    """
    if tree.exists():
        return
    new = tree.with_name(f"{tree.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    argv = ("git", "archive", "--format=tar", commit, *_present(commit, root))
    packed = subprocess.run(argv, cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(new, filter="data")
    shutil.copytree(root / "tests", new / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    new.rename(tree)


def _present(commit: str, root: Path) -> list[str]:
    there = set(_git(root, "ls-tree", "--name-only", commit).split())
    return [name for name in (*ROOMS, *FILES) if name in there]


def program_of(program: Program, tree: Path | None) -> Program:
    """The program with the code of a tree; with that of this checkout without one."""
    argv = program.argv[4:] if program.argv[1:3] == ("-c", _BEGIN) else program.argv
    if tree is None:
        return replace(program, argv=argv, environment={**program.environment, "PYTHONPATH": str(ROOT)})
    begun = (sys.executable, "-c", _BEGIN, str(tree), *argv)
    return replace(program, argv=begun, environment={**program.environment, "PYTHONPATH": str(tree)})
