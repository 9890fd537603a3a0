"""Who may see what: every page, as every kind of person (docs/contract.md, section 6)."""

import pytest
from django.apps import apps
from django.urls import get_resolver, reverse

pytestmark = pytest.mark.postgres_nightly

PAGES = (
    "/",
    "/pairs/contoso/",
    "/pairs/contoso/entities/orders/",
    "/events/",
    "/events.csv",
    "/backlog/",
    "/audit/",
    "/workers/",
)
OPEN = ("/healthz", "/readyz", "/metrics", "/login/")


def test_somebody_in_no_group_is_informed_so(pair, as_role):
    assert "in no group yet" in as_role("nobody").get("/").text


@pytest.mark.parametrize("address", OPEN)
def test_machines_and_strangers_reach_what_is_open(pair, redis_here, alive, as_role, address):
    assert as_role("stranger").get(address).status_code == 200


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("role", "status"), [("stranger", 302), ("viewer", 403), ("operator", 403), ("administrator", 200)]
)
@pytest.mark.parametrize("address", ["/admin/", "/admin/auth/user/", "/admin/dashboard/pair/"])
def test_only_administrators_reach_the_admin(people, as_role, role, status, address):
    assert as_role(role).get(address).status_code == status


def test_who_lacks_the_group_for_the_admin_is_informed_which_it_is(people, as_role):
    assert "This needs the group administrator" in as_role("viewer").get("/admin/").text


MODELS = [model._meta.model_name for model in apps.get_app_config("dashboard").get_models()]


def test_the_admin_shows_facts_without_letting_anybody_change_them(pair, as_role):
    administrator = as_role("administrator")

    def status(model, page):
        return administrator.get(reverse(f"admin:dashboard_{model}_{page}")).status_code

    assert {model: status(model, "changelist") for model in MODELS} == dict.fromkeys(MODELS, 200)
    assert {model: status(model, "add") for model in MODELS} == dict.fromkeys(MODELS, 403)


def test_administrators_manage_people(people, as_role):
    assert as_role("administrator").get(reverse("admin:auth_user_changelist")).status_code == 200


def test_every_view_but_the_open_ones_asks_who_is_there():
    def views(patterns):
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                yield from views(pattern.url_patterns) if pattern.app_name not in ("admin", "api") else ()
            else:
                yield pattern.name, pattern.callback

    unguarded = {name for name, view in views(get_resolver().url_patterns) if not getattr(view, "login_required", True)}

    assert unguarded - {None} == {"login", "healthz", "readyz", "metrics"}


def test_pages_forbid_inline_scripts_and_foreign_origins(pair, redis_here, as_role):
    policy = as_role("viewer").get("/")["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


def test_metrics_ask_those_from_elsewhere_for_the_token(db, settings, client):
    settings.METRICS_TOKEN = "a-token-for-prometheus"

    def status(**headers):
        return client.get("/metrics", REMOTE_ADDR="203.0.113.9", headers=headers).status_code

    assert status() == 401
    assert status(Authorization="Bearer wrong") == 401
    assert status(Authorization="Bearer a-token-for-prometheus") == 200


@pytest.mark.parametrize(
    "address",
    [
        "/?q=%00",
        "/events/?entity=%00&pair=%00",
        "/events.csv?pair=%00",
        "/alerts/?pair=%00",
        "/alerts/deliveries/?channel=%00&state=%00",
        "/backlog/?q=%00",
        "/backlog/contoso/jobs/?queue=%00",
        "/backlog/contoso/messages/?queue=%00",
        "/pairs/contoso/entities/%00/",
        "/pairs/contoso/actions/hold/?path=%00",
        "/readiness/contoso/%00/",
        "/readiness/?q=%00",
        "/costs/?month=%00",
        "/costs/forecast/?pair=%00",
        "/drills/start/?pair=%00&path=%00",
        "/audit/?page=%00",
        "/api/v1/alerts?pair=%00",
        "/api/v1/incidents/contoso/%00",
        "/api/v1/pairs/%00",
    ],
)
def test_a_letter_that_postgresql_does_not_take_breaks_no_page(pair, redis_here, alive, as_role, address):
    assert as_role("operator").get(address).status_code < 500


@pytest.mark.parametrize("address", ["/pairs/contoso/demo/break/", "/pairs/contoso/actions/fail_over/", "/login/"])
def test_nor_does_a_form_with_it_break_one(pair, redis_here, as_role, address):
    sent = {"path": "\0", "how": "\0", "reason": "\0", "username": "\0", "password": "\0"}

    assert as_role("operator").post(address, sent).status_code < 500
