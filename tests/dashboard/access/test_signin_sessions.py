"""Sessions end: idle, at their longest, and not because a page refreshes itself (docs/security.md)."""

import pytest
from django.test import Client

from dashboard.access import sessions
from dashboard.access.sessions import is_over


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1_800_000_000

        def time(self) -> float:
            return self.now

    ours = Clock()
    monkeypatch.setattr(sessions, "time", ours)
    return ours


@pytest.fixture
def person(pair, redis_here, as_role, clock) -> Client:
    return as_role("operator")


def test_a_session_that_nobody_uses_ends(person, clock, settings):
    clock.now += settings.SESSION_IDLE_MINUTES * 60 - 1
    assert person.get("/events/").status_code == 200
    clock.now += settings.SESSION_IDLE_MINUTES * 60 - 1
    assert person.get("/events/").status_code == 200
    clock.now += settings.SESSION_IDLE_MINUTES * 60
    assert person.get("/events/")["Location"].startswith("/login/")


def test_no_session_lives_longer_than_the_longest(person, clock, settings):
    for _ in range(settings.SESSION_HOURS - 1):
        clock.now += 3600
        assert person.get("/events/").status_code == 200
    clock.now += 3600
    assert person.get("/events/").status_code == 302


def test_a_page_that_refreshes_itself_keeps_no_session_alive_and_is_sent_to_the_login(person, clock, settings):
    for _ in range(8):
        clock.now += settings.SESSION_IDLE_MINUTES * 60 // 8
        answer = person.get("/events/", headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Refresh"]) == (204, "true")
    assert person.get("/events/").status_code == 302


def test_a_session_that_has_ended_opens_no_api_and_does_nothing(person, clock, settings):
    clock.now += settings.SESSION_IDLE_MINUTES * 60

    assert person.get("/api/v1/health").status_code == 401
    assert person.post("/pairs/contoso/actions/hold/", {"path": "orders"}).status_code == 302


def test_idleness_can_be_allowed_but_not_endlessness(settings):
    session = {"began_at": 0, "seen_at": 0}
    settings.SESSION_IDLE_MINUTES, settings.SESSION_HOURS = 0, 1

    assert not is_over(session, 3599)
    assert is_over(session, 3600)


def test_signing_in_changes_the_sessions_key(people, redis_here, client):
    client.get("/login/")
    client.session["x"] = 1
    client.session.save()
    before = client.cookies.get("sessionid")
    client.post("/login/", {"username": "operator", "password": "correct horse battery staple"})

    assert client.cookies["sessionid"].value != (before.value if before else "")
