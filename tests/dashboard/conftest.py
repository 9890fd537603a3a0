"""People of every role, a pair with entities, and a real Redis behind the verbs."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from dashboard.access import tokens
from dashboard.fleet.state import projection
from dashboard.models import EntityHealth, Pair
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from tests.dashboard.secondary import Secondary
from tests.dashboard.served import PAIRS, namespaces
from tests.prompt_links import without_pauses  # noqa: F401

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
ROLES = ("viewer", "operator", "administrator")
PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def fast_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def redis_here(redis_client, redis_url, settings):
    """The control plane's Redis, empty."""
    settings.REDIS_URL = redis_url
    return redis_client


@pytest.fixture
def redis_away(settings):
    """A Redis that nobody runs."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"


@pytest.fixture
def pair(db) -> Pair:
    row = Pair.objects.create(
        name="contoso",
        primary_namespace="contoso",
        secondary_namespace="contoso-dr",
        failover_interval_s=5,
        ping_primary_interval_s=2,
        synced_at=NOW,
    )
    for path in ("orders", "payments"):
        EntityHealth.objects.create(pair=row, path=path, is_configured=True)
    return row


@pytest.fixture
def orders(pair) -> EntityHealth:
    return pair.entities.get(path="orders")


@pytest.fixture
def shared(redis_here) -> SharedState:
    return SharedState(redis_here, "contoso")


def user(name: str, *groups: str) -> User:
    person = User.objects.create_user(name, password=PASSWORD)
    person.groups.set(Group.objects.filter(name__in=groups))
    return person


@pytest.fixture
def people(db) -> dict[str, User]:
    """One person of each group, by the group's name, and `nobody`, who is in none."""
    hashed = make_password(PASSWORD)
    persons = {name: User(username=name, password=hashed) for name in ("nobody", *ROLES)}
    User.objects.bulk_create(persons.values())
    membership = User.groups.through
    groups = Group.objects.filter(name__in=ROLES)
    membership.objects.bulk_create(membership(user=persons[group.name], group=group) for group in groups)
    return persons


@pytest.fixture
def as_role(people) -> Callable[[str], Client]:
    """A browser signed in as the person of that role; `stranger` is not signed in."""

    def sign_in(role: str, **options: bool) -> Client:
        client = Client(**options)
        if role != "stranger":
            client.force_login(people[role])
        return client

    return sign_in


def program_of(person: User, scope: str = "operate", **headers: str) -> Client:
    """A program with a token of this person."""
    text = tokens.make(person, "a script", scope, 30, timezone.now())[1]
    return Client(headers={"Authorization": f"Bearer {text}", **headers})


@pytest.fixture
def alive(db) -> None:
    """A worker that is heard of."""
    projection.record_heartbeat("host:1:aaaa", "pings", datetime.now(UTC) + timedelta(hours=1))


def health(path: str = "orders", state: str = "failed_over", version: int = 1, **changes: object) -> SharedHealth:
    known = {"path": path, "state": state, "since": NOW, "reason": "no answer", "origin": "organic", "version": version}
    return SharedHealth(**{**known, "held_by": None, "expires": None, "process": "host:1:aaaa", **changes})


@pytest.fixture(scope="session")
def local_namespaces() -> Iterator[dict[str, str]]:
    """The connection strings of two local namespaces, by the variable that holds them."""
    with namespaces() as strings:
        yield strings


@pytest.fixture
def reachable(pair, shared, local_namespaces, settings, tmp_path, monkeypatch) -> Iterator[Secondary]:
    """The pair, with two backlog queues of its own, on local namespaces that hold nothing yet."""
    for name, text in local_namespaces.items():
        monkeypatch.setenv(name, text)
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(PAIRS)
    pair.backlog_queue_count = 2
    pair.save()
    with Secondary.of(local_namespaces) as secondary:
        yield secondary
