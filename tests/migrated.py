"""A migrated SQLite database: made once, by the first process of a run that needs one, and copied by all others.

In memory, it begins each test as it was made, without the signals by which groups, rights and their kinds come back.
"""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.db.backends.sqlite3.creation import DatabaseCreation
from django.test import TransactionTestCase

ROOT = Path(__file__).resolve().parent.parent
_make_anew = DatabaseCreation.create_test_db


def template() -> Path:
    """The file; another one as soon as anything changes of what migrating runs."""
    found = Path(tempfile.gettempdir()) / f"migrated-{os.getuid()}-{_digest()}.sqlite3"
    if found.exists():
        return found
    with found.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one migrates, the others wait: all workers of a run begin with this
        if not found.exists():
            _make(found)
    return found


def _make(found: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="migrating-"))
    made = folder / "db.sqlite3"
    environment = {**os.environ, "STATE_DIR": str(folder), "DATABASE_URL": f"sqlite:///{made}"}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    made.replace(found)
    shutil.rmtree(folder)


def _digest() -> str:
    sources = sorted((ROOT / "dashboard").rglob("*.py"))
    reported = hashlib.sha256(str(ROOT).encode())
    for source in sources:
        reported.update(source.read_bytes())
    return reported.hexdigest()[:16]


def copy(file: Path) -> None:
    """Puts a migrated database there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(template(), file)


def create_test_db(self: Any, *arguments: Any, **options: Any) -> str:
    """What Django does before the first test with a database: in memory, a copy instead of all migrations."""
    name: str = self._get_test_db_name()
    if not self.is_in_memory_db(name) or options.get("keepdb"):
        return str(_make_anew(self, *arguments, **options))
    self.connection.close()
    settings.DATABASES[self.connection.alias]["NAME"] = name
    self.connection.settings_dict["NAME"] = name
    self.connection.ensure_connection()
    with closing(sqlite3.connect(template())) as made:
        made.backup(self.connection.connection)
    TransactionTestCase._fixture_teardown = _begin_anew  # type: ignore[attr-defined]
    return name


@cache
def _first_rows() -> dict[str, list[tuple[Any, ...]]]:
    """What migrating stores, by table, in the order in which the tables were made."""
    with closing(sqlite3.connect(template())) as made:
        names = [name for (name,) in made.execute("select name from sqlite_master where type = 'table'")]
        rows = {name: made.execute(f'select * from "{name}"').fetchall() for name in names}
    return {name: found for name, found in rows.items() if found and name.startswith(("auth_", "django_content"))}


def _begin_anew(_: Any) -> None:
    """What Django does after a test that has committed: all tables are emptied, and have their first rows again."""
    call_command("flush", verbosity=0, interactive=False, reset_sequences=False, inhibit_post_migrate=True)
    with transaction.atomic(), connection.cursor() as cursor:
        for name, rows in _first_rows().items():
            cursor.executemany(f'insert into "{name}" values ({", ".join(["%s"] * len(rows[0]))})', rows)
