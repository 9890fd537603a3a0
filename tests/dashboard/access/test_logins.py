"""Signing in and out, and what happens to those who guess."""

import pytest
from django.test import Client

from dashboard.access.logins import MOST_OF_A_NAME, MOST_OF_AN_ADDRESS, PAUSE_S, Memory
from tests.dashboard.conftest import PASSWORD

LOCKED = "Too many wrong passwords"


def sign_in(name="operator", password=PASSWORD, address="203.0.113.9"):
    return Client().post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def guess(times, **who):
    for _ in range(times):
        answer = sign_in(password="wrong", **who)
    return answer


@pytest.fixture(params=["redis", "redis away"])
def either(request, people):
    """With Redis, and without."""
    request.getfixturevalue("redis_here" if request.param == "redis" else "redis_away")
    return request.param


def test_a_wrong_password_is_said_without_revealing_which_part_was_wrong(redis_here, people):
    known, unknown = guess(1).text, guess(1, name="unheard-of").text

    assert "correct username and password" in known
    assert "correct username and password" in unknown


def test_too_many_wrong_passwords_close_the_name_for_that_address(either, people):
    address = "203.0.113.1" if either == "redis" else "203.0.113.2"
    assert LOCKED not in guess(MOST_OF_A_NAME, address=address).text

    assert LOCKED in sign_in(address=address).text
    assert sign_in(address="198.51.100.7").status_code == 302
    assert sign_in(name="viewer", address=address).status_code == 302


def test_only_wrong_passwords_keep_it_closed(redis_here, people):
    """Whoever tries again meanwhile, or is let in, does not begin the pause anew."""

    guess(MOST_OF_A_NAME)
    closed = redis_here.keys("dashboard:logins:*")
    for key in closed:
        redis_here.expire(key, 100)

    assert LOCKED in sign_in().text
    assert sign_in(name="viewer").status_code == 302
    assert all(redis_here.ttl(key) <= 100 for key in closed)
    guess(1, name="viewer")
    assert any(redis_here.ttl(key) > 100 for key in closed)


def test_too_many_names_close_the_address(redis_here, people):
    for number in range(MOST_OF_AN_ADDRESS):
        guess(1, name=f"guess-{number}")

    assert LOCKED in sign_in().text


def test_a_name_opens_again_after_the_pause():
    now = [0.0]
    memory = Memory(lambda: now[0])
    memory.add("key")
    assert memory.read("key") == 1

    now[0] += PAUSE_S

    assert memory.read("key") == 0


def test_a_button_pressed_after_the_session_ended_leads_back_to_its_page_and_says_that_nothing_was_done(
    redis_here, pair, as_role
):
    stranger = as_role("stranger")
    reported = {"Referer": "http://testserver/pairs/contoso/actions/fail_over/?path=orders"}

    answer = stranger.post("/pairs/contoso/actions/fail_over/", {"path": "orders"}, headers=reported)

    assert answer["Location"] == "/login/?next=/pairs/contoso/actions/fail_over/%3Fpath%3Dorders"
    assert "Nothing was done" in stranger.get(answer["Location"]).text


@pytest.mark.parametrize("referrer", ["", "https://evil.example/alerts/", "//evil.example/", "javascript:alert(1)"])
def test_a_button_pressed_by_nobody_knows_whom_leads_to_the_overview(redis_here, pair, as_role, referrer):
    answer = as_role("stranger").post("/alerts/acknowledge/", headers={"Referer": referrer})

    assert answer["Location"] == "/login/?next=/"


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_part_of_a_page_asked_for_after_the_session_ended_loads_the_page_anew(redis_here, pair, as_role, method):
    answer = getattr(as_role("stranger"), method)("/alerts/acknowledge/", headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Refresh"]) == (204, "true")


def test_who_signs_out_is_out(redis_here, as_role):
    client = as_role("operator")

    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/")["Location"].startswith("/login/")
