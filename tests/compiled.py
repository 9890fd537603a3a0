"""All Python files compiled before the workers of a parallel run start: else each compiles all of them, at one time.

pytest compiles test modules itself, with its assertions; it has no command that does so ahead.
"""

import compileall
import multiprocessing
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dashboard", "emulator", "examples", "pairing", "pipeline", "tests", "workers")
BY_PYTEST = re.compile(r"/(test_\w+|conftest)\.py$")


def compile_all(config: pytest.Config) -> None:
    """Writes what is missing or out of date of the compiled files of this checkout, with all cores."""
    if sys.dont_write_bytecode:
        return
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1, rx=BY_PYTEST, workers=0)
    files = [str(file) for file in (ROOT / "tests").rglob("*.py") if BY_PYTEST.search(str(file))]
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), _remember, [config]) as workers:
        workers.map(_rewrite, files, chunksize=8)


_configs: list[pytest.Config] = []


def _remember(config: pytest.Config) -> None:
    _configs[:] = [config]


def _rewrite(name: str) -> None:
    """What the import hook of pytest does, but for the execution."""
    file = Path(name)
    folder = rewrite.get_cache_dir(file)
    compiled = folder / (file.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(file, compiled) is None and rewrite.try_makedirs(folder):
        with suppress(SyntaxError):  # which whoever collects it reports
            found, code = rewrite._rewrite_test(file, _configs[0])
            rewrite._write_pyc(_configs[0].stash[rewrite.assertstate_key], code, found, compiled)
