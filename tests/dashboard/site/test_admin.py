"""Django's admin: every table has a list, registered by the room of its capability."""

from pathlib import Path

from django.apps import apps
from django.contrib import admin

import dashboard
from dashboard.admin import ROOMS
from dashboard.site.read_only import ReadOnly


def test_every_table_has_a_list_that_nobody_can_change():
    models = apps.get_app_config("dashboard").get_models()

    assert [model for model in models if not isinstance(admin.site._registry.get(model), ReadOnly)] == []


def test_every_room_s_administration_is_assembled():
    folder = Path(dashboard.__file__).parent

    assert sorted(ROOMS) == sorted(path.parent.name for path in folder.glob("*/admin.py"))
