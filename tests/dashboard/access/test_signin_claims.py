"""Claims of a provider, whatever they are: what opens a group, and what a person is called (docs/security.md)."""

import base64
import hmac
import time

import pytest
from authlib.oidc.core import CodeIDToken
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from dashboard.access.oidc import discovery
from dashboard.access.oidc.backend import NoAccess, OidcBackend, person_of
from dashboard.access.oidc.claims import groups_of, username_of
from dashboard.access.oidc.client import LEEWAY_S, client, merged, trusted
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


@patient
@given(document=json_values)
def test_whatever_a_provider_answers_is_a_provider_or_a_sentence(document):
    with pytest.raises(ProviderError):
        discovery.read(document, ISSUER)


# -- the backend ------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(db, settings, monkeypatch, people):
    """A control plane whose provider is known already."""
    settings.OIDC_ISSUER, settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = ISSUER, "us", "s" * 32
    settings.OIDC_LETS_IN = LETS_IN
    known = Provider(ISSUER, *(f"{ISSUER}/{name}" for name in ("authorize", "token", "userinfo", "keys", "out")))
    monkeypatch.setattr("dashboard.access.oidc.client.provider", lambda: known)


@pytest.fixture
def reported(here):
    return {"sub": "1234", "preferred_username": "operator", "groups": ["ops"]}


def come(reported) -> User:
    return person_of(merged({"sub": "1234"}, reported))


def test_somebody_new_gets_a_name_of_their_own_no_password_and_the_groups(reported, people):
    person = come(reported)

    assert person != people["operator"]
    assert person.username.startswith("operator-")
    assert not person.has_usable_password()
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


def test_who_is_let_in_by_no_group_leaves_no_trace(reported):
    reported["groups"] = ["guests"]

    with pytest.raises(NoAccess):
        come(reported)
    assert not Identity.objects.exists()


def test_the_same_subject_of_another_provider_is_somebody_else(reported, settings):
    first = come(reported)
    settings.OIDC_ISSUER = "https://another.example.com"

    assert come(reported) != first


def test_a_subject_that_changes_between_token_and_answer_is_refused(reported):
    reported["sub"] = "5678"

    with pytest.raises(SuspiciousOperation):
        come(reported)


def test_an_inactive_person_stays_out(reported):
    person = come(reported)
    person.is_active = False
    person.save()

    assert OidcBackend().get_user(person.pk) is None


def test_a_password_is_none_of_the_providers_business(here):
    assert OidcBackend().authenticate(None, username="operator", password="x") is None


# -- the ID token -----------------------------------------------------------------------------------------------------

KEY, ANOTHER_KEY = (RSAKey.generate_key(2048, {"kid": "first"}, private=True) for _ in range(2))
NONCE = "the nonce of this sign-in"
NONE, SECRETLY = b'{"alg":"none"}', b'{"alg":"HS256","kid":"first"}'


def token(*, key=KEY, algorithm="RS256", **changes) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "us", "sub": "1234", "iat": now, "exp": now + 60, "nonce": NONCE}
    changed = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    header = {"alg": algorithm, "kid": "first"}
    return jwt.encode(header, changed, key, algorithms=[algorithm])


def read(text: str, keys=None) -> dict:
    ours = client()
    ours.server_metadata["jwks"] = {"keys": keys or [KEY.as_dict(private=False)]}
    return ours.parse_id_token({"id_token": text}, NONCE, trusted(), CodeIDToken, LEEWAY_S)


def unsigned(text: str) -> str:
    return f"{encoded(NONE)}.{text.split('.')[1]}."


def by_secret(text: str, secret: bytes) -> str:
    """The same claims, signed as if whoever knows this text were the provider."""
    signed = f"{encoded(SECRETLY)}.{text.split('.')[1]}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@pytest.mark.parametrize(
    "forged",
    [
        token(aud="somebody else"),
        token(aud="somebody else", azp="us"),
        token(aud=None),
        token(iss="https://evil.example.com"),
        token(iss=None),
        token(exp=int(time.time()) - 60),
        token(exp=None),
        token(iat=int(time.time()) + 600),
        token(sub=None),
        token(sub=""),
        token(nonce="another nonce"),
        token(nonce=None),
        token(algorithm="RS512"),
        by_secret(token(), b"s" * 32),
        by_secret(token(), KEY.as_pem(private=False)),
        unsigned(token()),
        token(key=ANOTHER_KEY),
        token()[:-8] + "AAAAAAAA",
        "no token",
    ],
    ids=[
        "audience",
        "audience, though by us",
        "no audience",
        "issuer",
        "no issuer",
        "over",
        "no end",
        "of the future",
        "no subject",
        "empty subject",
        "of another sign-in",
        "of no sign-in",
        "another algorithm",
        "by secret",
        "by the public key as a secret",
        "unsigned",
        "another key",
        "altered",
        "none",
    ],
)
def test_a_token_that_is_not_for_us_from_our_provider_and_of_now_is_refused(here, forged):
    assert read(token())["sub"] == "1234"

    with pytest.raises((JoseError, ValueError)):
        read(forged)
