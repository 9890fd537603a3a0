"""Claims of a provider, whatever they are: what opens a group, and what a person is called (docs/security.md)."""

import time
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from hypothesis import given
from hypothesis import strategies as st

from dashboard.access.oidc import discovery
from dashboard.access.oidc.backend import NoAccess, OidcBackend
from dashboard.access.oidc.claims import groups_of, username_of
from dashboard.access.oidc.discovery import Provider, ProviderError
from dashboard.access.rights import GROUPS
from dashboard.models import Identity

ISSUER = "https://login.example.com/tenant"
LETS_IN = {"viewer": ["readers"], "operator": ["ops", "Night Shift"], "administrator": []}
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "userinfo_endpoint": f"{ISSUER}/userinfo",
    "jwks_uri": f"{ISSUER}/keys",
}
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


@given(value=json_values)
def test_whatever_the_claim_is_nobody_becomes_administrator_by_it(value):
    found = groups_of({"groups": value}, "groups", LETS_IN)

    assert set(found) <= set(GROUPS) - {"administrator"}


@given(claims=st.dictionaries(st.sampled_from(["sub", "email", "preferred_username", "groups"]), json_values))
def test_every_name_is_one_that_django_takes(claims):
    name = username_of(claims, "preferred_username")

    assert 0 < len(name) <= 150
    User.username_validator(name)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://login.example.com/another"},
        {"token_endpoint": ""},
        {"jwks_uri": "http://login.example.com/keys"},
        {"userinfo_endpoint": 5},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "http://elsewhere.example.com/"},
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(change):
    discovery.read(DOCUMENT, ISSUER)

    with pytest.raises(ProviderError):
        discovery.read({**DOCUMENT, **change}, ISSUER)


@given(document=json_values)
def test_whatever_a_provider_answers_is_a_provider_or_a_sentence(document):
    with pytest.raises(ProviderError):
        discovery.read(document, ISSUER)


# -- the backend ------------------------------------------------------------------------------------------------------

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def backend(db, settings, monkeypatch, people):
    settings.OIDC_ISSUER, settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = ISSUER, "us", "s" * 32
    settings.OIDC_LETS_IN = LETS_IN
    known = Provider(ISSUER, *(f"{ISSUER}/{name}" for name in ("authorize", "token", "userinfo", "keys", "out")))
    monkeypatch.setattr("dashboard.access.oidc.backend.provider", lambda: known)
    made = OidcBackend()
    made.told = {"sub": "1234", "preferred_username": "operator", "groups": ["ops"]}
    monkeypatch.setattr(made, "get_userinfo", lambda *_: made.told)
    return made


def come(backend) -> User:
    return backend.get_or_create_user("access", "id", {"sub": "1234"})


def test_somebody_new_gets_a_name_of_their_own_no_password_and_the_groups(backend, people):
    person = come(backend)

    assert person != people["operator"]
    assert person.username.startswith("operator-")
    assert not person.has_usable_password()
    assert [group.name for group in person.groups.all()] == ["operator"]
    assert come(backend) == person


def test_groups_follow_the_claim_in_both_directions(backend):
    person = come(backend)
    for groups, expected in ((["readers"], ["viewer"]), (["ops"], ["operator"])):
        backend.told["groups"] = groups
        come(backend)
        assert [group.name for group in person.groups.all()] == expected
    backend.told["groups"] = []

    with pytest.raises(NoAccess):
        come(backend)
    assert not person.groups.exists()


def test_who_is_let_in_by_no_group_leaves_no_trace(backend):
    backend.told["groups"] = ["guests"]

    with pytest.raises(NoAccess):
        come(backend)
    assert not Identity.objects.exists()


def test_the_same_subject_of_another_provider_is_somebody_else(backend, settings):
    first = come(backend)
    settings.OIDC_ISSUER = "https://another.example.com"

    assert come(backend) != first


def test_a_subject_that_changes_between_token_and_answer_is_refused(backend):
    backend.told["sub"] = "5678"

    with pytest.raises(SuspiciousOperation):
        come(backend)


def test_an_inactive_person_stays_out(backend):
    person = come(backend)
    person.is_active = False
    person.save()

    assert backend.get_user(person.pk) is None


def token(**changes) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "us", "sub": "1234", "iat": now, "exp": now + 60}
    changed = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return jwt.encode(changed, KEY, "RS256")


@pytest.mark.parametrize(
    "forged",
    [
        token(aud="somebody else"),
        token(aud=None),
        token(iss="https://evil.example.com"),
        token(exp=int(time.time()) - 60),
        token(exp=None),
        token(sub=None),
        jwt.encode({"iss": ISSUER, "aud": "us", "sub": "1", "iat": 0, "exp": 2**33}, "s" * 32, "HS256"),
        jwt.encode({"iss": ISSUER, "aud": "us", "sub": "1", "iat": 0, "exp": 2**33}, None, "none"),
        token()[:-8] + "AAAAAAAA",
        "no token",
    ],
    ids=[
        "audience",
        "no audience",
        "issuer",
        "over",
        "no end",
        "no subject",
        "by secret",
        "unsigned",
        "altered",
        "none",
    ],
)
def test_a_token_that_is_not_for_us_from_our_provider_and_of_now_is_refused(backend, forged):
    assert backend.get_payload_data(token(), KEY.public_key())["sub"] == "1234"

    with pytest.raises(SuspiciousOperation):
        backend.get_payload_data(forged, KEY.public_key())


def test_a_password_is_none_of_the_providers_business(backend):
    assert backend.authenticate(SimpleNamespace(GET={}), username="operator", password="x") is None
