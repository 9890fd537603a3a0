"""Groups of pairs from the provider: the setting, and what the claim makes of it."""

import pytest
from django.contrib.auth.models import Group

from dashboard.access.oidc.backend import NoAccess, groups_of, person_of
from dashboard.access.team_groups import problem_of, team_groups


@pytest.fixture
def provider(db, settings):
    settings.OIDC_ISSUER = "https://id.example.com"
    settings.OIDC_PAIR_GROUPS = ["orders", "payments=8d7f-uuid"]
    settings.AUTHENTICATION_BACKENDS = ["dashboard.access.oidc.backend.OidcBackend"]


def groups_with(*values: str) -> set[str]:
    return {group.name for group in person_of({"sub": "7", "groups": list(values)}).groups.all()}


def test_the_claim_makes_people_members_of_groups_of_pairs(provider):
    assert groups_with("viewer", "orders") == {"viewer", "orders"}
    assert groups_with("operator", "8d7f-uuid") == {"operator", "payments"}
    assert groups_with("operator") == {"operator"}


def test_groups_that_the_setting_does_not_name_stay_as_they_are(provider):
    person = person_of({"sub": "7", "groups": ["viewer"]})
    person.groups.add(Group.objects.create(name="by hand"))

    assert groups_with("viewer", "payments", "something else") == {"viewer", "by hand"}


def test_a_group_of_pairs_gives_no_access_by_itself(provider):
    with pytest.raises(NoAccess):
        person_of({"sub": "7", "groups": ["orders"]})
    assert not Group.objects.filter(name="orders").exists()


def test_who_loses_the_roles_loses_the_groups_too(provider):
    groups_with("viewer", "orders")

    with pytest.raises(NoAccess):
        person_of({"sub": "7", "groups": []})

    assert not Group.objects.get(name="orders").user_set.exists()


@pytest.mark.parametrize("claim", [None, 7, {"orders": True}, [["orders"]], "orderss"])
def test_another_claim_makes_nobody_a_member(claim):
    assert groups_of({"groups": claim}, "groups", team_groups(["orders"])) == []


def test_several_values_may_lead_to_one_group():
    assert team_groups(["a=1", "a=2", "b"]) == {"a": ["1", "2"], "b": ["b"]}


@pytest.mark.parametrize(
    "words", [["=x"], ["a="], ["viewer"], ["administrator=admins"], ["a\0"], ["a\udcff"], ["x" * 151]]
)
def test_a_setting_that_cannot_be_meant_is_refused_in_one_sentence(words):
    assert problem_of(words).startswith("OIDC_PAIR_GROUPS has ")
    assert problem_of(["orders", "payments=8d7f"]) == ""
