"""Every action that is sent twice, and every action and address while Redis is away or loading: one table each."""

import json
import uuid

import pytest
from django.test import Client
from redis.exceptions import BusyLoadingError

from dashboard.models import AuditEntry, FailoverEvent
from dashboard.site import redis
from tests.dashboard.access.test_access_walk import NAMES, OPERATORS_READ, PARTS, address
from tests.dashboard.access.test_access_walk import place as walked
from tests.dashboard.actions.test_every_face import (
    CASES,
    OF_PAIRS,
    REASON,
    SCOPES,
    _token,
    body_of,
    canary_queue,
    least,
    place,
    prepared,
    primary,
    registry,
)

pytestmark = pytest.mark.slow
__all__ = ["canary_queue", "place", "primary", "walked"]
DECLARED = registry.actions()
OF_A_PAIR = [name for name in CASES if isinstance(DECLARED[name], OF_PAIRS)]
WITH_A_KEY = [name for name in CASES if not name.endswith("_token")]
ONCE = uuid.uuid4()
AWAY = "redis://127.0.0.1:1/0"


def sent(place, name: str, face: str, body=None):
    case, client = CASES[name], Client()
    if face == "page":
        client.force_login(place.people[least(name, face)])
        return client.post(case.page[0], {**case.page[1], "reason": REASON, "request_id": str(ONCE)})
    role = least(name, face)
    headers = {"Authorization": f"Bearer {_token(place.people[role], SCOPES[role])[1]}", "Idempotency-Key": str(ONCE)}
    return Client(headers=headers).post(
        f"/api/v1{case.api[0]}", json.dumps(body or body_of(place, case)), "application/json"
    )


@pytest.mark.parametrize(
    ("name", "face"), [*((name, "page") for name in OF_A_PAIR), *((name, "api") for name in WITH_A_KEY)]
)
def test_a_request_that_is_sent_twice_is_one_action(place, name, face):
    with prepared(place, CASES[name]):
        before = AuditEntry.objects.filter(verb=name).count()
        body = body_of(place, CASES[name])
        first, events = sent(place, name, face, body), FailoverEvent.objects.count()
        again = sent(place, name, face, body)
        assert {first.status_code, again.status_code} <= {200, 302}
        assert face == "page" or again.json() == {**first.json(), "is_repeated": True}
        assert AuditEntry.objects.filter(verb=name).count() == before + 1
        assert FailoverEvent.objects.count() == events


@pytest.mark.parametrize("name", [name for name in OF_A_PAIR if not name.endswith("dead_letters")])
def test_without_redis_an_action_changes_nothing_and_can_be_sent_again(place, name, settings):
    with prepared(place, CASES[name]):
        before, events = AuditEntry.objects.filter(verb=name).count(), FailoverEvent.objects.count()
        body, here, settings.REDIS_URL = body_of(place, CASES[name]), settings.REDIS_URL, AWAY
        answer = sent(place, name, "api", body)
        settings.REDIS_URL = here
        if answer.status_code == 200:  # it needs the database alone
            return
        assert (answer.status_code, "Redis does not answer" in answer.json()["detail"]) == (503, True)
        assert AuditEntry.objects.filter(verb=name, outcome="failed").count() == 1
        assert FailoverEvent.objects.count() == events
        assert sent(place, name, "api", body).json()["outcome"] == "done"
        assert AuditEntry.objects.filter(verb=name).count() == before + 2


def loading(*_args, **_options):
    raise BusyLoadingError("Redis is loading the dataset in memory")


@pytest.mark.parametrize("state", ["away", "loading"])
def test_every_page_is_shown_without_redis(walked, as_role, settings, monkeypatch, state):
    if state == "away":
        settings.REDIS_URL = AWAY
    if state == "loading":
        monkeypatch.setattr(redis.connection().__class__, "execute_command", loading)
    client, failed = as_role("administrator"), {}
    for name in sorted(set(NAMES) - OPERATORS_READ - {"live"}):
        answer = client.get(address(name), headers={"HX-Request": "true"} if name in PARTS else {})
        if answer.status_code >= 500:
            failed[name] = answer.status_code
    assert failed == {}
