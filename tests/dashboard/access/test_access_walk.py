"""A walk over every address of the control plane, as everybody: whoever adds one says here who may do what."""

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, get_resolver, reverse

from dashboard.drills.plan import Plan, Step
from dashboard.fleet import projection
from dashboard.models import Drill
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import event

QUEUE = "contoso/x-servicebus-transfer/0"
SENT = {"path": "orders", "reason": "x", "queue": QUEUE, "verb": "resubmit", "which": "all"}
FILLED = {
    "pair": "contoso",
    "path": "orders",
    "event_id": "a" * 32,
    "prefix": "0123456789",
    "alert": 1,
    "rule": 1,
    "channel": "mail",
    "drill": 1,
}
OPEN = {"login", "logout", "healthz", "readyz", "metrics"}
OPERATORS_READ = {
    "backlog-download",
    "dead-letters",
    "pair-demo",
    "pair-action",
    "alert-rule",
    "alert-rule-new",
    "drill-start",
}
"""Addresses whose page asks for an operator, or an administrator; all others are for everybody in a group."""
VIEWERS_POST: set[str] = {"costs-forecast", "costs-before-failover", "token-make", "token-revoke"}
"""What viewers may send: questions, and what concerns tokens of their own."""
PARTS = {"costs-run", "costs-before-failover", "backlog-jobs"}
"""Addresses of parts of pages, which lead to their pages if they are opened directly."""
VERBS = ("fail_over", "hold", "release", "mark_healthy", "pause_syphon", "resume_syphon", "pace_syphon")


def patterns():
    """All but Django's admin and the API, whose tests are in test_access.py and test_api.py."""
    return [one for one in get_resolver().url_patterns if isinstance(one, URLPattern) and one.name]


NAMES = sorted({pattern.name for pattern in patterns()} - OPEN)


def address(name: str, verb: str = "hold") -> str:
    wanted = next(pattern for pattern in patterns() if pattern.name == name).pattern.converters
    return reverse(name, kwargs={key: {**FILLED, "verb": verb}[key] for key in wanted})


@pytest.fixture
def people(people):
    """Beside the roles a superuser, who is in none of their groups."""
    return people | {"superuser": User.objects.create_superuser("root")}


@pytest.fixture
def place(pair, redis_here, alive):
    projection.record_events([event()])
    pair.backlog_queues.create(path=QUEUE, index=0, seen_at=NOW)
    pair.readinesses.create(entity="orders", score=50, checked_at=NOW)
    drill = {"by": "ada", "at": NOW, "expires_at": NOW, "course": Plan(Step.PREPARING, NOW, 9).as_json()}
    Drill.objects.create(pk=1, pair=pair, path="orders", request_id="1", **drill)
    return pair


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_strangers_are_sent_to_the_login_everywhere(place, as_role, name, method):
    answer = getattr(as_role("stranger"), method)(address(name))

    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/")


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_somebody_in_no_group_is_refused_everywhere(place, as_role, name, method):
    assert getattr(as_role("nobody"), method)(address(name)).status_code == 403


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(set(NAMES) - OPERATORS_READ - {"live"}))
@pytest.mark.parametrize("role", ["viewer", "operator", "administrator", "superuser"])
def test_members_may_look_everywhere(place, as_role, name, role):
    headers = {"HX-Request": "true"} if name in PARTS else {}
    assert as_role(role).get(address(name), headers=headers).status_code not in (302, 403, 500)


@pytest.mark.parametrize("name", sorted(set(NAMES) - VIEWERS_POST))
def test_viewers_change_nothing_anywhere(place, as_role, name):
    assert as_role("viewer").post(address(name), SENT).status_code in (403, 405, 501)


@pytest.mark.parametrize("verb", VERBS)
def test_viewers_can_neither_ask_for_nor_do_any_verb(place, as_role, verb):
    for method in ("get", "post"):
        assert getattr(as_role("viewer"), method)(address("pair-action", verb), {"path": "orders"}).status_code == 403


@pytest.mark.sampled
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("role", ["operator", "administrator", "superuser"])
def test_operators_are_asked_before_anything_is_done(place, as_role, verb, role):
    path = "*" if verb.endswith("syphon") else "orders"

    answer = as_role(role).get(address("pair-action", verb), {"path": path})

    assert answer.status_code == 200
    assert 'name="request_id"' in answer.text
