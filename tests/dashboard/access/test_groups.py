"""The groups come with the migrations and know every model: docs/contract.md, section 6."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command

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
