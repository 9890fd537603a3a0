"""Pairs of another team, over every address of the control plane: they answer as if they did not exist.

Every page, every operation of the API and every page of Django's admin is asked by people who are not in the group of
the other team's pair. Whoever adds an address, an operation or a table adds it to these tests.
"""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models.deletion import ProtectedError
from django.urls import reverse
from django.utils import timezone

from dashboard.access import tokens
from dashboard.access.audited import Request
from dashboard.access.people import set_groups
from dashboard.access.rights import Refused
from dashboard.access.visibility import visible_pairs
from dashboard.alerts import actions as alerts
from dashboard.backlog.orphans import use_of
from dashboard.models import Alert, AlertRule, AuditEntry, Budget, Charge, Invoice, Pair
from dashboard.models.visibility import seen_as
from dashboard.site.error_pages import NOT_YOURS
from tests.dashboard.access.test_access_walk import SENT
from tests.dashboard.markup import costs_of
from tests.dashboard.planted import (
    CONTENT,
    ENTITY,
    HIDDEN,
    MONTH,
    NOTHING,
    WORD,
    body_of,
    names_in,
    patterns,
    planted,
    tables,
    theirs,
)
from tests.selection import nightly

pytestmark = pytest.mark.slow

__all__ = ["planted"]
SHARED = {"CostRule", "Heartbeat", "Identity", "ApiToken", "ChannelState", "AlertRound"}
"""Tables without facts of pairs."""
OUTSIDE = {"login", "logout", "live", "healthz", "readyz", "metrics"}
EVERY = [(name, names_in(pattern)) for name, pattern in patterns() if name not in OUTSIDE]
LISTS = sorted({name for name, needs in EVERY if not needs and not name.startswith("admin:")})
OBJECTS = sorted({(name, *needs) for name, needs in EVERY if needs and not name.startswith("admin:")})
OUR_OWN = {"token-revoke", "alert-channel"}
"""Addresses that name no pair and nothing of one."""


def filled(needs: list[str], verb: str, known: dict[str, Any]) -> dict[str, Any]:
    return {name: {"verb": verb, **known}[name] for name in needs}


def verbs_of(name: str) -> tuple[str, ...]:
    return ("hold", "pause_syphon", "delete_queue") if name == "pair-action" else ("break",)


def test_every_table_with_facts_of_pairs_is_read_through_the_visible_pairs():
    every = set(apps.get_app_config("dashboard").get_models())

    assert {model.__name__ for model in every - set(tables())} == SHARED


SHOWING = (
    "overview", "events", "events-csv", "alerts", "alert-deliveries", "alert-rules", "audit", "backlog", "costs",
    "costs-csv", "costs-forecast", "drills", "readiness", "incidents", "audit-csv", "workers",
)  # fmt: skip
"""Lists on which the words are found where everything is seen: without them the tests below could not fail."""


@pytest.mark.parametrize("role", [*nightly("viewer", "operator"), "administrator"])
def test_no_list_shows_anything_of_another_team_even_if_it_is_asked_for_it(planted, role):
    root, ours = planted.client("superuser"), planted.client(role)
    whole = {name: body_of(root.get(reverse(name))) for name in SHOWING}
    assert [name for name, body in whole.items() if WORD not in body and CONTENT not in body] == []

    asked = ("", f"?month={MONTH}")
    bodies = {f"{name}{query}": body_of(ours.get(reverse(name) + query)) for name in LISTS for query in asked}
    bodies["costs, all tabs"] = costs_of(ours, month=MONTH)
    assert [name for name, body in bodies.items() if WORD in body or CONTENT in body] == []

    asked = f"?pair={HIDDEN}&q={ENTITY}&entity={ENTITY}&path={ENTITY}&month={MONTH}"
    assert [name for name in LISTS if CONTENT in body_of(ours.get(reverse(name) + asked)).replace(asked, "")] == []


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("role", [*nightly("operator"), "administrator"])
def test_what_another_team_has_answers_like_what_does_not_exist(planted, role, method):
    ours, wrong = planted.client(role), []
    for name, *needs in OBJECTS:
        for verb in verbs_of(name):
            there = getattr(ours, method)(reverse(name, kwargs=filled(needs, verb, theirs(planted))), SENT)
            nowhere = getattr(ours, method)(reverse(name, kwargs=filled(needs, verb, NOTHING)), SENT)
            if there.status_code != nowhere.status_code or CONTENT in body_of(there):
                wrong.append((name, verb, there.status_code, nowhere.status_code))
            elif name not in OUR_OWN and there.status_code not in (302, 403, 404, 405):
                wrong.append((name, verb, there.status_code, "is no refusal"))

    assert wrong == []
    assert not AuditEntry.objects.filter(pair=HIDDEN, operator=planted.people[role].username, outcome="done").exists()


def test_who_is_in_the_group_without_a_role_sees_nothing(planted):
    for name, *needs in [(name,) for name in LISTS] + OBJECTS:
        answer = planted.client("roleless").get(reverse(name, kwargs=filled(needs, "hold", theirs(planted))))

        assert (answer.status_code, CONTENT in body_of(answer)) == (403, False), name


@pytest.mark.parametrize("role", ["theirs", "superuser"])
def test_the_pair_is_seen_by_its_own_team_and_by_superusers(planted, role):
    assert HIDDEN in body_of(planted.client(role).get("/"))
    assert planted.client(role).get(f"/pairs/{HIDDEN}/").status_code == 200
    assert planted.client(role).get(f"/pairs/{HIDDEN}/entities/{ENTITY}/").status_code == 200
    assert planted.client(role).get(f"/live/?pair={HIDDEN}").status_code == 501  # no stream under WSGI


def test_a_role_decides_what_its_own_team_may_do_and_leaving_the_group_ends_the_access(planted):
    browser = planted.client("theirs")
    assert browser.post(f"/pairs/{HIDDEN}/actions/release/", {"path": ENTITY}).status_code == 403
    assert browser.get(f"/pairs/{HIDDEN}/").status_code == 200

    planted.people["theirs"].groups.remove(Group.objects.get(name="theirs"))

    assert browser.get(f"/pairs/{HIDDEN}/").status_code == 404
    assert browser.get(f"/live/?pair={HIDDEN}").status_code == 404


def test_costs_are_the_sum_of_the_pairs_that_one_sees(planted):
    invoice = planted.rows[Invoice]
    row = {"namespace": "contoso", "entity": "orders", "kind": "send", "operations": 5, "billing_units": 5}
    Charge.objects.create(
        invoice=invoice, pair="contoso", cents=1234, included_units=0, quantity="5", exact="12.34", **row
    )

    page = planted.client("viewer").get(f"/costs/?month={MONTH}").text
    rows = planted.client("viewer").get(f"/api/v1/charges?month={MONTH}").json()["items"]

    assert re.search(r'class="sum">12\.34', page)
    assert "Part of the invoice" in page
    assert "in no part of this sum" in page
    assert [(row["pair"], row["amount"]) for row in rows] == [("contoso", "12.34")]


def test_all_alerts_are_those_that_one_sees(planted):
    planted.client("operator").post("/alerts/acknowledge/")

    assert not Alert.objects.get(pair=HIDDEN).acknowledged_at


FOR_ALL = ("costs-compute", "costs-rule", "costs-reconcile-upload")


def test_what_concerns_all_pairs_is_shown_to_and_done_for_those_who_see_all_pairs(planted):
    before, client = set(Budget.objects.values_list("pair", "cents")), planted.client("administrator")
    sent = (
        ("/costs/compute/", {"month": MONTH}),
        ("/costs/rule/", {"rule": "settlements", "allocation": "time"}),
        ("/costs/budget/", {"month": MONTH, "amount": "10", "pair": ""}),
        ("/costs/budget/", {"month": MONTH, "amount": "10", "pair": HIDDEN}),
        ("/alerts/channels/mail/enable/", {}),
    )
    assert {client.post(address, form).status_code for address, form in sent} == {403}
    assert set(Budget.objects.values_list("pair", "cents")) == before
    assert AuditEntry.objects.filter(outcome="refused").count() == len(sent)

    def shown(role: str) -> list[str]:
        texts = planted.client(role).get("/costs/reconcile/").text + costs_of(planted.client(role), month=MONTH)
        return [name for name in FOR_ALL if f'action="{reverse(name)}"' in texts]

    assert (shown("administrator"), shown("superuser")) == ([], list(FOR_ALL))
    assert NOT_YOURS in client.get("/admin/auth/user/").text


def test_a_rule_of_alerts_is_for_one_pair_that_one_sees(planted):
    def save(pair: str) -> str:
        request = alerts.Request(user=planted.people["administrator"])
        return alerts.save_rule(request, AlertRule(name=f"for {pair}", pair=pair, channels=["mail"])).outcome

    browser = planted.client("administrator")
    form = {
        "name": "nights", "is_enabled": "on", "entity": "*", "least_severity": "info", "channels": ["mail"],
    }  # fmt: skip
    made = [browser.post("/alerts/rules/new/", {**form, "pair": pair}).status_code for pair in ("*", HIDDEN, "others*")]

    assert save("*")  # a command is not limited
    assert 302 not in made
    assert not AlertRule.objects.filter(name="nights").exists()


def test_a_token_sees_what_its_owner_sees(planted, client):
    def names(role: str) -> list[str]:
        text = tokens.make(planted.people[role], "x", "read", 30, timezone.now())[1]
        answer = client.get("/api/v1/pairs", headers={"Authorization": f"Bearer {text}"})
        return [pair["name"] for pair in answer.json()]

    assert names("operator") == ["contoso"]
    assert names("theirs") == [HIDDEN]
    assert names("superuser") == ["contoso", HIDDEN]


def test_metrics_are_whole_for_named_networks_and_for_those_who_see_all_pairs(planted):
    def status(role: str) -> int:
        return planted.client(role).get("/metrics", REMOTE_ADDR="203.0.113.9").status_code

    assert HIDDEN in planted.client("stranger").get("/metrics").text
    assert (status("viewer"), status("administrator"), status("superuser")) == (401, 401, 200)


def test_one_query_decides_which_pairs_a_person_sees(planted, django_assert_num_queries):
    person = type(planted.people["viewer"]).objects.get(username="our-viewer")
    with django_assert_num_queries(1):
        visible_pairs(person)
        visible_pairs(person)


def test_a_group_of_a_pair_is_not_deleted(planted):
    group = Group.objects.get(name="theirs")

    with pytest.raises(ProtectedError), transaction.atomic():
        group.delete()
    assert planted.client("superuser").get(f"/admin/auth/group/{group.pk}/delete/").status_code == 403

    Pair.objects.get(name=HIDDEN).groups.clear()
    group.delete()


def test_who_gives_a_pair_away_sees_all_pairs_or_is_a_command(planted, pair):
    request = Request(planted.people["operator"], pair, "*")

    with pytest.raises(Refused):
        set_groups(request, [])
    assert set_groups(Request(planted.people["administrator"], pair, "*"), []).outcome == "done"


def test_somebody_else_s_queue_on_a_shared_namespace_is_no_orphan(planted, pair):
    Pair.objects.filter(name=HIDDEN).update(secondary_namespace=pair.secondary_namespace)

    with seen_as(lambda: visible_pairs(planted.people["operator"])):
        belongs = use_of(pair, "othersteam-primary/x-servicebus-transfer/0").belongs

    assert HIDDEN in belongs
