"""The demo's processes know what the demo decides, and nothing of this machine's real namespaces."""

import os
import stat
from pathlib import Path

import pytest

from dashboard.demo.processes import DemoError
from dashboard.demo.stage import DemoOptions, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(DemoOptions(port=8000, seconds=None, folder=tmp_path / "demo", password="secret"))


@pytest.mark.parametrize("name", ["REDIS_URL_FILE", "DATABASE_URL_FILE", "PAIRS_FILE_FILE", "CONTOSO_PRIMARY_FILE"])
def test_a_file_that_names_the_real_thing_is_not_followed(
    name: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/run/secrets/production")
    stage.export(REDIS_URL="redis://127.0.0.1:1/0", CONTOSO_PRIMARY="Endpoint=sb://127.0.0.1:2")
    assert stage.environment()[name] == ""


def test_the_password_is_not_handed_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "secret")
    assert "secret" not in stage.environment().values()
    assert "secret" not in repr(stage.options)


def test_what_the_demo_writes_is_its_owners_alone(stage: Stage) -> None:
    with stage.entered():
        path = stage.write("namespaces.key", "key")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(stage.options.folder).st_mode) == 0o700


def test_a_run_begins_without_what_the_last_one_left(stage: Stage) -> None:
    with stage.entered():
        stage.write("control-plane.sqlite3", "old")
        temporary = Path(stage.environment()["TMPDIR"])
        (temporary / "charges-1").mkdir()  # of a process that was killed
    with stage.entered():
        assert [*stage.state.iterdir(), *temporary.iterdir()] == []


@pytest.mark.parametrize(
    ("name", "value"), [*(("DEMO_PORT", value) for value in ("0", "65536", "http", "-1")), ("DEMO_SECONDS", "soon")]
)
def test_a_number_that_cannot_be_one_is_refused(name: str, value: str) -> None:
    with pytest.raises(DemoError, match=name):
        DemoOptions.from_environment({name: value})


def test_without_a_password_each_run_has_another() -> None:
    first, second = (DemoOptions.from_environment({}).password for _ in range(2))
    assert first != second
    assert len(first) >= 12
