"""An unavailable database: the errors that indicate it, and one sentence about the cause."""

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

AWAY = (OperationalError, InterfaceError)
"""Errors of Django when the database does not respond, closes a connection, or remains locked."""
RETRY_AFTER_S = 5
SENTENCE = "The database does not answer. Nothing was changed; try again in a few seconds."
MOST_OF_A_REASON = 300


def problem_of(error: DatabaseError) -> str:
    """The problem of the database and what to do about it, found by querying it. The text contains no credentials."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return f"The database {_name()} does not answer ({_first_line(error)}). Start it, or correct DATABASE_URL."
    if missing:
        return f"The database {_name()} is not migrated: run manage.py migrate first."
    return f"The database {_name()} rejected a statement ({_first_line(error)})."


def _name() -> str:
    settings = connection.settings_dict
    host, port = settings.get("HOST"), settings.get("PORT")
    return f"{settings['NAME']}" + (f" at {host}" if host else "") + (f":{port}" if port else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:MOST_OF_A_REASON]
