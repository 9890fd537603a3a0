"""A database that is away or not migrated: what pages, the API and commands say (docs/operations.md)."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import requests
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db.migrations.recorder import MigrationRecorder

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.site.database import SENTENCE, problem_now
from tests import forked
from tests.acceptance.fleet import Relay
from tests.dashboard import served
from tests.ports import free_port
from tests.postgres import cluster, programs

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = sorted(path.stem for path in (ROOT / "dashboard/management/commands").glob("[a-z]*.py"))
WITHOUT_DATABASE = {"demo"}
"""It starts processes that have one of their own."""


def test_a_database_of_before_the_first_release_is_refused_with_what_to_do(db: None) -> None:
    MigrationRecorder.Migration.objects.filter(app="dashboard").update(name="0042_resubmitted_messages")

    with pytest.raises(ImproperlyConfigured, match=r"export /events.csv.*delete the database.*folder .demo") as refusal:
        call_command("migrate", verbosity=0)

    assert problem_now() == str(refusal.value)


def test_every_command_shows_errors_of_the_database_so() -> None:
    for command in set(COMMANDS) - WITHOUT_DATABASE:
        module = importlib.import_module(f"dashboard.management.commands.{command}")
        assert issubclass(module.Command, OneSentenceCommand), command


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a PostgreSQL with nothing in it."""
    if programs() is None:
        (pytest.fail if os.environ.get("REQUIRE_POSTGRES") == "1" else pytest.skip)("no PostgreSQL")
    with cluster() as url:
        yield url


def test_a_role_without_rights_and_one_that_does_not_exist_are_named(url: str, tmp_path: Path) -> None:
    with psycopg.connect(url, autocommit=True) as client:
        client.execute("create role weak login")
        client.execute("revoke all on schema public from public")
    environment = served.environment_of(tmp_path, {}, "redis://127.0.0.1:1/0")
    weak, unknown = (
        forked.run(("manage.py", "migrate", "-v0"), environment | {"DATABASE_URL": url.replace("tests@", f"{role}@")})
        for role in ("weak", "nobody-is-called-so")
    )
    assert weak.stderr.startswith("error: The role of DATABASE_URL has no right to use the database")
    assert 'role "nobody-is-called-so" does not exist' in unknown.stderr
    assert weak.stderr.count("\n") == unknown.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def way(url: str) -> Iterator[Relay]:
    """The way there, which can be cut."""
    relay = Relay(int(url.rsplit(":", 1)[1].split("/")[0]))
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def address(way: Relay, lasting_redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A control plane on that PostgreSQL."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "pairs.toml").write_text("")
    environment = served.environment_of(folder, {}, lasting_redis_url) | {
        "DATABASE_URL": f"postgres://tests@127.0.0.1:{way.port}/postgres"
    }
    forked.run(("manage.py", "migrate", "-v0"), environment, check=True)
    with served._web(environment, free_port()) as address:
        yield address


def test_pages_and_api_answer_503_with_a_sentence_and_when_to_ask_again(address: str, way: Relay) -> None:
    cookies = {"sessionid": "a" * 32}
    assert requests.get(f"{address}/login/").status_code == 200

    way.cut()
    page = requests.get(f"{address}/", cookies=cookies)
    part = requests.get(f"{address}/", cookies=cookies, headers={"HX-Request": "true"})
    answer = requests.get(f"{address}/api/v1/pairs", cookies=cookies)
    way.mend()
    again = requests.get(f"{address}/login/")

    assert [one.status_code for one in (page, part, answer)] == [503, 503, 503]
    assert all(int(one.headers["Retry-After"]) > 0 for one in (page, part, answer))
    assert SENTENCE in page.text
    assert part.text == SENTENCE
    assert answer.json()["detail"] == SENTENCE
    assert again.status_code == 200
