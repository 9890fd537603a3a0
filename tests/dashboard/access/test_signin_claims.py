"""Claims of a provider, whatever they are: what opens a group, and what a person is called (docs/security.md)."""

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.access.oidc.backend import NoAccess, OidcBackend, groups_of, person_of, username_of
from dashboard.access.oidc.client import merged
from dashboard.access.rights import GROUPS

ISSUER = "https://login.example.com/tenant"
LETS_IN = {"viewer": ["readers"], "operator": ["ops", "Night Shift"], "administrator": []}
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How fast a busy machine draws examples is not the question."""
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (["ops"], ["operator"]),
        (["ops", "readers", "others"], ["viewer", "operator"]),
        ("ops,readers", ["viewer", "operator"]),
        ("Night Shift", ["operator"]),
        (["opsx", "OPS", ""], []),
        ({"ops": True}, []),
        (True, []),
        (None, []),
        ("", []),
    ],
)
def test_only_the_named_values_open_a_group(value, groups):
    assert groups_of({"groups": value}, "groups", LETS_IN) == groups


@patient
@given(value=json_values)
def test_whatever_the_claim_is_nobody_becomes_administrator_by_it(value):
    found = groups_of({"groups": value}, "groups", LETS_IN)

    assert set(found) <= set(GROUPS) - {"administrator"}


@patient
@given(claims=st.dictionaries(st.sampled_from(["sub", "email", "preferred_username", "groups"]), json_values))
def test_every_name_is_one_that_django_takes(claims):
    name = username_of(claims)

    assert 0 < len(name) <= 150
    User.username_validator(name)


@pytest.fixture
def here(db, settings, people):
    """A control plane with a provider."""
    settings.OIDC_ISSUER, settings.OIDC_LETS_IN = ISSUER, LETS_IN


@pytest.fixture
def reported(here):
    return {"sub": "1234", "preferred_username": "operator", "groups": ["ops"], "email": "shared@example.com"}


def come(reported) -> User:
    return person_of(merged({"sub": "1234"}, reported))


def test_somebody_new_gets_a_name_of_their_own_no_password_and_the_groups(reported, people):
    person = come(reported)

    assert person != people["operator"]
    assert person.username.startswith("operator-")
    assert (person.has_usable_password(), person.email) == (False, "")
    assert [group.name for group in person.groups.all()] == ["operator"]
    assert come(reported) == person


def test_groups_follow_the_claim_in_both_directions(reported):
    person = come(reported)
    for groups, expected in ((["readers"], ["viewer"]), (["ops"], ["operator"])):
        reported["groups"] = groups
        come(reported)
        assert [group.name for group in person.groups.all()] == expected
    reported["groups"] = []

    with pytest.raises(NoAccess):
        come(reported)
    assert not person.groups.exists()


def test_the_same_subject_of_another_provider_is_somebody_else(reported, settings):
    first = come(reported)
    settings.OIDC_ISSUER = "https://another.example.com"

    assert come(reported) != first


def test_an_inactive_person_stays_out(reported):
    person = come(reported)
    person.is_active = False
    person.save()

    assert OidcBackend().get_user(person.pk) is None


def test_a_password_is_none_of_the_providers_business(here):
    assert OidcBackend().authenticate(None, username="operator", password="x") is None
