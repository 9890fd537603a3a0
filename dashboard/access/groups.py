"""The groups viewer, operator and administrator; each includes the rights of the one before."""

from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.management import create_permissions


def keep_groups(sender: AppConfig, using: str, **_: Any) -> None:
    """After each migrate or flush: create the groups, with the rights to the present models."""
    from django.contrib.auth.models import Group, Permission

    for app in (sender, apps.get_app_config("auth")):  # whose own rights are created only after those of this app
        create_permissions(app, verbosity=0, using=using)
    ours = Permission.objects.using(using).filter(content_type__app_label="dashboard")
    see = ours.filter(codename__startswith="view_")
    operate = see | ours.filter(codename="operate_pair")
    users = Permission.objects.using(using).filter(
        content_type__app_label="auth", content_type__model__in=("user", "group")
    )
    administer = operate | ours.filter(codename="administer_pair") | users
    for name, permissions in (("viewer", see), ("operator", operate), ("administrator", administer)):
        group, _created = Group.objects.using(using).get_or_create(name=name)
        group.permissions.add(*permissions)
