"""Signing in at a hostile provider, or at somebody in its place: keys and tokens (docs/security.md)."""

import base64
import hmac
import json
import time

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from dashboard.access.oidc import views
from dashboard.models import Identity
from tests.dashboard.access.test_signin_flow import Browser, Provider, browser, here, key, lets_in, provider

__all__ = ["browser", "here", "key", "lets_in", "provider"]


@pytest.fixture(scope="module")
def another_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "another"}, private=True)


def nobody_is_signed_in(browser: Browser) -> bool:
    return not browser.user.is_authenticated and not Identity.objects.exists()


def test_a_state_that_nobody_gave_signs_nobody_in_and_asks_nothing(browser, provider, key, lets_in):
    provider.sign(key, browser.leave()["nonce"])
    asked = list(provider.paths)
    for words in ({}, {"state": ""}, {"state": "x" * 40}, {"state": "\x00"}, {"state": "*"}):
        assert browser.get(views.come_back, code="c", **words).status_code in (302, 403), words
        assert nobody_is_signed_in(browser)
        assert provider.paths == asked


def test_a_token_without_the_nonce_of_this_sign_in_is_refused(browser, provider, key, lets_in):
    for nonce in ("", "another", None):
        assert (nonce, browser.comes_back(provider, key, nonce=nonce).status_code) == (nonce, 403)
        assert nobody_is_signed_in(browser)


WRONG_CLAIMS = (
    {"iss": "https://evil.example"},
    {"aud": "another-client"},
    {"aud": ["another-client", "a-third"]},
    {"aud": ["us", "another-client"], "azp": "another-client"},
    {"aud": None},
    {"iss": None},
    {"exp": None},
    {"sub": None},
    {"sub": ""},
    {"exp": int(time.time()) - 3600},
    {"exp": "tomorrow"},
    {"exp": -1},
    {"iat": int(time.time()) + 86_400},
    {"sub": {"a": 1}},
    {"sub": "5678"},
    {"sub": "1" * 256},
)


def test_a_token_with_wrong_claims_signs_nobody_in(browser, provider, key, lets_in):
    for changes in WRONG_CLAIMS:
        assert (changes, browser.comes_back(provider, key, **changes).status_code) == (changes, 403)
        assert nobody_is_signed_in(browser)


def test_a_subject_is_not_cut_off_to_become_that_of_somebody_else(browser, provider, key, lets_in):
    for subject, status in (("1" * 255, 302), ("1" * 256, 403)):
        provider.say("/userinfo", sub=subject, preferred_username="grace", groups=["operator"])
        assert browser.comes_back(provider, key, sub=subject).status_code == status


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def claims_of(provider: Provider, nonce: str) -> dict:
    now = int(time.time())
    return {"iss": provider.issuer, "aud": "us", "sub": "1234", "iat": now, "exp": now + 60, "nonce": nonce}


def by_secret(header: dict, claims: dict, secret: bytes) -> str:
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def unsigned(provider, key, another_key, claims):
    return f"{encoded(json.dumps({'alg': 'none'}).encode())}.{encoded(json.dumps(claims).encode())}."


def signed_with_the_public_key(provider, key, another_key, claims):
    return by_secret({"alg": "HS256", "kid": key.kid}, claims, key.as_pem(private=False))


def signed_with_a_published_secret(provider, key, another_key, claims):
    secret = b"a-secret-that-everybody-can-read"
    public = key.as_dict(private=False)
    provider.say("/keys", keys=[public, {"kty": "oct", "kid": "shared", "k": encoded(secret)}])
    return by_secret({"alg": "HS256", "kid": "shared"}, claims, secret)


def signed_with_the_key_inside(provider, key, another_key, claims):
    inside = another_key.as_dict(private=False)
    return jwt.encode({"alg": "RS256", "kid": key.kid, "jwk": inside}, claims, another_key)


def signed_with_a_key_of_another_address(provider, key, another_key, claims):
    provider.say("/hostile-keys", keys=[another_key.as_dict(private=False)])
    header = {"alg": "RS256", "kid": "another", "jku": f"{provider.issuer}/hostile-keys"}
    return jwt.encode(header, claims, another_key)


def signed_by_an_unknown_key(provider, key, another_key, claims):
    return jwt.encode({"alg": "RS256", "kid": "another"}, claims, another_key)


def signed_by_another_key_of_the_same_name(provider, key, another_key, claims):
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, another_key)


def altered(provider, key, another_key, claims):
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)[:-8] + "AAAAAAAA"


FORGERIES = [
    unsigned,
    signed_with_the_public_key,
    signed_with_a_published_secret,
    signed_with_the_key_inside,
    signed_with_a_key_of_another_address,
    signed_by_an_unknown_key,
    signed_by_another_key_of_the_same_name,
    altered,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_token_that_is_not_signed_by_a_published_key_is_refused(browser, provider, key, another_key, lets_in, forge):
    asked = browser.leave()
    forged = forge(provider, key, another_key, claims_of(provider, asked["nonce"]))
    provider.say("/token", access_token="a", token_type="Bearer", id_token=forged)

    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 403
    assert nobody_is_signed_in(browser)
    assert "/hostile-keys" not in provider.paths
