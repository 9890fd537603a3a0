"""Rows on their way into the database, a chunk at a time and without an object for each.

A month may have hundreds of thousands of rows. As objects they take three times the time, and gigabytes of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection, models

CHUNK = 1_000
AS_THEY_ARE = (models.BigIntegerField, models.CharField, models.TextField)
"""Fields whose checked values the database takes as they are."""


class ManyRows:
    """The new rows of one model, given as checked values: each by the name of its field, a related row as itself."""

    def __init__(self, model: type[models.Model]) -> None:
        self.fields = [field for field in model._meta.concrete_fields if not field.primary_key]
        self.defaults = {field.name: field.get_default() for field in self.fields}
        table, *columns = map(
            connection.ops.quote_name, (model._meta.db_table, *(str(of.column) for of in self.fields))
        )
        places = ", ".join(["%s"] * len(columns))
        # The names are those of the model.
        self.insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
        self.waiting: list[list[Any]] = []

    def add(self, values: Mapping[str, Any]) -> None:
        """Store the row, together with others."""
        known = {**self.defaults, **values}
        self.waiting.append([_as_stored(field, known[field.name]) for field in self.fields])
        if len(self.waiting) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Store the rows that are waiting for others."""
        if self.waiting:
            with connection.cursor() as cursor:
                cursor.executemany(self.insert, self.waiting)
        self.waiting = []


def _as_stored(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, AS_THEY_ARE):
        return value
    return value.pk if isinstance(value, models.Model) else field.get_db_prep_save(value, connection)
