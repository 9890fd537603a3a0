"""The groups come with the migrations and know every model: docs/contract.md, section 6."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command

from dashboard.access.rights import Right, may

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]


def rights(name: str) -> set[str]:
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


def test_each_group_sees_every_model_whenever_it_was_added() -> None:
    models = {f"view_{model._meta.model_name}" for model in apps.get_app_config("dashboard").get_models()}
    assert models <= rights("viewer") < rights("operator") < rights("administrator")


def test_groups_that_were_lost_come_back_with_the_next_migrate() -> None:
    Group.objects.all().delete()
    call_command("migrate", verbosity=0)
    assert "operate_pair" in rights("operator")


def test_administrators_manage_people_also_in_a_database_that_was_flushed() -> None:
    Group.objects.all().delete()
    Permission.objects.all().delete()
    call_command("migrate", verbosity=0)
    assert {"view_user", "change_user", "change_group"} <= rights("administrator")


def test_a_permission_that_somebody_was_granted_alone_gives_nothing(people: dict[str, User]) -> None:
    granted = Permission.objects.get(codename="operate_pair")
    people["viewer"].user_permissions.add(granted)
    person = User.objects.get(pk=people["viewer"].pk)
    assert may(person, Right.VIEW)
    assert not may(person, Right.OPERATE)
    assert "dashboard.operate_pair" not in person.get_all_permissions() | person.get_user_permissions()


def test_a_superuser_may_do_everything_without_a_group(people: dict[str, User]) -> None:
    root = User.objects.create_superuser("root")
    assert all(may(root, right) for right in Right)
    assert "dashboard.operate_pair" in root.get_all_permissions()
