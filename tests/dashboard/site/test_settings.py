"""The environment: a wrong value is one sentence, secrets stay secret (docs/contract.md, section 3)."""

import ast
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard.site.places import KEY_LENGTH, kept_secret_key, private_file
from tests import forked, migrated
from tests.dashboard.served import PAIRS

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ROOT / "dashboard" / "settings.py"
SOURCE = ast.parse(SETTINGS.read_text(encoding="utf-8"))
COMPILED = compile(SOURCE, str(SETTINGS), "exec")
MOST_SETTINGS = 38
AWAY = "postgres://u:hunter2@127.0.0.1:1/n"
STRING = "Endpoint=sb://h/;SharedAccessKeyName=K;SharedAccessKey=V"
ISSUER = "OIDC_ISSUER is not an address that can be trusted"


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths among the values must not end in the checkout."""
    monkeypatch.chdir(tmp_path)


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, object]:
    """The settings with these variables and no other."""
    with monkeypatch.context() as patched:
        for name in list(os.environ):
            patched.delenv(name)
        for name, value in {"HOME": str(folder), "STATE_DIR": str(folder / "state"), **variables}.items():
            patched.setenv(name, value)
        loaded: dict[str, object] = {"__name__": "settings_of_this_test", "__file__": str(SETTINGS)}
        exec(COMPILED, loaded)
        return loaded


def run(folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process with these variables."""
    (folder / "pairs.toml").write_text(PAIRS)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    known = {"STATE_DIR": str(folder), "PAIRS_FILE": str(folder / "pairs.toml"), "REDIS_URL": "redis://127.0.0.1:1/0"}
    return forked.run(tuple(command.split()), {**kept, **known, **variables})


def test_there_are_few_settings() -> None:
    readers = [
        node for node in ast.walk(SOURCE) if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_env.")
    ]
    assert 30 < len({ast.literal_eval(reader.args[0]) for reader in readers}) <= MOST_SETTINGS


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"UNDO_WINDOW_S": "soon"}, "UNDO_WINDOW_S is 'soon': give a whole number from 0 to 3600."),
        ({"UNDO_WINDOW_S": "3601"}, "UNDO_WINDOW_S is '3601': give a whole number from 0 to 3600."),
        ({"DEBUG": "perhaps"}, "DEBUG is 'perhaps': give 1 or 0."),
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD': give DEBUG, INFO, WARNING, ERROR or CRITICAL."),
        ({"SIMULATED_UNTIL": "2026-10-01"}, "SIMULATED_UNTIL is '2026-10-01': give a time such as"),
        ({"TRUSTED_PROXIES": "10.0.0.0/33"}, "TRUSTED_PROXIES cannot be read: give addresses or networks"),
        ({"ALERT_ALLOWED_NETWORKS": "hunter2"}, "ALERT_ALLOWED_NETWORKS cannot be read"),
        ({"REDIS_URL": "redis://:hunter2@h:port/0"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "redis+sentinel://h:port/master"}, "REDIS_URL cannot be read"),
        ({"DATABASE_URL": "mysql://u:hunter2@h/n"}, "DATABASE_URL cannot be read: give sqlite://…"),
        ({"DATABASE_URL": "postgres://u:hunter2@h:port/n"}, "DATABASE_URL cannot be read"),
        ({"DATABASE_URL": "sqlite:////proc/x/y.db"}, "/proc/x/y.db cannot be written"),
        ({"EMAIL_URL": "smtp://u:hunter2@h:port"}, "EMAIL_URL cannot be read: give smtp://…"),
        ({"USAGE_DIR": "s4://key:hunter2@usage"}, "USAGE_DIR is 's4://…': give a folder, or s3://… or"),
        ({"USAGE_DIR": "s3://key:ab/hunter2@usage"}, "USAGE_DIR has a key with a / in it: write / as %2F"),
        ({"STATE_DIR": "~nobody-is-called-so/x"}, "STATE_DIR"),
        ({"STATE_DIR": "/proc/x"}, "STATE_DIR /proc/x cannot be used"),
        ({"SECRET_KEY": "hunter2"}, f"SECRET_KEY is too short: give at least {KEY_LENGTH} random characters"),
        ({"SECRET_KEY_FILE": "/nowhere/key"}, "SECRET_KEY_FILE names /nowhere/key, which cannot be read"),
        ({"ALLOWED_HOSTS": "https://bus.example"}, "ALLOWED_HOSTS"),
        ({"CSRF_TRUSTED_ORIGINS": "bus.example"}, "CSRF_TRUSTED_ORIGINS"),
        ({"PUBLIC_URL": "https://[::1"}, "PUBLIC_URL"),
        ({"LOCAL_LOGIN": "0"}, "LOCAL_LOGIN=0 without OIDC_ISSUER"),
        ({"OIDC_ISSUER": "http://login.example.org"}, ISSUER),
        ({"OIDC_ISSUER": "http://localhost.example.org"}, ISSUER),
        ({"OIDC_ISSUER": "http://127.0.0.1:80@example.org/"}, ISSUER),
        ({"OIDC_ISSUER": "http://localhost:8080/realm"}, "OIDC_ISSUER needs OIDC_CLIENT_ID"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_in_one_sentence_without_secrets(variables, sentence, tmp_path, monkeypatch):
    with pytest.raises(ImproperlyConfigured) as refused:
        load(tmp_path, monkeypatch, **variables)
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        "redis://",
        "redis://:p@h:1/0",
        "rediss://h/1?ssl_cert_reqs=none",
        "unix:///a.sock",
        "redis+sentinel://h/master",
        "rediss+sentinel://u:p@h1:1,[::1]:2,h3/master/1?sentinel_password=q&ssl_cert_reqs=none",
    ],
)
def test_a_usable_redis_url_is_taken_also_from_a_file(value, tmp_path, monkeypatch):
    (tmp_path / "url").write_text(f"{value}\n")
    assert load(tmp_path, monkeypatch, REDIS_URL=value)["REDIS_URL"] == value
    assert load(tmp_path, monkeypatch, REDIS_URL_FILE=str(tmp_path / "url"))["REDIS_URL"] == value


def test_the_mail_server_is_one_address(tmp_path, monkeypatch):
    loaded = load(tmp_path, monkeypatch, EMAIL_URL="smtp+tls://us:a%2Fb@mail.example:587")
    names = ("EMAIL_HOST", "EMAIL_PORT", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "EMAIL_USE_TLS")
    assert [loaded[name] for name in names] == ["mail.example", 587, "us", "a/b", True]
    assert load(tmp_path, monkeypatch, EMAIL_URL="filemail:////mails")["EMAIL_FILE_PATH"] == "/mails"


def test_a_database_whose_host_is_gone_is_waited_for_as_long_as_the_address_says(tmp_path, monkeypatch):
    address = "postgres://u:p@db.example/n"
    usual = load(tmp_path, monkeypatch, DATABASE_URL=address)["DATABASES"]["default"]["OPTIONS"]
    assert usual["connect_timeout"] == 5
    assert usual["tcp_user_timeout"] == 15_000
    assert usual["keepalives_idle"] + usual["keepalives_interval"] <= 15
    named = load(tmp_path, monkeypatch, DATABASE_URL=f"{address}?connect_timeout=9&sslmode=require")
    assert named["DATABASES"]["default"]["OPTIONS"] == usual | {"connect_timeout": 9, "sslmode": "require"}


@pytest.mark.parametrize(
    ("command", "variables", "sentence"),
    [
        ("manage.py sync_pairs", {"PAIRS_FILE": "/nowhere.toml"}, "/nowhere.toml: there is no such file; write one"),
        ("manage.py sync_pairs", {"CONTOSO_PRIMARY": STRING}, "CONTOSO_SECONDARY is not set"),
        (
            "manage.py sync_pairs",
            {"CONTOSO_PRIMARY": STRING, "CONTOSO_SECONDARY": "x"},
            "the secondary connection string is malformed",
        ),
        ("manage.py migrate", {"DATABASE_URL": AWAY}, "The database n at 127.0.0.1:1 does not answer"),
        ("manage.py migrate", {"DATABASE_URL": f"{AWAY}?colour=red"}, "The database n at 127.0.0.1:1 does not answer"),
        ("manage.py sendtestemail ada@example.com", {"EMAIL_URL": "smtp://127.0.0.1:1"}, "does not answer"),
    ],
)
def test_a_process_says_what_is_wrong_in_one_sentence(tmp_path, command, variables, sentence):
    migrated.copy(tmp_path / "control-plane.sqlite3")
    ran = run(tmp_path, command, **variables)
    assert ran.returncode != 0
    assert sentence in ran.stderr, ran.stderr
    assert ran.stderr.count("error: ") == 1
    assert "Traceback" not in ran.stderr + ran.stdout
    assert "hunter2" not in ran.stderr + ran.stdout
    assert "up to date" not in ran.stdout


def test_sync_pairs_warns_of_a_pair_of_one_namespace(tmp_path):
    migrated.copy(tmp_path / "control-plane.sqlite3")
    ran = run(tmp_path, "manage.py sync_pairs", CONTOSO_PRIMARY=STRING, CONTOSO_SECONDARY=STRING)
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert ran.stderr.startswith("warning: The primary and the secondary of pair contoso are the same namespace, h:")


def test_a_command_of_django_says_that_the_database_is_not_migrated(tmp_path):
    ran = run(tmp_path, "manage.py clearsessions")
    assert ran.stderr.endswith("is not migrated: run manage.py migrate first.\n")
    assert ran.stderr.count("\n") == 1


def test_nothing_is_missing_for_a_deployment_behind_https(tmp_path):
    ran = run(tmp_path, "manage.py check --deploy --fail-level WARNING", HTTPS="1", ALLOWED_HOSTS="bus.example")
    assert ran.returncode == 0, ran.stderr


def test_processes_that_start_at_once_share_one_signing_key(tmp_path):
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(kept_secret_key(tmp_path))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    assert len(found[0]) > KEY_LENGTH


@pytest.mark.parametrize("variables", [{}, {"SECRET_KEY": "k" * 50}], ids=["a key of its own", "a key that is given"])
def test_the_state_folder_is_read_by_its_owner_alone_also_if_it_was_open_before(tmp_path, variables):
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    migrated.copy(state / "control-plane.sqlite3")
    (state / "control-plane.sqlite3").chmod(0o644)
    old_umask = os.umask(0o022)
    try:
        assert run(tmp_path, "manage.py migrate -v0", STATE_DIR=str(state), **variables).returncode == 0
    finally:
        os.umask(old_umask)

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
