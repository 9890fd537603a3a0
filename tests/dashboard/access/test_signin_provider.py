"""Signing in through a real OpenID provider, in a real browser (docs/security.md)."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forked
from tests.conftest import PATIENCE_MS
from tests.dashboard.served import PASSWORD as LOCAL_PASSWORD
from tests.dashboard.served import ROOT, environment_of, serve
from tests.ports import free_port

pytestmark = pytest.mark.browser
PASSWORD = "a-password-at-the-provider"
SECRET = "the-secret-of-the-client"
NOWHERE = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
STRINGS = {"CONTOSO_PRIMARY": NOWHERE.format("contoso"), "CONTOSO_SECONDARY": NOWHERE.format("contoso-dr")}


@dataclass
class Place:
    """A control plane and its provider."""

    address: str
    provider: str
    folder: Path

    def regroup(self, name: str, groups: str) -> None:
        (self.folder / f"groups-of-{name}").write_text(groups)


@contextmanager
def provider(folder: Path, port: int, home: str, secret: str = SECRET) -> Iterator[str]:
    """The address of a provider that knows the control plane at `home` by this secret."""
    script = Path(__file__).parents[1] / "provider" / "site.py"
    words = (str(port), str(folder), "control-plane", secret, f"{home}/oidc/callback/", f"{home}/login/")
    with subprocess.Popen(
        (sys.executable, str(script), *words), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield f"http://127.0.0.1:{port}/o"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def place(tmp_path_factory, lasting_redis_url) -> Iterator[Place]:
    folder, ports = tmp_path_factory.mktemp("sign-in"), (free_port(), free_port())
    home = f"http://127.0.0.1:{ports[0]}"
    (folder / "client-secret").write_text(SECRET)
    with provider(folder, ports[1], home) as issuer:
        sso = {
            "OIDC_ISSUER": issuer,
            "OIDC_CLIENT_ID": "control-plane",
            "OIDC_CLIENT_SECRET_FILE": str(folder / "client-secret"),
            "OIDC_OPERATORS": "platform-ops",
            "OIDC_VIEWERS": "platform-viewers",
            "OIDC_ADMINISTRATORS": "",
        }
        with serve(folder, environment_of(folder, STRINGS, lasting_redis_url) | sso, ports[0]) as address:
            yield Place(address, issuer, folder)


@pytest.fixture
def page(browser, place):
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(place.address)
    yield page
    context.close()


def sign_in(page, name: str) -> None:
    page.get_by_role("link", name="Sign in with your organisation").click()
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in at the provider").click()


def shell(place: Place, lasting_redis_url: str, script: str) -> str:
    environment = environment_of(place.folder, STRINGS, lasting_redis_url)
    return forked.run(("manage.py", "shell", "-v0", "-c", script), environment, check=True).stdout


def test_an_operator_of_the_provider_may_operate_under_a_name_of_their_own(page, place):
    sign_in(page, "alice")

    page.get_by_role("heading", level=1).first.wait_for()
    name = page.locator(".who").inner_text()
    assert name.startswith("operator-")  # `operator` is somebody else, who signs in with a password
    assert page.goto(f"{place.address}/pairs/contoso/actions/hold/?path=orders").status == 200


def test_signing_out_ends_the_session_here_and_there(page, place):
    sign_in(page, "bob")
    page.locator(".who").wait_for()

    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Logout").click()  # this provider asks before it forgets somebody
    page.get_by_role("link", name="Sign in with your organisation").click()

    page.get_by_label("Username").wait_for()  # the provider asks again
    assert page.url.startswith(place.provider.removesuffix("/o"))


def test_signing_out_reaches_the_provider_although_a_live_part_is_answered_meanwhile(page, place):
    sign_in(page, "bob")
    page.locator(".who").wait_for()
    held = []
    page.route(place.address + "/", lambda route: held.append(route) if not held else route.continue_())
    with page.expect_request(place.address + "/"):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('refresh'))")

    def sign_out(route) -> None:
        answer = route.fetch(max_redirects=0)
        held[0].fulfill(response=held[0].fetch())  # the session has ended: htmx has to load the whole page again
        route.fulfill(response=answer)

    page.route("**/logout/", sign_out)
    page.get_by_role("button", name="Sign out").click()

    page.get_by_role("button", name="Logout").wait_for()


def test_a_password_of_the_control_plane_still_opens_it_in_an_emergency(page, place):
    page.get_by_text("With a local password").click()
    page.get_by_label("User name").fill("viewer")
    page.get_by_label("Password").fill(LOCAL_PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

    assert page.locator(".who").inner_text() == "viewer"


def test_a_renewal_asks_nobody_and_takes_the_groups_of_today(page, place, lasting_redis_url):
    sign_in(page, "alice")
    page.locator(".who").wait_for()
    hold = f"{place.address}/pairs/contoso/actions/hold/?path=orders"
    assert page.goto(hold).status == 200
    age = (
        "from django.contrib.sessions.models import Session\n"
        "from django.contrib.sessions.backends.db import SessionStore\n"
        "for row in Session.objects.all():\n"
        "    store = SessionStore(row.session_key); store['oidc_id_token_expiration'] = 0; store.save()\n"
    )
    try:
        place.regroup("alice", "platform-viewers")
        shell(place, lasting_redis_url, age)
        assert page.goto(f"{place.address}/events/").status == 200
        assert page.url == f"{place.address}/events/"
        assert page.goto(hold).status == 403
        place.regroup("alice", "guests")
        shell(place, lasting_redis_url, age)
        assert page.goto(f"{place.address}/events/").status == 403
        page.goto(place.address)
        assert "/login/" in page.url
    finally:
        place.regroup("alice", "platform-ops")
