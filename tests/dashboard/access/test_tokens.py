"""Tokens: no more than their scope, no more than their owner, and nothing after their end (docs/api.md)."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from dashboard.access import tokens
from dashboard.access.audited import ActionError
from dashboard.access.rights import Right, limit, may
from dashboard.access.tokens import RIGHTS
from dashboard.models import ApiToken
from tests.dashboard.conftest import NOW


@pytest.fixture
def made(people):
    def make(role="operator", scope="operate", days=30) -> tuple[ApiToken, str]:
        return tokens.make(people[role], "nightly export", scope, days, NOW)

    return make


def test_a_token_is_found_by_its_text_and_by_no_other(made):
    row, text = made()

    assert tokens.find(text, NOW) == row
    for wrong in (
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        text[:-1],
        text.upper(),
        row.prefix,
        "",
        "\0",
        "pns__",
    ):
        assert tokens.find(wrong, NOW) is None


def test_it_ends_when_it_expires_is_revoked_or_its_owner_leaves(made, people):
    row, text = made(days=1)
    assert tokens.find(text, NOW + timedelta(days=1)) is None

    people["operator"].is_active = False
    people["operator"].save()
    assert tokens.find(text, NOW) is None
    people["operator"].is_active = True
    people["operator"].save()

    assert tokens.revoke(row, people["operator"], NOW).outcome == "done"
    assert tokens.revoke(row, people["operator"], NOW).outcome == "unchanged"
    assert tokens.find(text, NOW) is None


@pytest.mark.parametrize("days", [0, -1, 366])
def test_none_lives_for_ever_or_longer_than_a_year(made, days):
    with pytest.raises(ActionError, match="365 days"):
        made(days=days)


@pytest.mark.parametrize(
    ("role", "scope", "rights"),
    [
        ("administrator", "read", {Right.VIEW}),
        ("administrator", "operate", {Right.VIEW, Right.OPERATE}),
        ("administrator", "administer", set(Right)),
    ],
)
def test_a_token_gives_its_scope_and_no_more(made, people, role, scope, rights):
    row, _ = made(role, scope)
    person = limit(User.objects.get(pk=row.owner_id), RIGHTS[row.scope])

    assert {right for right in Right if may(person, right)} == rights


def test_a_token_gives_less_as_soon_as_its_owner_may_less(made, people):
    row, _ = made("administrator", "administer")
    people["administrator"].groups.clear()

    person = limit(User.objects.get(pk=row.owner_id), RIGHTS[row.scope])
    assert not any(may(person, right) for right in Right)


def test_its_use_is_noted_to_the_minute(made):
    row, text = made()

    for seconds in (0, 30, 90):
        tokens.find(text, NOW + timedelta(seconds=seconds), "203.0.113.9")
        row.refresh_from_db()
        assert row.used_at == NOW + timedelta(seconds=90 if seconds == 90 else 0)
    assert row.used_from == "203.0.113.9"


def test_a_person_has_a_bounded_number_of_usable_ones(made, people, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_OF_A_PERSON", 1)
    row, _ = made()

    with pytest.raises(ActionError, match="Revoke"):
        made()
    tokens.revoke(row, people["operator"], NOW)
    assert made()
