"""The environment: bad values are one sentence, secrets stay secret (docs/contract.md, section 3)."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard.site.environment import Environment
from dashboard.site.private_files import private_file
from dashboard.site.secret_key import kept_secret_key
from tests import forked, migrated


def manage(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return forked.run(("manage.py", *arguments), {**kept, "STATE_DIR": str(tmp_path / "state"), **variables})


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"UNDO_WINDOW_S": "soon"}, "UNDO_WINDOW_S is 'soon': give a whole number from 0 to 3600."),
        ({"DEBUG": "perhaps"}, "DEBUG is 'perhaps': give 1 or 0."),
        ({"REDIS_URL": "hunter2@somewhere"}, "REDIS_URL is not a supported URL"),
        ({"DATABASE_URL": "mysql://u:hunter2@h/n"}, "DATABASE_URL is not a supported URL"),
        ({"USAGE_DIR": "s4://key:hunter2@usage"}, "USAGE_DIR is 's4://…': give a folder, or s3://… or"),
        ({"USAGE_DIR": "s3://key:ab/hunter2@usage"}, "USAGE_DIR has a key with a / in it: write / as %2F"),
        ({"SECRET_KEY": "hunter2"}, "SECRET_KEY is too short"),
        ({"OIDC_ISSUER": "http://login.example.org"}, "OIDC_ISSUER is not an address that can be trusted"),
        ({"OIDC_ISSUER": "http://localhost.example.org"}, "OIDC_ISSUER is not an address that can be trusted"),
        ({"OIDC_ISSUER": "http://127.0.0.1:80@example.org/"}, "OIDC_ISSUER is not an address that can be trusted"),
        ({"OIDC_ISSUER": "http://localhost:8080/realm"}, "OIDC_ISSUER needs OIDC_CLIENT_ID"),
        ({"SECRET_KEY_FILE": "/nowhere/key"}, "SECRET_KEY_FILE names /nowhere/key, which cannot be read"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_bad_value_is_one_sentence_without_a_traceback(tmp_path, variables, sentence):
    ran = manage(tmp_path, "check", **variables)

    assert ran.returncode == 1
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1
    assert sentence in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr


def test_a_missing_pairs_file_is_one_sentence(tmp_path):
    migrated.copy(tmp_path / "state" / "control-plane.sqlite3")
    ran = manage(tmp_path, "sync_pairs", PAIRS_FILE=str(tmp_path / "none.toml"))

    assert ran.returncode == 1
    assert ran.stderr == (
        f"error: {tmp_path}/none.toml: there is no such file; write one with a table [pairs.NAME], or set PAIRS_FILE.\n"
    )


def test_nothing_is_missing_for_a_deployment_behind_https(tmp_path):
    ran = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", HTTPS="1", ALLOWED_HOSTS="bus.example")

    assert ran.returncode == 0, ran.stderr


def test_models_and_migrations_agree(tmp_path):
    ran = manage(tmp_path, "makemigrations", "--check", "--dry-run")

    assert ran.returncode == 0, ran.stdout


def test_a_signing_key_is_made_once_for_its_owner_alone(tmp_path):
    folder = tmp_path / "state"

    first = kept_secret_key(folder)

    assert kept_secret_key(folder) == first
    assert len(first) > 50
    assert stat.S_IMODE((folder / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_processes_that_start_at_once_share_one_signing_key(tmp_path):
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(kept_secret_key(tmp_path / "state"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 16
    assert len(set(found)) == 1


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ImproperlyConfigured, match="cannot be kept"):
        kept_secret_key(tmp_path / "file" / "state")


def test_a_value_may_come_from_a_file(tmp_path):
    (tmp_path / "url").write_text("redis://h/0\n")
    reader = Environment({"REDIS_URL_FILE": str(tmp_path / "url")})

    assert reader.url("REDIS_URL", "", ("redis",)) == "redis://h/0"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="a key of its own"),
        pytest.param({"SECRET_KEY": "k" * 50}, id="a key that is given"),
    ],
)
def test_what_is_in_the_state_folder_is_read_by_its_owner_alone(tmp_path, variables):
    old_umask = os.umask(0o022)
    try:
        assert manage(tmp_path, "migrate", "-v0", **variables).returncode == 0
    finally:
        os.umask(old_umask)

    state = tmp_path / "state"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [state, *state.rglob("*")]}
    assert modes.pop("state") == 0o700
    assert "control-plane.sqlite3" in modes
    assert set(modes.values()) == {0o600}


def test_a_database_that_is_no_regular_file_is_refused_and_keeps_its_rights(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    with pytest.raises(ImproperlyConfigured, match="is not a regular file"):
        private_file(pipe)
    assert pipe.stat().st_mode & 0o777 == 0o666


def test_a_state_folder_that_was_open_to_others_is_closed(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    (state / "control-plane.sqlite3").touch(0o644)

    assert manage(tmp_path, "check").returncode == 0

    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "control-plane.sqlite3").stat().st_mode) == 0o600
