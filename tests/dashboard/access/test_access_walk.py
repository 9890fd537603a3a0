"""A walk over every address of the control plane, as everybody: whoever adds one says here who may do what."""

from collections.abc import Iterable

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from dashboard.drills.course import Course, Step
from dashboard.fleet.state import projection
from dashboard.models import Drill
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import event
from tests.selection import nightly

QUEUE = "contoso/x-servicebus-transfer/0"
SENT = {"path": "orders", "reason": "x", "queue": QUEUE, "verb": "resubmit", "which": "all"}
NUMBERED = {"alert": 1, "rule": 1, "drill": 1, "run": 1}
FILLED = NUMBERED | {"pair": "contoso", "path": "orders", "event_id": "a" * 32}
FILLED |= {"prefix": "0123456789", "channel": "mail"}
OPEN = {"login", "logout", "healthz", "readyz", "metrics"}
OPERATORS_READ = {"backlog-download", "dead-letters", "pair-demo", "pair-action", "drill-start"}
OPERATORS_READ |= {"alert-rule", "alert-rule-new"}
"""Addresses whose page asks for an operator, or an administrator; all others are for everybody in a group."""
VIEWERS_POST: set[str] = {"costs-forecast", "costs-before-failover", "token-make", "token-revoke"}
"""What viewers may send: questions, and what concerns tokens of their own."""
PARTS = {"costs-run", "costs-before-failover", "backlog-jobs"}
"""Addresses of parts of pages, which lead to their pages if they are opened directly."""
VERBS = ("fail_over", "hold", "release", "mark_healthy", "pause_syphon", "resume_syphon", "pace_syphon")
OF_QUEUES = (
    "drain_queue",
    "stop_drain",
    "quarantine_queue",
    "reopen_queue",
    "delete_queue",
    "take_back",
    "repair_queue",
)


def patterns():
    """All but Django's admin and the API, whose walks are in test_pair_groups_elsewhere.py and site/test_admin.py."""
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
    drill = {"by": "ada", "at": NOW, "expires_at": NOW, "course": Course(Step.PREPARING, 9).as_json()}
    Drill.objects.create(pk=1, pair=pair, path="orders", request_id="1", **drill)
    return pair


def answers(client: Client, names: Iterable[str], *methods: str) -> dict[tuple[str, str], HttpResponse]:
    """What is answered at each of these addresses, by address and method."""
    return {(name, method): getattr(client, method)(address(name), SENT) for name in names for method in methods}


def test_strangers_are_sent_to_the_login_everywhere(place, as_role):
    reached = answers(as_role("stranger"), NAMES, "get", "post")

    led = {which: answer.get("Location", "").startswith("/login/") for which, answer in reached.items()}
    assert [which for which, answer in reached.items() if answer.status_code != 302 or not led[which]] == []


def test_somebody_in_no_group_is_refused_everywhere(place, as_role):
    reached = answers(as_role("nobody"), NAMES, "get", "post")

    assert {which: answer.status_code for which, answer in reached.items() if answer.status_code != 403} == {}
    assert "in no group yet" in reached["overview", "get"].text


def test_machines_and_strangers_reach_what_is_open(place, as_role):
    open_to_all = ("/healthz", "/readyz", "/metrics", "/login/")
    assert {as_role("stranger").get(address).status_code for address in open_to_all} == {200}


@pytest.mark.parametrize("turn", [0, *nightly(1, 2, 3)])
def test_members_may_look_everywhere(place, as_role, turn):
    """Every address as somebody; in the four turns of a night as everybody."""
    members = [as_role(role) for role in ("viewer", "operator", "administrator", "superuser")]
    refused = {}
    for number, name in enumerate(sorted(set(NAMES) - OPERATORS_READ - {"live"}), start=turn):
        headers = {"HX-Request": "true"} if name in PARTS else {}
        answer = members[number % len(members)].get(address(name), headers=headers)
        if answer.status_code in (302, 403, 500):
            refused[name, number % len(members)] = answer.status_code

    assert refused == {}


def test_viewers_change_nothing_anywhere(place, as_role):
    reached = answers(as_role("viewer"), sorted(set(NAMES) - VIEWERS_POST), "post")

    changed = {which: code for which, answer in reached.items() if (code := answer.status_code) not in (403, 405, 501)}
    assert changed == {}


def test_viewers_cannot_even_ask_for_what_operators_do_and_read_which_group_it_needs(place, as_role):
    viewer = as_role("viewer")
    of_pages = OPERATORS_READ - {"pair-action", "pair-demo"}  # the one has many, the other takes no GET
    asked = [*(address(name) for name in of_pages), *(address("pair-action", verb) for verb in VERBS + OF_QUEUES)]

    for where in asked:
        answer = viewer.get(where, SENT | {"path": QUEUE if any(verb in where for verb in OF_QUEUES) else "orders"})
        assert (answer.status_code, "This needs the group" in answer.text) == (403, True), where


@pytest.mark.sampled
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("role", ["operator", "administrator", "superuser"])
def test_operators_are_asked_before_anything_is_done(place, as_role, verb, role):
    path = "*" if verb.endswith("syphon") else "orders"

    answer = as_role(role).get(address("pair-action", verb), {"path": path})

    assert answer.status_code == 200
    assert 'name="request_id"' in answer.text
