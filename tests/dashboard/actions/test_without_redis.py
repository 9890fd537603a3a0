"""Every action and every address while Redis is away or loading: one table each."""

import pytest
from redis.exceptions import BusyLoadingError

from dashboard.models import AuditEntry, FailoverEvent
from dashboard.site import redis
from tests.dashboard.access.test_access_walk import NAMES, OPERATORS_READ, PARTS, address
from tests.dashboard.access.test_access_walk import place as walked
from tests.dashboard.actions.test_every_face import (
    CASES,
    WITH_DRY_RUN,
    body_of,
    canary_queue,
    least,
    of_api,
    place,
    prepared,
    primary,
)
from tests.selection import nightly

pytestmark = pytest.mark.slow
__all__ = ["canary_queue", "place", "primary", "walked"]
AWAY = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize("name", [name for name in WITH_DRY_RUN if not name.endswith("dead_letters")])
def test_without_redis_an_action_changes_nothing_and_can_be_sent_again(place, name, settings):
    with prepared(place, CASES[name]):
        before, events = AuditEntry.objects.filter(verb=name).count(), FailoverEvent.objects.count()
        body, here, settings.REDIS_URL = body_of(place, CASES[name]), settings.REDIS_URL, AWAY
        answer = of_api(place, CASES[name], least(name, "api"), "once", body)
        settings.REDIS_URL = here
        if answer.status_code == 200:  # it needs the database alone
            return
        assert (answer.status_code, "Redis does not answer" in answer.json()["detail"]) == (503, True)
        assert AuditEntry.objects.filter(verb=name, outcome="failed").count() == 1
        assert FailoverEvent.objects.count() == events
        assert of_api(place, CASES[name], least(name, "api"), "once", body).json()["outcome"] == "done"
        assert AuditEntry.objects.filter(verb=name).count() == before + 2


def loading(*_args, **_options):
    raise BusyLoadingError("Redis is loading the dataset in memory")


@pytest.mark.parametrize("state", ["away", *nightly("loading")])
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
