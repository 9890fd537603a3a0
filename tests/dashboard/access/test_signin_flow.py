"""Going to a provider and coming back, whatever it answers: a small provider that answers what a test wants."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.test import RequestFactory
from django.urls import get_resolver
from django.utils import timezone
from joserfc import jwt
from joserfc.jwk import RSAKey

from dashboard.access import tokens
from dashboard.access.oidc import views
from dashboard.access.oidc.client import MOST_STATES
from dashboard.models import Identity

ROUTES = "dashboard.access.oidc.views.reverse"


@dataclass
class Provider:
    """Answers by path, as status and text, or by hand; what it was asked for a token, last; the paths, in order."""

    issuer: str = ""
    answers: dict[str, tuple[int, str] | Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: dict[str, list[str]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    keys: list[RSAKey] = field(default_factory=list)

    def say(self, path: str, status: int = 200, **document: Any) -> None:
        self.answers[path] = status, json.dumps(document)

    def publish(self, *keys: RSAKey) -> None:
        self.say("/keys", keys=[key.as_dict(private=False) for key in keys])

    def sign(self, key: RSAKey, nonce: str | None, **changes: Any) -> None:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "us",
            "sub": "1234",
            "iat": now,
            "exp": now + 60,
            "nonce": nonce,
            **changes,
        }
        given = {name: value for name, value in claims.items() if value is not None}
        text = jwt.encode({"alg": "RS256", "kid": key.kid}, given, key)
        self.say("/token", access_token="a", token_type="Bearer", id_token=text)


@pytest.fixture
def provider() -> Iterator[Provider]:
    ours = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ours.paths.append(path := urlsplit(self.path).path)
            answer = ours.answers.get(path, (404, "{}"))
            if callable(answer):
                return answer(self)
            status, text = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())
            return None

        def do_POST(self) -> None:
            ours.asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        ours.issuer = f"http://127.0.0.1:{server.server_port}"
        places = {f"{name}_endpoint": f"{ours.issuer}/{name}" for name in ("authorization", "token", "userinfo")}
        end = f"{ours.issuer}/end?tenant=7"
        known = {"issuer": ours.issuer, "jwks_uri": f"{ours.issuer}/keys", "end_session_endpoint": end}
        ours.say("/.well-known/openid-configuration", **known, **places)
        yield ours
        server.shutdown()


@pytest.fixture
def here(db, people, provider, settings, monkeypatch):
    _ = get_resolver().url_patterns  # without a provider, as all other tests of this process have them
    settings.OIDC_ISSUER, settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = provider.issuer, "us", "s" * 32
    settings.AUTHENTICATION_BACKENDS = ["dashboard.access.oidc.backend.OidcBackend"]
    monkeypatch.setattr(ROUTES, lambda name: f"/{name}/")  # the routes are there only where a provider is set


class Browser:
    """A session, and what is asked with it."""

    def __init__(self) -> None:
        self.session, self.user = SessionStore(), AnonymousUser()

    def get(self, view: Any, **words: str) -> Any:
        request = RequestFactory().get("/", words, headers={"Host": "localhost"})
        request.session, request.user = self.session, self.user
        answer = view(request)
        request.session.save()
        self.session, self.user = SessionStore(request.session.session_key), request.user
        return answer

    def leave(self, **words: str) -> dict[str, str]:
        """Where the provider is asked, and what."""
        place = urlsplit(self.get(views.leave, **words)["Location"])
        return {"place": place.path} | {name: value for name, (value,) in parse_qs(place.query).items()}

    def comes_back(self, provider: Provider, key: RSAKey, wanted: str = "", **claims: Any) -> Any:
        """What is answered to somebody who has gone to the provider and comes back with its signed word."""
        asked = self.leave(next=wanted)
        provider.sign(key, **{"nonce": asked["nonce"], **claims})
        return self.get(views.come_back, code="c", state=asked["state"])

    @property
    def states(self) -> list[str]:
        return [key for key, _ in self.session.items() if key.startswith("_state_")]


@pytest.fixture
def browser(here) -> Browser:
    return Browser()


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "first"}, private=True)


@pytest.fixture
def lets_in(provider, key):
    provider.publish(key)
    provider.say("/userinfo", sub="1234", preferred_username="grace", groups=["operator"])


def test_the_provider_is_asked_for_a_code_with_state_nonce_and_challenge(browser):
    asked = browser.leave()

    expected = {"place": "/authorization", "response_type": "code", "client_id": "us", "scope": "openid profile email"}
    expected |= {"code_challenge_method": "S256", "redirect_uri": "http://localhost/oidc_authentication_callback/"}
    assert {name: asked[name] for name in expected} == expected
    assert all(len(asked[name]) >= 20 for name in ("state", "nonce", "code_challenge"))
    assert "prompt" not in asked
    assert browser.leave(renew="1")["prompt"] == "none"


def test_who_comes_back_with_a_code_is_signed_in_and_led_where_they_wanted(browser, provider, key, lets_in):
    answer = browser.comes_back(provider, key, "/events/")

    assert (answer.status_code, answer["Location"]) == (302, "/events/")
    assert browser.user.username == "grace"
    assert provider.asked["client_secret"] == ["s" * 32]
    assert provider.asked["code"] == ["c"]
    assert len(provider.asked["code_verifier"][0]) >= 43
    assert browser.session["oidc_id_token_expiration"] > time.time()
    assert browser.states == []


@pytest.mark.parametrize("link", ["https://evil.example/", "//evil.example/", "/\\evil.example/"])
def test_no_link_leads_elsewhere_after_coming_back(browser, provider, key, lets_in, link):
    assert browser.comes_back(provider, key, link)["Location"] == "/"


def test_a_renewal_of_the_same_person_keeps_the_session(browser, provider, key, lets_in):
    for expected in (True, False):
        before = browser.session.session_key
        browser.comes_back(provider, key)
        assert (browser.session.session_key != before) is expected


def test_keys_may_be_exchanged_and_a_withdrawn_one_signs_nobody_in(browser, provider, key, lets_in):
    another = RSAKey.generate_key(2048, {"kid": "second"}, private=True)
    found = []
    for published, signs in ((key, key), (another, another), (another, key)):
        provider.publish(published)
        found.append(browser.comes_back(provider, signs).status_code)

    assert found == [302, 302, 403]


@pytest.mark.parametrize(
    ("path", "answer", "status"),
    [
        ("/token", (400, '{"error": "invalid_client"}'), 503),
        ("/token", (500, "{}"), 503),
        ("/token", (200, "no JSON"), 503),
        ("/token", (200, '{"access_token": "a", "token_type": "Bearer"}'), 403),
        ("/token", (200, '{"access_token": "a", "token_type": "Bearer", "id_token": "x.y.z"}'), 403),
        ("/token", (200, '{"access_token": "a", "token_type": "Bearer", "id_token": 5}'), 403),
        ("/token", (200, "[]"), 503),
        ("/keys", (500, "{}"), 503),
        ("/keys", (200, '{"keys": []}'), 403),
        ("/keys", (200, "{}"), 403),
        ("/userinfo", (401, "{}"), 503),
        ("/userinfo", (200, "no JSON"), 503),
        ("/userinfo", (200, "[]"), 403),
        ("/userinfo", (200, '{"sub": "5678", "groups": ["administrator"]}'), 403),
        ("/userinfo", (200, '{"sub": "1234", "groups": ["guests"]}'), 403),
    ],
)
def test_whatever_the_provider_answers_there_is_a_page_and_nobody_is_signed_in(
    browser, provider, key, lets_in, path, answer, status
):
    asked = browser.leave()
    provider.sign(key, asked["nonce"])
    provider.answers[path] = answer

    found = browser.get(views.come_back, code="c", state=asked["state"])
    assert (found.status_code, "none of your groups" in found.text) == (status, "guests" in answer[1])
    assert not browser.user.is_authenticated
    assert not Identity.objects.exists()
    assert browser.states == []


def test_a_state_of_another_browser_or_a_second_time_is_refused(browser, provider, key, lets_in):
    asked, other = browser.leave(), Browser()
    other.leave()
    provider.sign(key, asked["nonce"])

    assert other.get(views.come_back, code="c", state=asked["state"]).status_code == 403
    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 302
    assert browser.get(views.come_back, code="c", state=asked["state"]).status_code == 403


def test_a_refusal_of_the_provider_ends_the_session_and_stops_the_tokens_until_the_next_sign_in(
    browser, provider, key, lets_in
):
    browser.comes_back(provider, key)
    now = timezone.now()
    row, text = tokens.make(browser.user, "nightly export", "read", 365, now)
    asked = browser.leave(renew="1")

    answer = browser.get(views.come_back, error="login_required", state=asked["state"])

    assert (answer.status_code, answer["Location"]) == (302, "/login/")
    assert not browser.user.is_authenticated
    assert tokens.find(text, timezone.now()) is None
    browser.comes_back(provider, key)
    assert tokens.find(text, timezone.now()) == row
    assert tokens.find(text, timezone.now() + timedelta(days=29)) == row
    assert tokens.find(text, timezone.now() + timedelta(days=30)) is None


def test_a_refusal_that_nobody_asked_for_stops_no_token(browser, provider, key, lets_in):
    browser.comes_back(provider, key)
    row, text = tokens.make(browser.user, "nightly export", "read", 365, timezone.now())

    browser.get(views.come_back, error="login_required", state="of somebody else")

    assert tokens.find(text, timezone.now()) == row


def test_one_browser_begins_a_bounded_number_of_sign_ins_and_the_last_one_counts(browser, provider, key, lets_in):
    asked = [browser.leave() for _ in range(MOST_STATES + 5)]
    provider.sign(key, asked[-1]["nonce"])

    assert len(browser.states) == MOST_STATES
    assert browser.get(views.come_back, code="c", state=asked[0]["state"]).status_code == 403
    assert browser.get(views.come_back, code="c", state=asked[-1]["state"]).status_code == 302


def test_a_provider_that_is_away_makes_a_page_and_leaves_no_trace(browser, settings):
    settings.OIDC_ISSUER = "http://127.0.0.1:1"

    assert browser.get(views.leave).status_code == 503
    assert list(browser.session.items()) == []


def test_no_log_holds_what_a_sign_in_is_secured_by(browser, provider, key, lets_in, caplog):
    with caplog.at_level(logging.DEBUG):
        asked = browser.leave()
        provider.sign(key, asked["nonce"])
        browser.get(views.come_back, code="the-code", state=asked["state"])

    secrets = {*provider.asked["code_verifier"], *provider.asked["client_secret"], asked["nonce"], "the-code"}
    assert not [secret for secret in secrets if secret in caplog.text]


def test_signing_out_leads_to_the_end_of_the_providers_session_and_back(here, provider):
    request = RequestFactory().post("/", headers={"Host": "localhost"})
    request.session, request.user = SessionStore(), AnonymousUser()
    request.session["_auth_user_backend"] = views.BACKEND

    place = urlsplit(views.sign_out(request)["Location"])
    asked = parse_qs(place.query)

    assert f"{place.scheme}://{place.netloc}{place.path}" == f"{provider.issuer}/end"
    assert asked["tenant"] == ["7"]
    assert asked["client_id"] == ["us"]
    assert asked["post_logout_redirect_uri"] == ["http://localhost/login/"]
