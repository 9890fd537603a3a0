"""A database that grew by the migrations before the first release keeps its data and gets the schema of a fresh one."""

import datetime as dt
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import environ
import psycopg
import pytest
from django.apps.registry import Apps
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.utils import load_backend

from dashboard.access.rights import GROUPS
from tests.postgres import cluster, programs

pytestmark = pytest.mark.slow

SQUASHED, MIDDLE, LAST = "0001_squashed_0037_pruned_counts", "0019_peaks_of_depth", "0037_pruned_counts"
LATER = [
    "0038_cost_terms_and_late_usage",
    "0039_metered_usage_and_pings",
    "0040_pair_groups",
    "0041_canaries",
    "0042_resubmitted_messages",
]
NEW_TABLES = (
    "dashboard_costterms",
    "dashboard_lateusage",
    "dashboard_meteredrecord",
    "dashboard_meteredusage",
    "dashboard_pair_groups",
    "dashboard_pingtally",
    "dashboard_resubmittedmessage",
)
NEW_COLUMNS = {"dashboard_entityhealth": {"is_canary": False}}
"""With what they are in rows from before."""
REPLACED = [name for _, name in import_module(f"dashboard.migrations.{SQUASHED}").Migration.replaces]
MOMENT = dt.datetime(2026, 11, 22, 12, 30, tzinfo=dt.UTC)
SPECIFIC: dict[str, dict[str, Any]] = {
    "BacklogQueue": {"is_gone": False},
    "EntityHealth": {"state": "failed_over"},
    "Notice": {"state": "sent"},
    "QueueDeletion": {"stage": "deleted"},
}
"""Where a constraint asks for more than a value of the field's type."""


@pytest.fixture(params=["sqlite", "postgres"])
def server(request, tmp_path) -> Iterator[str]:
    """The beginning of the URL of databases that do not exist yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/"
        return
    if programs() is None:
        problem = "no PostgreSQL found (apt install postgresql)"
        (pytest.fail if os.environ.get("REQUIRE_POSTGRES") == "1" else pytest.skip)(problem)
    with cluster() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            for name in ("grown", "fresh"):
                connection.execute(f"CREATE DATABASE {name}")
        yield url.removesuffix("postgres")


@pytest.fixture(autouse=True)
def _other_databases(django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@contextmanager
def database(url: str) -> Iterator[BaseDatabaseWrapper]:
    """Another database as the default one, which data migrations mean when they name none."""
    settings = connections.configure_settings({"default": environ.Env.db_url_config(url)})["default"]
    ours, other = connections["default"], load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "default")
    connections["default"] = other
    ContentType.objects.clear_cache()
    try:
        yield other
    finally:
        other.close()
        connections["default"] = ours
        ContentType.objects.clear_cache()


def grow(connection: BaseDatabaseWrapper, until: str) -> Apps:
    """Migrate one by one, as before the migrations were squashed; the models at that point."""
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    others = [node for node in executor.loader.graph.leaf_nodes() if node[0] != "dashboard"]
    apps: Apps = executor.migrate([*others, ("dashboard", until)]).apps
    return apps


def fill(apps: Apps) -> None:
    """A row in each table of ours, those first that others refer to."""
    apps.get_model("auth", "User").objects.create(username="ada")
    waiting = {model._meta.label: model for model in apps.get_app_config("dashboard").get_models()}
    while waiting:
        for label, model in list(waiting.items()):
            fields = [field for field in model._meta.concrete_fields if not field.primary_key]
            if not {field.related_model._meta.label for field in fields if field.is_relation} & set(waiting):
                values = {field.attname: value(field, apps) for field in fields}
                model.objects.create(**{**values, **SPECIFIC.get(model.__name__, {})})
                del waiting[label]


def value(field: Any, apps: Apps) -> Any:
    """Something that the field's type takes, other than its default."""
    if field.is_relation:
        return apps.get_model(field.related_model._meta.label).objects.get().pk
    if field.choices:
        return field.choices[0][0]
    kinds = {
        models.UUIDField: uuid.UUID(int=7),
        models.JSONField: {"ä": [1, None, "'\\\""]},
        models.DateTimeField: MOMENT,
        models.DateField: MOMENT.date(),
        models.TimeField: MOMENT.time(),
        models.BooleanField: True,
        models.FloatField: 7.25,
        models.IntegerField: 7,
        models.GenericIPAddressField: "192.0.2.7",
        models.Field: f"ä'{field.name}"[: field.max_length],
    }
    return next(value for kind, value in kinds.items() if isinstance(field, kind))


def rows(connection: BaseDatabaseWrapper) -> dict[str, list[dict[str, Any]]]:
    """All that is stored, except which migrations were applied."""
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor)) - {"django_migrations"}
        return {table: _rows(cursor, connection.ops.quote_name(table)) for table in tables}


def _rows(cursor: Any, table: str) -> list[dict[str, Any]]:
    cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def schema(connection: BaseDatabaseWrapper) -> dict[str, Any]:
    """Columns, indexes and constraints of each table, whatever order they were made in; checks by their text."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        return {"definitions": _definitions(cursor, connection.vendor)} | {
            table: (_columns(connection, cursor, table), _constraints(connection, cursor, table)) for table in tables
        }


def _columns(connection: BaseDatabaseWrapper, cursor: Any, table: str) -> set[tuple[Any, ...]]:
    found = connection.introspection.get_table_description(cursor, table)
    return {
        (each.name, each.type_code, each.display_size, each.null_ok, each.default, each.collation) for each in found
    }


def _constraints(connection: BaseDatabaseWrapper, cursor: Any, table: str) -> list[Any]:
    """SQLite numbers those without a name by the order of the columns, which tells nothing."""
    found = connection.introspection.get_constraints(cursor, table)
    named = ((re.sub(r"^(fk_|__unnamed_constraint_)\d+.*", r"\1", name), each) for name, each in found.items())
    return sorted(((name, sorted(each.items(), key=str)) for name, each in named), key=str)


def _definitions(cursor: Any, vendor: str) -> list[str]:
    """The text of each index and each check."""
    if vendor == "postgresql":
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")
        indexes = cursor.fetchall()
        cursor.execute("SELECT conrelid::regclass::text || conname || pg_get_constraintdef(oid) FROM pg_constraint")
        return sorted(text for (text,) in [*indexes, *cursor.fetchall()] if text)
    cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    indexes = cursor.fetchall()
    cursor.execute("SELECT tbl_name, sql FROM sqlite_master WHERE type = 'table'")
    parts = [f"{table}: {part.strip()}" for table, sql in cursor.fetchall() for part in _parts(sql)]
    return sorted([*(sql for (sql,) in indexes), *parts])


def _parts(sql: str) -> list[str]:
    """Columns and constraints of a CREATE TABLE: what stands between commas outside of brackets."""
    depth, parts = 0, [""]
    for character in sql.partition("(")[2].rpartition(")")[0]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def applied(connection: BaseDatabaseWrapper) -> set[str]:
    return {name for app, name in MigrationLoader(connection).applied_migrations if app == "dashboard"}


@pytest.fixture
def fresh(server) -> Any:
    """The schema of a database that begins today."""
    with database(f"{server}fresh") as connection:
        call_command("migrate", verbosity=0, skip_checks=True)
        return schema(connection)


def test_a_fresh_database_begins_with_one_step_and_has_the_groups(tmp_path):
    with database(f"sqlite:///{tmp_path}/fresh") as connection:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        call_command("migrate", verbosity=0, skip_checks=True)

        assert [step.name for step, _ in plan if step.app_label == "dashboard"] == [SQUASHED, *LATER]
        assert set(Group.objects.values_list("name", flat=True)) == set(GROUPS)


def test_a_populated_database_keeps_its_rows_and_has_the_schema_of_a_fresh_one(server, fresh):
    with database(f"{server}grown") as connection:
        fill(grow(connection, LAST))
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
        before = rows(connection)
        assert all(before[table] for table in before if table.startswith("dashboard_"))

        call_command("migrate", verbosity=0, skip_checks=True)

        grown = {table: [row | NEW_COLUMNS.get(table, {}) for row in kept] for table, kept in before.items()}
        assert rows(connection) == grown | {table: [] for table in NEW_TABLES}
        assert SQUASHED in applied(connection)
        assert schema(connection) == fresh


@pytest.mark.nightly
@pytest.mark.parametrize("server", ["sqlite"], indirect=True)
def test_a_database_from_the_middle_goes_its_own_way_to_the_same_schema(server, fresh):
    with database(f"{server}grown") as connection:
        grow(connection, MIDDLE)

        call_command("migrate", verbosity=0, skip_checks=True)

        assert applied(connection) == {SQUASHED, *REPLACED, *LATER}
        assert schema(connection) == fresh
