"""Django's admin: a list of every table that nobody can change, and the rooms whose lists do more."""

from importlib import import_module

from django.apps import apps
from django.contrib import admin

from dashboard.access.admin_site import register

ROOMS = ("accounts", "backlog", "fleet")
"""Their `admin.py` registers people and groups, the cleanup of queues, and pairs with their groups."""

for _room in ROOMS:
    import_module(f"dashboard.{_room}.admin")
for _model in apps.get_app_config("dashboard").get_models():
    if not admin.site.is_registered(_model):
        register(_model)
