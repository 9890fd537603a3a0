"""A dry run says exactly what the action then does, and writes nothing: whatever Redis and the database know.

Hypothesis changes both at random: forgotten by Redis, older or newer there, held, expired, unknown.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection, transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dashboard.actions import entities, syphons
from dashboard.actions.world import read_entities
from dashboard.models import ApiToken, AuditEntry, EntityHealth, FailoverEvent, SyphonPace, SyphonPause
from tests.dashboard.conftest import NOW, health, program_of
from tests.selection import depth

pytestmark = pytest.mark.slow

PATHS = ["orders", "payments", "refunds"]
QUEUE = "contoso/x-servicebus-transfer/0"
HOURS = {"past": NOW - timedelta(hours=1), "far": NOW + timedelta(days=36_500), "never": None}
few = settings(
    max_examples=depth(125),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

facts = st.fixed_dictionaries(
    {
        "state": st.sampled_from(["healthy", "failing", "failed_over"]),
        "held_by": st.sampled_from([None, "operator", "grace"]),
        "expires": st.sampled_from(list(HOURS.values())),
        "origin": st.sampled_from(["organic", "forced"]),
        "version": st.integers(1, 4),
    }
)
known = st.tuples(st.none() | facts, st.none() | facts)
"""What the database knows of an entity, and what Redis does."""
HELD = {"state": "failed_over", "held_by": "grace", "expires": None, "origin": "forced", "version": 3}


def _plausible(fact):
    """Only a failover is held, and only a hold expires."""
    held_by = fact["held_by"] if fact["state"] == "failed_over" else None
    return {**fact, "held_by": held_by, "expires": fact["expires"] if held_by else None}


@pytest.fixture
def place(pair, shared, people, settings):
    """A pair with three entities and a queue, and a program that may operate."""
    settings.API_REQUESTS_PER_MINUTE = 1_000_000
    EntityHealth.objects.create(pair=pair, path="refunds")
    pair.backlog_queues.create(path=QUEUE, index=0, seen_at=NOW)
    return pair, shared, program_of(people["operator"])


@contextmanager
def afterwards_as_before(shared) -> Iterator[None]:
    """Whatever happens inside leaves no trace for the next example."""
    shared.redis.flushall()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def everything(shared):
    """All that is stored: the fleet's keys in Redis, and every row of the database, when a token was used left out."""
    keys = {key: _content(shared.redis, key) for key in shared.redis.scan_iter(match="pairing:*")}
    return keys, {name: _rows(statement) for name, statement in _TABLES.items()}


_TABLES = {
    model.__name__: f'SELECT * FROM "{model._meta.db_table}" ORDER BY "{model._meta.pk.column}"'
    for model in apps.get_app_config("dashboard").get_models()
    if model is not ApiToken
}


def _rows(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def _content(client, key):
    match client.type(key):
        case "hash":
            return client.hgetall(key)
        case "zset":
            return client.zrange(key, 0, -1, withscores=True)
        case "stream":
            return client.xrange(key)
        case "set":
            return client.smembers(key)
        case _:
            return client.get(key)


def post(client, path, body):
    return client.post(f"/api/v1/pairs/contoso/{path}", json.dumps({"reason": "x", **body}), "application/json")


def write(pair, shared, path, stored, there):
    if stored:
        EntityHealth.objects.filter(pair=pair, path=path).update(**_plausible(stored), since=NOW)
    if there:
        shared.redis.hset(shared.channel, path, health(path, **_plausible(there)).to_json())


def shown(shared, pair, paths):
    """What is true of each, as far as anybody notices."""
    found = read_entities(shared, pair, paths)
    return {
        path: (one.health.state, one.health.held_by, one.health.expires) if one.health else None
        for path, one in found.items()
    }


def act_on(client, action, paths, minutes, *, dry_run):
    length = {"minutes": minutes} if action.asks_expiry else {}
    return post(client, action.operation.path.rpartition("/")[2], {"paths": paths, "dry_run": dry_run, **length})


@pytest.mark.parametrize("action", entities.ACTIONS, ids=lambda action: action.name)
@few
@given(
    facts_by_path=st.fixed_dictionaries(dict.fromkeys(PATHS, known)),
    paths=st.sampled_from([["*"], ["orders"], ["orders", "payments"], PATHS]),
    minutes=st.sampled_from([None, 15]),
)
@example(
    facts_by_path={"orders": (HELD, None), "payments": (None, None), "refunds": (None, HELD)}, paths=["*"], minutes=None
)
@example(facts_by_path=dict.fromkeys(PATHS, (HELD, {**HELD, "version": 2})), paths=["orders"], minutes=None)
def test_of_entities(place, action, facts_by_path, paths, minutes):
    pair, shared, client = place
    with afterwards_as_before(shared):
        for path, (stored, there) in facts_by_path.items():
            write(pair, shared, path, stored, there)
        before, was = everything(shared), shown(shared, pair, PATHS)

        said = act_on(client, action, paths, minutes, dry_run=True).json()
        assert everything(shared) == before

        answer = act_on(client, action, paths, minutes, dry_run=False)
        changed, meant = said["would_change"], PATHS if paths == ["*"] else paths
        assert sorted(changed + said["would_not_change"]) == sorted(meant)
        assert sorted(FailoverEvent.objects.values_list("entity", flat=True)) == sorted(changed)
        assert set(FailoverEvent.objects.values_list("kind", flat=True)) <= {action.event}
        if said["hindrance"]:
            assert (answer.status_code, answer.json()["detail"], changed) == (409, said["hindrance"], [])
        else:
            assert (answer.status_code, answer.json()["outcome"]) == (200, "done" if changed else "unchanged")
        now = shown(shared, pair, PATHS)
        assert {path: now[path] for path in PATHS if path not in changed} == {
            path: was[path] for path in PATHS if path not in changed
        }
        if minutes is None:
            assert act_on(client, action, paths, None, dry_run=True).json()["would_change"] == []


rates = st.sampled_from([None, 5.0, 20.0])


@pytest.mark.parametrize("action", syphons.ACTIONS, ids=lambda action: action.name)
@few
@given(
    target=st.sampled_from(["*", "orders", QUEUE]),
    is_stored=st.booleans(),
    is_shared=st.booleans(),
    stored_rate=rates,
    shared_rate=rates,
    rate=rates,
)
def test_of_syphons(place, action, target, is_stored, is_shared, stored_rate, shared_rate, rate):
    pair, shared, client = place
    more = {"messages_per_s": rate} if action.asks_rate else {}
    body, path = {"target": target, **more}, action.operation.path.rpartition("/")[2]
    with afterwards_as_before(shared):
        _write_syphon(pair, shared, target, is_stored, is_shared, stored_rate, shared_rate)
        before = everything(shared)

        said = post(client, path, {**body, "dry_run": True}).json()
        assert everything(shared) == before

        answer = post(client, path, body).json()
        assert said["would_change"] + said["would_not_change"] == [target]
        assert answer["outcome"] == ("done" if said["would_change"] else "unchanged")
        assert FailoverEvent.objects.count() == bool(action.event and said["would_change"])
        if not said["would_change"]:
            rows = everything(shared)[1]
            assert [rows[name] for name in ("SyphonPause", "SyphonPace")] == [
                before[1][name] for name in ("SyphonPause", "SyphonPace")
            ]
        assert post(client, path, {**body, "dry_run": True}).json()["would_change"] == []
        assert (target in shared.paused()) == _is_paused_after(action, is_stored, is_shared)
        assert AuditEntry.objects.filter(verb=action.name).count() == 1


def _is_paused_after(action, is_stored, is_shared):
    if action is syphons.PACE_SYPHON:
        return bool(is_shared)
    return action is syphons.PAUSE_SYPHON


def _write_syphon(pair, shared, target, is_stored, is_shared, stored_rate, shared_rate):
    queue = None if target == "*" else target
    if is_stored:
        SyphonPause.objects.create(pair=pair, queue=target, by="grace", reason="slow", at=NOW)
    if is_shared:
        shared.pause_syphon(queue, operator="grace", reason="slow")
    if stored_rate:
        SyphonPace.objects.create(pair=pair, target=target, rate=stored_rate, by="grace", at=NOW)
    if shared_rate:
        shared.pace_syphon(queue, shared_rate, "grace", "slow")
