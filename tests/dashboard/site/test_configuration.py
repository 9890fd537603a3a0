"""Whatever an operator sets, the answer is one sentence at once, and never a traceback (docs/settings.md)."""

import ast
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

from tests import forked, migrated
from tests.dashboard.served import PAIRS
from tests.ports import free_port
from tests.postgres import cluster, programs
from tests.selection import is_nightly

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ROOT / "dashboard" / "settings.py"
SOURCE = ast.parse(SETTINGS.read_text(encoding="utf-8"))
COMPILED = compile(SOURCE, str(SETTINGS), "exec")
READERS = [
    node
    for node in ast.walk(SOURCE)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "_env"
]
NAMES = sorted({node.args[0].value for node in READERS if isinstance(node.args[0], ast.Constant)})
"""Every setting, as it is declared."""
SECRETS = ("SECRET", "PASSWORD", "TOKEN", "REDIS_URL", "DATABASE_URL")
HOSTILE = [
    "",
    " ",
    "hunter2",
    "-1",
    "1.5",
    "nan",
    "9" * 5000,
    "LOUD",
    "/dev/null",
    "/dev/null/hunter2",
    "~nobody-is-called-so/x",
    "\udcff\udcfe",
    "a\nb",
    "\t",
    "é'\"`$(x)",
    "://",
    "*",
    ",,,",
    "999.1.1.1/99",
    "https://",
    "https://[::1",
    "http://localhost:hunter2",
    "redis://",
    "redis://:hunter2@h:port/0",
    "redis://:hunter2@127.0.0.1:1/zero",
    "redis://[::1/0",
    "redis://127.0.0.1:99999/0",
    "redis://127.0.0.1/0?colour=red",
    "rediss://h?ssl_cert_reqs=maybe",
    "unix://",
    "postgres://",
    "postgres://u:hunter2@h:port/n",
    "postgres://[::1/n",
    "sqlite:///dev/null/x.db",
    "sqlite:////proc/x/y.db",
    "foo://bar",
]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths among the values, as of STATE_DIR, must not end in the checkout."""
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


def test_every_setting_is_found():
    assert {"DATABASE_URL", "REDIS_URL", "LOG_LEVEL", "OIDC_ISSUER", "EMAIL_PORT", "STATE_DIR"} <= set(NAMES)
    assert len(NAMES) > 45


def values_for(name: str) -> list[str]:
    """Every value at night; by day a sixth of them, and each value for a sixth of the settings."""
    return HOSTILE if is_nightly() else HOSTILE[NAMES.index(name) % 6 :: 6]


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_taken_or_refused_in_one_sentence(name, tmp_path, monkeypatch):
    others = {"OIDC_ISSUER": "https://x.example", "OIDC_CLIENT_ID": "a", "OIDC_CLIENT_SECRET": "b"}
    for value in values_for(name):
        try:
            loaded = load(tmp_path, monkeypatch, **((others if "OIDC" in name else {}) | {name: value}))
        except ImproperlyConfigured as refusal:
            sentence = str(refusal)
            assert sentence.isprintable(), (value, sentence)
            assert len(sentence) < 300, (value, sentence)
            assert "hunter2" not in sentence or not any(word in name for word in SECRETS), (value, sentence)
        else:
            assert loaded["LOGGING"]["root"]["level"] in logging.getLevelNamesMapping(), value


def test_a_database_whose_host_is_gone_is_waited_for_as_long_as_the_address_says(tmp_path, monkeypatch):
    address = "postgres://u:p@db.example/n"
    usual = load(tmp_path, monkeypatch, DATABASE_URL=address)["DATABASES"]["default"]["OPTIONS"]
    assert usual["connect_timeout"] == 5
    assert usual["tcp_user_timeout"] == 15_000
    assert usual["keepalives_idle"] + usual["keepalives_interval"] <= 15
    named = load(tmp_path, monkeypatch, DATABASE_URL=f"{address}?connect_timeout=9&sslmode=require")
    assert named["DATABASES"]["default"]["OPTIONS"] == usual | {"connect_timeout": 9, "sslmode": "require"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["/nowhere/at/all", "/", "/dev/zero", "/proc/self/mem"])
def test_a_file_that_cannot_be_read_is_named_in_one_sentence(name, file, tmp_path, monkeypatch):
    with pytest.raises(ImproperlyConfigured, match=name):
        load(tmp_path, monkeypatch, **{f"{name}_FILE": file})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD': give DEBUG, INFO, WARNING, ERROR or CRITICAL."),
        ({"SECRET_KEY": "k" * 49}, "at least 50 random characters"),
        ({"EMAIL_USE_TLS": "1", "EMAIL_USE_SSL": "1"}, "exclude each other"),
        ({"ALLOWED_HOSTS": "https://bus.example"}, "ALLOWED_HOSTS"),
        ({"CSRF_TRUSTED_ORIGINS": "bus.example"}, "CSRF_TRUSTED_ORIGINS"),
        ({"PUBLIC_URL": "https://[::1"}, "PUBLIC_URL"),
        ({"REDIS_URL": "redis://h:port/0"}, "REDIS_URL"),
        ({"REDIS_URL": "redis+sentinel://h:1,h:2"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "redis+sentinel://h:1,/master/0"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "redis+sentinel://h:port/master"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "redis+sentinel://h/master/zero"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "rediss+sentinel://h/master?db=x"}, "REDIS_URL cannot be read"),
        ({"USAGE_DIR": "ftp://h/x"}, "USAGE_DIR"),
        ({"STATE_DIR": "~nobody-is-called-so/x"}, "STATE_DIR"),
        ({"DATABASE_URL": "sqlite:////proc/x/y.db"}, "/proc/x/y.db"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_would_fail_later_is_refused_at_once(variables, words, tmp_path, monkeypatch):
    with pytest.raises(ImproperlyConfigured) as refused:
        load(tmp_path, monkeypatch, **variables)
    assert words in str(refused.value)


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
def test_a_usable_redis_url_is_taken(value, tmp_path, monkeypatch):
    assert load(tmp_path, monkeypatch, REDIS_URL=value)["REDIS_URL"] == value


@pytest.mark.parametrize("level", ["warning", "WARNING"])
def test_levels_are_taken_in_both_cases(level, tmp_path, monkeypatch):
    assert load(tmp_path, monkeypatch, LOG_LEVEL=level)["LOGGING"]["root"]["level"] == "WARNING"


def test_the_length_of_a_key_is_the_same_in_settings_docs_and_djangos_check():
    from django.core.checks.security.base import SECRET_KEY_MIN_LENGTH

    from dashboard.site.secret_key import KEY_LENGTH

    assert KEY_LENGTH == SECRET_KEY_MIN_LENGTH
    assert f"at least {KEY_LENGTH} characters" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process with these variables."""
    (folder / "pairs.toml").write_text(PAIRS)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    known = {"STATE_DIR": str(folder), "PAIRS_FILE": str(folder / "pairs.toml"), "REDIS_URL": "redis://127.0.0.1:1/0"}
    environment = {**kept, **known, **variables}
    return forked.run(command, environment)


AWAY = "postgres://u:hunter2@127.0.0.1:1/n"
STRING = "Endpoint=sb://h/;SharedAccessKeyName=K;SharedAccessKey=V"


@pytest.mark.parametrize(
    ("command", "variables", "sentence"),
    [
        ("manage.py sync_pairs", {"CONTOSO_PRIMARY": STRING}, "set CONTOSO_SECONDARY"),
        ("manage.py sync_pairs", {"CONTOSO_PRIMARY": STRING, "CONTOSO_SECONDARY": "x"}, "CONTOSO_SECONDARY holds no"),
        ("manage.py check nosuch", {}, "No installed app with label 'nosuch'"),
        ("manage.py check --database default", {"DATABASE_URL": AWAY}, "The database n at 127.0.0.1:1 does not answer"),
        ("manage.py sendtestemail ada@example.com", {"EMAIL_PORT": "1"}, "does not answer"),
        ("-m celery -A workers worker", {"CONTOSO_PRIMARY": STRING}, "set CONTOSO_SECONDARY"),
        ("-m celery -A workers beat", {"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD'"),
        ("-m uvicorn dashboard.asgi:application --port 0", {"LOG_LEVEL": "LOUD"}, "LOG_LEVEL is 'LOUD'"),
    ],
)
def test_a_process_says_what_is_missing_in_one_sentence(tmp_path, command, variables, sentence):
    migrated.copy(tmp_path / "control-plane.sqlite3")
    ran = run(tmp_path, *command.split(), **variables)
    assert ran.returncode != 0
    assert sentence in ran.stderr, ran.stderr
    assert ran.stderr.count("error: ") == 1
    assert "Traceback" not in ran.stderr + ran.stdout


def test_sync_pairs_warns_of_a_pair_of_one_namespace(tmp_path):
    migrated.copy(tmp_path / "control-plane.sqlite3")
    ran = run(tmp_path, "manage.py", "sync_pairs", CONTOSO_PRIMARY=STRING, CONTOSO_SECONDARY=STRING)
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert ran.stderr.startswith("warning: The primary and the secondary of pair contoso are the same namespace, h:")


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["migrate", "createsuperuser --username a --email a@b.example --noinput"])
@pytest.mark.parametrize("url", ["postgres://u:hunter2@127.0.0.1:1/n", "postgres://u:hunter2@127.0.0.1/n?colour=red"])
def test_djangos_own_commands_say_what_is_wrong_with_the_database(tmp_path, command, url):
    ran = run(tmp_path, "manage.py", *command.split(), DATABASE_URL=url, DJANGO_SUPERUSER_PASSWORD="x")
    assert ran.returncode != 0
    assert ran.stderr.startswith("error: The database n")
    assert ran.stderr.count("\n") == 1
    assert "hunter2" not in ran.stderr


def test_a_command_of_django_says_that_the_database_is_not_migrated(tmp_path):
    ran = run(tmp_path, "manage.py", "clearsessions")
    assert ran.stderr.endswith("is not migrated: run manage.py migrate first.\n")
    assert ran.stderr.count("\n") == 1


def test_sync_pairs_changes_nothing_where_a_connection_string_is_missing(tmp_path):
    migrated.copy(tmp_path / "control-plane.sqlite3")
    assert "up to date" not in run(tmp_path, "manage.py", "sync_pairs").stdout
    listed = run(tmp_path, "manage.py", "pairing", "status")
    assert "contoso" not in listed.stdout


@pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")
def test_a_role_without_rights_and_one_that_does_not_exist_are_named(tmp_path):
    with cluster() as url:
        with psycopg.connect(url, autocommit=True) as client:
            client.execute("create role weak login")
            client.execute("revoke all on schema public from public")
        weak = re.sub("//[^@]*@", "//weak@", url)
        ran = run(tmp_path, "manage.py", "migrate", "-v0", DATABASE_URL=weak)
        assert ran.stderr.startswith("error: The role of DATABASE_URL has no right to use the database")
        unknown = re.sub("//[^@]*@", "//nobody-is-called-so@", url)
        said = run(tmp_path, "manage.py", "migrate", "-v0", DATABASE_URL=unknown)
        assert 'role "nobody-is-called-so" does not exist' in said.stderr
        assert ran.stderr.count("\n") == said.stderr.count("\n") == 1


def test_a_web_process_says_at_its_start_that_the_database_is_not_migrated(tmp_path):
    command = (sys.executable, "-m", "uvicorn", "dashboard.asgi:application", "--port", str(free_port()))
    environment = {"PATH": os.environ["PATH"], "STATE_DIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert next(line for line in process.stderr if "is not migrated: run manage.py migrate first." in line)
        process.terminate()
        process.communicate(timeout=60)
