"""Django's admin: every table has a list, registered by the room of its capability."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group

from dashboard.access.admin_site import ReadOnly
from dashboard.models import AuditEntry


def test_every_table_has_a_list_that_nobody_can_change():
    models = apps.get_app_config("dashboard").get_models()

    assert [model for model in models if not isinstance(admin.site._registry.get(model), ReadOnly)] == []


def test_who_gives_a_person_or_a_group_which_rights_is_on_record(people, as_role):
    administrator, ada = as_role("administrator"), people["viewer"]
    operators = Group.objects.get(name="operator")
    form = administrator.get(f"/admin/auth/user/{ada.pk}/change/").context["adminform"].form
    joined = {
        f"{prefix}date_joined_{part}": value
        for prefix in ("", "initial-")
        for part, value in enumerate(f"{form.initial['date_joined']:%Y-%m-%d %H:%M:%S}".split())
    }
    row = {"username": "viewer", "is_active": "on", **joined}

    administrator.post(f"/admin/auth/user/{ada.pk}/change/", {**row, "groups": [operators.pk]})
    administrator.post("/admin/auth/group/add/", {"name": "team"})
    administrator.post(f"/admin/auth/user/{ada.pk}/delete/", {"post": "yes"})

    entries = AuditEntry.objects.order_by("pk").values_list("operator", "via", "verb", "target", "detail")
    by = ("administrator", "administration")
    assert list(entries) == [
        (*by, "change_user", "viewer", "Changed Groups. Groups: operator."),
        (*by, "add_group", "team", "Permissions: none."),
        (*by, "delete_user", "viewer", "Groups: operator."),
    ]


def test_every_list_can_be_shown_filtered_and_searched_and_nothing_is_added(pair, people, as_role, rf):
    administrator, request = as_role("administrator"), rf.get("/admin/")
    request.user = people["administrator"]
    for model, shown in admin.site._registry.items():
        place = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        assert administrator.get(place, {"q": "orders"}).status_code == 200, model
        assert isinstance(shown, ReadOnly) or model._meta.app_label == "auth"
        assert shown.has_add_permission(request) is not isinstance(shown, ReadOnly), model
    assert administrator.get("/admin/dashboard/pair/add/").status_code == 403


@pytest.mark.parametrize(
    ("role", "status"), [("stranger", 302), ("viewer", 403), ("operator", 403), ("administrator", 200)]
)
def test_only_administrators_reach_the_administration(people, as_role, role, status):
    answers = [as_role(role).get(page) for page in ("/admin/", "/admin/auth/user/", "/admin/dashboard/pair/")]

    assert {answer.status_code for answer in answers} == {status}
    assert status != 403 or "This needs the group administrator" in answers[0].text
