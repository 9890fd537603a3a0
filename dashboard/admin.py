"""Assembles Django's admin from the lists that the rooms register: facts are read-only, people and groups are not."""

from importlib import import_module

ROOMS = ("accounts", "actions", "alerts", "backlog", "costs", "drills", "fleet", "readiness")
"""The rooms with tables. Their `admin.py` registers them when it is imported."""

for _room in ROOMS:
    import_module(f"dashboard.{_room}.admin")
