"""Signing in at a hostile provider: its answers, its keys and its tokens (docs/security.md)."""

import base64
import gzip
import hmac
import json
import threading
import time
from contextlib import suppress

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from dashboard.access.oidc import discovery, transport, views
from dashboard.access.oidc.discovery import ProviderError
from dashboard.models import Identity
from tests.dashboard.access.test_signin_flow import (  # noqa: F401
    Browser,
    Provider,
    browser,
    here,
    key,
    lets_in,
    provider,
)

DISCOVERY = "/.well-known/openid-configuration"
PLACES = (DISCOVERY, "/token", "/keys", "/userinfo")
DEEP = "[" * 200_000
MOST_PARTS = 5000


@pytest.fixture(scope="module")
def another_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "another"}, private=True)


def status_at(browser: Browser, provider: Provider, key: RSAKey, path: str, answer) -> int:  # noqa: F811
    """The status of a sign-in at a provider that answers so at this place; of the way there, or of the way back."""
    if path == DISCOVERY:
        provider.answers[path] = answer
        return browser.get(views.leave).status_code
    asked = browser.leave()
    provider.sign(key, asked["nonce"])
    provider.answers[path] = answer
    return browser.get(views.come_back, code="c", state=asked["state"]).status_code


def nobody_is_signed_in(browser: Browser) -> bool:  # noqa: F811
    return not browser.user.is_authenticated and not Identity.objects.exists()


# -- state, nonce and code --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{}, {"state": ""}, {"state": "x" * 40}, {"state": "\x00"}, {"state": "*"}], ids=repr)
def test_a_state_that_nobody_gave_signs_nobody_in_and_asks_nothing(browser, provider, key, lets_in, words):  # noqa: F811
    provider.sign(key, browser.leave()["nonce"])
    asked = list(provider.paths)

    answer = browser.get(views.come_back, code="c", **words)

    assert answer.status_code in (302, 403)
    assert nobody_is_signed_in(browser)
    assert provider.paths == asked


@pytest.mark.parametrize("nonce", ["", "another", None], ids=repr)
def test_a_token_without_the_nonce_of_this_sign_in_is_refused(browser, provider, key, lets_in, nonce):  # noqa: F811
    asked = browser.leave()
    provider.sign(key, nonce)

    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 403
    assert nobody_is_signed_in(browser)


def test_the_code_of_another_persons_sign_in_is_of_no_use(browser, provider, key, lets_in):  # noqa: F811
    """An attacker gives a victim's code to a sign-in of his own: the provider answers with the victim's token."""
    victim = Browser().leave()
    provider.sign(key, victim["nonce"])
    asked = browser.leave()

    assert browser.get(views.come_back, code="the victim's", state=asked["state"]).status_code == 403
    assert nobody_is_signed_in(browser)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"aud": "another-client"},
        {"aud": ["another-client", "a-third"]},
        {"aud": ["us", "another-client"], "azp": "another-client"},
        {"exp": int(time.time()) - 3600},
        {"exp": "tomorrow"},
        {"exp": -1},
        {"iat": int(time.time()) + 3600},
        {"sub": {"a": 1}},
        {"sub": "5678"},
        {"sub": "1" * 256},
    ],
    ids=lambda changes: "-".join(map(str, changes)),
)
def test_a_token_with_wrong_claims_signs_nobody_in(browser, provider, key, lets_in, changes):  # noqa: F811
    asked = browser.leave()
    provider.sign(key, asked["nonce"], **changes)

    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 403
    assert nobody_is_signed_in(browser)


def test_a_subject_is_not_cut_off_to_become_that_of_somebody_else(browser, provider, key, lets_in):  # noqa: F811
    for subject, status in (("1" * 255, 302), ("1" * 256, 403)):
        asked = browser.leave()
        provider.sign(key, asked["nonce"], sub=subject)
        provider.say("/userinfo", sub=subject, preferred_username="grace", groups=["operator"])
        assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == status


# -- signatures and keys ----------------------------------------------------------------------------------------------


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def claims_of(provider: Provider, nonce: str) -> dict:  # noqa: F811
    now = int(time.time())
    return {"iss": provider.issuer, "aud": "us", "sub": "1234", "iat": now, "exp": now + 60, "nonce": nonce}


def by_secret(header: dict, claims: dict, secret: bytes) -> str:
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def unsigned(provider, key, another_key, claims):  # noqa: F811
    return f"{encoded(json.dumps({'alg': 'none'}).encode())}.{encoded(json.dumps(claims).encode())}."


def signed_with_the_public_key(provider, key, another_key, claims):  # noqa: F811
    return by_secret({"alg": "HS256", "kid": key.kid}, claims, key.as_pem(private=False))


def signed_with_a_published_secret(provider, key, another_key, claims):  # noqa: F811
    secret = b"a-secret-that-everybody-can-read"
    public = key.as_dict(private=False)
    provider.say("/keys", keys=[public, {"kty": "oct", "kid": "shared", "k": encoded(secret)}])
    return by_secret({"alg": "HS256", "kid": "shared"}, claims, secret)


def signed_with_the_key_inside(provider, key, another_key, claims):  # noqa: F811
    inside = another_key.as_dict(private=False)
    return jwt.encode({"alg": "RS256", "kid": key.kid, "jwk": inside}, claims, another_key)


def signed_with_a_key_of_another_address(provider, key, another_key, claims):  # noqa: F811
    provider.say("/hostile-keys", keys=[another_key.as_dict(private=False)])
    header = {"alg": "RS256", "kid": "another", "jku": f"{provider.issuer}/hostile-keys"}
    return jwt.encode(header, claims, another_key)


def signed_by_an_unknown_key(provider, key, another_key, claims):  # noqa: F811
    return jwt.encode({"alg": "RS256", "kid": "another"}, claims, another_key)


def signed_by_another_key_of_the_same_name(provider, key, another_key, claims):  # noqa: F811
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, another_key)


FORGERIES = [
    unsigned,
    signed_with_the_public_key,
    signed_with_a_published_secret,
    signed_with_the_key_inside,
    signed_with_a_key_of_another_address,
    signed_by_an_unknown_key,
    signed_by_another_key_of_the_same_name,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_token_that_is_not_signed_by_a_published_key_is_refused(
    browser, provider, key, another_key, lets_in, forge  # noqa: F811
):  # fmt: skip
    asked = browser.leave()
    forged = forge(provider, key, another_key, claims_of(provider, asked["nonce"]))
    provider.say("/token", access_token="a", token_type="Bearer", id_token=forged)

    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 403
    assert nobody_is_signed_in(browser)
    assert "/hostile-keys" not in provider.paths


# -- answers ----------------------------------------------------------------------------------------------------------


def redirect(status: int, place: str):
    def answer(handler) -> None:
        handler.send_response(status)
        handler.send_header("Location", place)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@pytest.mark.parametrize("status", [301, 307, 308])
@pytest.mark.parametrize("path", PLACES)
def test_no_redirect_of_a_provider_is_followed(browser, provider, key, lets_in, path, status):  # noqa: F811
    """It would take code and secret elsewhere, or lead into the network of the control plane."""
    answer = redirect(status, f"{provider.issuer}/inside")

    assert status_at(browser, provider, key, path, answer) == 503
    assert "/inside" not in provider.paths
    assert nobody_is_signed_in(browser)


class Endless:
    """An answer that goes on until the other side ends it, or that says how long it is and comes in bits."""

    def __init__(self, part: bytes, head: bytes = b"", pause_s: float = 0.0) -> None:
        self.part, self.head, self.pause_s = part, head, pause_s
        self.parts, self.was_cut = 0, threading.Event()

    def __call__(self, handler) -> None:
        stop = threading.Event()
        with suppress(OSError):
            handler.wfile.write(self.head)
            while self.parts < MOST_PARTS:
                handler.wfile.write(self.part)
                self.parts += 1
                stop.wait(self.pause_s)
            return
        self.was_cut.set()


OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS = {
    "a body": lambda: Endless(b" " * 2**16, OK + b"\r\n"),
    "chunks": lambda: Endless(b"10000\r\n" + b" " * 2**16 + b"\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\n"),
    "a body of bits": lambda: Endless(b" ", OK + b"Content-Length: 1000000\r\n\r\n", pause_s=0.02),
    "headers of bits": lambda: Endless(b"X", OK + b"X: ", pause_s=0.02),
    "a first line of bits": lambda: Endless(b"X", b"HTTP/1.1 ", pause_s=0.02),
}


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.sampled
def test_an_answer_without_an_end_is_left(browser, provider, key, lets_in, monkeypatch, path, kind):  # noqa: F811
    monkeypatch.setattr(transport, "LIMIT_S", 0.3 if "bits" in kind else 60.0)
    answer = ENDLESS[kind]()

    assert status_at(browser, provider, key, path, answer) == 503
    assert answer.was_cut.wait(60)
    assert nobody_is_signed_in(browser)


def bomb(handler) -> None:
    body = gzip.compress(b" " * 50 * 2**20)
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    with suppress(OSError):
        handler.wfile.write(body)


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    "answer",
    [
        bomb,
        (200, DEEP),
        (200, '{"keys": ' + DEEP),
        (200, '{"issuer": NaN, "keys": NaN, "sub": Infinity}'),
        (200, '{"keys": [5], "sub": ["1234"], "id_token": ["x"]}'),
        (200, '{"keys": [{"kty": "RSA", "kid": "first", "n": "AQAB", "e": "AQAB"}]}'),
        (200, '{"keys": [{"kty": "RSA", "kid": "first", "n": "%s", "e": "AQAB"}]}' % ("A" * 100_000)),
        (200, '{"keys": [{"kty": "oct"}]}'),
        (200, '{"keys": {"first": 1}, "id_token": {"a": 1}, "access_token": 5, "token_type": []}'),
        (200, '{"id_token": "%s", "access_token": "a", "token_type": "Bearer"}' % ("e30." * 10_000)),
        (200, '{"access_token": "a\\r\\nX: y", "token_type": "Bearer", "id_token": "a.b.c"}'),
        (200, '{"sub": "1234", "sub": "5678", "groups": ["administrator"]}'),
        (200, '{"sub": %s}' % ("9" * 5000)),
        (200, '{"sub": "\\ud800"}'),
        (200, ""),
        (204, ""),
        (200, "\ufeff{}"),
        (999, "{}"),
    ],
    ids=lambda answer: "bomb" if callable(answer) else f"{answer[0]} {answer[1][:30]}",
)
@pytest.mark.sampled
def test_a_malformed_answer_is_a_page_and_signs_nobody_in(browser, provider, key, lets_in, path, answer):  # noqa: F811
    assert status_at(browser, provider, key, path, answer) in (403, 503)
    assert nobody_is_signed_in(browser)


def test_those_who_wait_for_a_provider_that_does_not_answer_do_not_ask_again(here, provider, monkeypatch):  # noqa: F811
    provider.answers[DISCOVERY] = (500, "{}")
    for _ in range(20):
        with pytest.raises(ProviderError):
            discovery.provider()
    assert provider.paths == [DISCOVERY]
    monkeypatch.setattr(discovery, "FAILED_S", 0)
    discovery._known.clear()
    for _ in range(3):
        with pytest.raises(ProviderError):
            discovery.provider()
    assert provider.paths == [DISCOVERY] * 4
