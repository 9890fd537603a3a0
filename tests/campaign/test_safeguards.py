"""What removes a safeguard still applies to the code, and says so loudly where it does not."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.judge import CHECKS
from tests.campaign.safeguards import ROOT, SAFEGUARDS, Change, SafeguardError, make_copy


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_copy_lacks_the_safeguard_and_nothing_else(name: str, tmp_path: Path) -> None:
    make_copy(name, tmp_path)
    changed = {change.file for change in SAFEGUARDS[name].changes}
    files = (path for room in ("pairing", "gateway") for path in (ROOT / room).rglob("*"))
    for file in (path for path in files if path.suffix in (".py", ".lua")):
        where = str(file.relative_to(ROOT))
        text = (tmp_path / where).read_text()
        assert (text != file.read_text()) is (where in changed)
        if where in changed and file.suffix == ".py":
            ast.parse(text)


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_each_names_what_notices_it(name: str) -> None:
    safeguard = SAFEGUARDS[name]
    assert set(safeguard.checks) <= set(CHECKS)
    assert safeguard.tests
    assert all((ROOT / file).exists() for file in safeguard.tests)


@pytest.mark.parametrize("text", ["nothing of it", "twice twice"])
def test_a_change_whose_text_is_not_there_once_fails(text: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(SafeguardError, match="instead of once"):
        Change("file.py", "twice", "").apply(tmp_path)
    with pytest.raises(SafeguardError):
        Change("none.py", "twice", "").apply(tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "file"), [(name, file) for name, one in SAFEGUARDS.items() for file in one.tests])
def test_the_tests_that_a_safeguard_names_fail_without_it(name: str, file: str, tmp_path: Path) -> None:
    make_copy(name, tmp_path)
    argv = (sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", file)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "FORKED_"))}
    environment |= {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"FAILED {file}" in done.stdout
    assert "from pytest-timeout" not in done.stdout
