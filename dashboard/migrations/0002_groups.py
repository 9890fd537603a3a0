"""The groups viewer, operator and administrator; each includes the rights of the one before."""

from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

OURS = ("auth", "contenttypes", "sessions", "dashboard")


def create_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    from django.apps import apps as installed

    for label in ("auth", "dashboard"):
        create_permissions(installed.get_app_config(label), apps=apps, verbosity=0, using=schema_editor.connection.alias)
    Permission = apps.get_model("auth", "Permission")
    Group = apps.get_model("auth", "Group")
    ours = Permission.objects.filter(content_type__app_label="dashboard")
    see = ours.filter(codename__startswith="view_")
    operate = see | ours.filter(codename="operate_pair")
    users = Permission.objects.filter(content_type__app_label="auth", content_type__model__in=("user", "group"))
    administer = operate | ours.filter(codename="administer_pair") | users
    for name, permissions in (("viewer", see), ("operator", operate), ("administrator", administer)):
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*permissions)


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(create_groups, migrations.RunPython.noop)]
