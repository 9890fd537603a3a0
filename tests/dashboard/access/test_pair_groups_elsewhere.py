"""Pairs of another team in the API and in Django's admin: every operation, every table."""

import json
from functools import cache
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.urls import reverse

from dashboard.models import AuditEntry, Pair
from dashboard.routes import api
from tests.dashboard.planted import (
    CONTENT,
    ENTITY,
    HIDDEN,
    MONTH,
    NOBODY,
    NOTHING,
    WORD,
    Planted,
    body_of,
    planted,
    tables,
    theirs,
)
from tests.selection import nightly

pytestmark = pytest.mark.slow

__all__ = ["planted"]
TAKES_A_FILE = ("/api/v1/statements", "post")
"""See test_an_upload_is_for_those_who_see_all_pairs."""
EARLIER = {"delete_queue": 409, "acknowledge_alert": 409}
"""Operations that are refused before anything is looked for, or that say so when nothing is found."""
ASKED = {
    "month": MONTH, "paths": [ENTITY], "path": ENTITY, "reason": "x", "amount": "1.00", "messages_per_s": 1,
    "numbers": [1], "which": "all", "queue": ENTITY, "confirm": ENTITY, "name": "x", "channels": ["mail"],
}  # fmt: skip
"""What bodies and queries need at least."""


@cache
def document() -> dict[str, Any]:
    """The API's document."""
    return json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/")))


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """All operations, with their addresses and methods."""
    return sorted(
        (path, method, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        if (path, method) != TAKES_A_FILE
    )


def known_of(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a body that it requires, and the reason."""
    schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    fields = schema.get("properties", {})
    wanted = {*schema.get("required", ()), "paths", "path", "reason"} & fields.keys()
    return {name: values.get(name, fields[name].get("default", 1)) for name in wanted}


def send(client: Any, path: str, method: str, operation: dict[str, Any], known: dict[str, Any]) -> Any:
    """One operation with all that it requires, about what is known by these names."""
    values = ASKED | {"pair": known["pair"]}
    queries = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
    given = {name: values[name] for name in ("month", "queue") if name in queries}
    address = path.format(**known) + "?" + "&".join(f"{name}={value}" for name, value in given.items())
    if method == "get":
        return client.get(address)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = known_of(content.get("schema", {}), values)
    return getattr(client, method)(address, json.dumps(body), content_type="application/json")


@pytest.mark.parametrize("role", [*nightly("operator"), "administrator"])
def test_every_operation_answers_as_if_another_teams_pair_did_not_exist(planted, role):
    the_operations_are_sent_what_they_need(planted)
    ours, wrong = planted.client(role), []
    for path, method, operation in operations():
        there, nowhere = (send(ours, path, method, operation, known) for known in (theirs(planted), NOTHING))
        said, name = body_of(there), operation["operationId"]
        if there.status_code != nowhere.status_code or CONTENT in said:
            wrong.append((name, there.status_code, nowhere.status_code, said[:200]))
        elif "{" in path and "{channel}" not in path and there.status_code not in (403, 404, EARLIER.get(name)):
            wrong.append((name, there.status_code, "is no refusal", said[:200]))
        elif "{" not in path and method == "get" and (WORD in said or there.status_code != 200):
            wrong.append((name, there.status_code, "shows it", said[:200]))

    assert wrong == []
    assert not AuditEntry.objects.filter(pair=HIDDEN, operator=planted.people[role].username).exists()


def the_operations_are_sent_what_they_need(planted):
    """Else the test above could pass because of bodies that no operation takes."""
    root = planted.client("superuser")
    asked = [(path, method, operation) for path, method, operation in operations() if "{pair}" in path]
    found = {
        operation["operationId"]: send(root, path, method, operation, NOTHING).status_code
        for path, method, operation in asked
    }

    assert len(found) > 15
    assert {name: status for name, status in found.items() if status not in (404, EARLIER.get(name))} == {}


def test_lists_of_the_api_have_the_words_for_those_who_see_everything(planted):
    root = planted.client("superuser")
    shown = {
        operation["operationId"]
        for path, method, operation in operations()
        if method == "get" and "{" not in path and WORD in body_of(send(root, path, method, operation, NOTHING))
    }

    every = {"health", "pairs", "entities", "events", "audit", "alerts", "backlog", "charges", "budgets", "drills"}
    assert shown >= every


@pytest.mark.parametrize(("role", "status"), [("stranger", 401), ("roleless", 403)])
def test_nobody_without_a_role_reaches_an_operation(planted, role, status):
    client = planted.client(role)

    assert {send(client, *one, theirs(planted)).status_code for one in operations()} == {status}


def test_an_upload_is_for_those_who_see_all_pairs(planted):
    from django.core.files.uploadedfile import SimpleUploadedFile

    sent = {"file": SimpleUploadedFile("bill.csv", b"x")}

    answer = planted.client("operator").post(f"/api/v1/statements?month={MONTH}&source=export", sent)

    assert answer.status_code == 403


def admin(model: Any, what: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{what}", args=args)


def test_no_table_of_the_administration_shows_anything_of_another_team(planted):
    ours = planted.client("administrator")
    lists = {
        model.__name__: ours.get(admin(model, "changelist")) for model in apps.get_app_config("dashboard").get_models()
    }

    assert {answer.status_code for answer in lists.values()} == {200}
    said = {name: body_of(answer) for name, answer in lists.items()}
    assert [name for name, body in said.items() if WORD in body or CONTENT in body] == []


@pytest.mark.parametrize("what", ["change", *nightly("history", "delete")])
def test_a_row_of_another_team_is_not_in_the_administration(planted, what):
    ours, wrong = planted.client("administrator"), []
    for model in tables():
        there, nowhere = (ours.get(admin(model, what, key)) for key in (planted.key(model), NOBODY))
        answered = [(answer.status_code, answer.headers.get("Location")) for answer in (there, nowhere)]
        if answered[0] != answered[1] or WORD in body_of(there) or there.status_code == 200:
            wrong.append((model.__name__, there.status_code, nowhere.status_code))

    assert wrong == []


def test_a_link_to_the_page_of_a_pair_leads_those_there_who_see_it(planted, pair):
    ours = planted.client("administrator")
    for model in tables():
        kind = ContentType.objects.get_for_model(model)
        answer = ours.get(f"/admin/r/{kind.pk}/{planted.key(model)}/")

        assert (answer.status_code, WORD in body_of(answer)) == (404, False), model
    assert ours.get(f"/admin/r/{kind.pk}/not-a-number/").status_code == 404
    kind = ContentType.objects.get_for_model(Pair)
    assert ours.get(f"/admin/r/{kind.pk}/{pair.pk}/")["Location"].endswith("/pairs/contoso/")


def test_people_and_groups_are_managed_by_those_who_see_all_pairs(planted):
    pages = [admin(model, what) for model in (User, Group) for what in ("changelist", "add")]
    rows = (User.objects.first(), Group.objects.first())
    pages += [admin(type(row), what, row.pk) for row in rows for what in ("change", "delete")]

    assert {planted.client("administrator").get(page).status_code for page in pages} == {403}
    assert {planted.client("superuser").get(page).status_code for page in pages} == {200}

    person = planted.people["administrator"]
    wanted = {"is_superuser": "on", "groups": Group.objects.get(name="theirs").pk}
    sent = {"username": person.username, "is_active": "on", **wanted}

    answer = planted.client("administrator").post(admin(User, "change", person.pk), sent)

    assert answer.status_code == 403
    assert "theirs" not in person.groups.values_list("name", flat=True)


def change_groups(planted: Planted, role: str, pair: Pair, *groups: Group) -> int:
    sent = {"groups": [group.pk for group in groups]}
    return int(planted.client(role).post(admin(Pair, "change", pair.pk), sent).status_code)


def test_who_sees_all_pairs_and_nobody_else_gives_a_pair_to_groups_and_the_audit_trail_says_so(planted, pair):
    before, theirs_too = Pair.objects.values().get(pk=pair.pk), Group.objects.filter(name__in=("ours", "theirs"))

    assert change_groups(planted, "superuser", pair, *theirs_too) == 302
    assert change_groups(planted, "superuser", pair, *theirs_too) == 302

    entries = AuditEntry.objects.filter(verb="set_groups").order_by("pk")
    assert [(entry.pair, entry.operator, entry.outcome) for entry in entries] == [
        ("contoso", "root", "done"),
        ("contoso", "root", "unchanged"),
    ]
    assert entries[0].detail == "contoso is visible to ours, theirs; before: ours."
    assert planted.client("theirs").get("/pairs/contoso/").status_code == 200
    assert Pair.objects.values().get(pk=pair.pk) == before
    assert {change_groups(planted, role, pair) for role in ("administrator", "operator")} == {403}
    assert pair.groups.exists()


def test_an_administrator_gives_the_first_pair_to_a_group(pair, as_role):
    group = Group.objects.create(name="ours")

    assert as_role("administrator").post(admin(Pair, "change", pair.pk), {"groups": [group.pk]}).status_code == 302
    assert as_role("administrator").get("/pairs/contoso/").status_code == 404
