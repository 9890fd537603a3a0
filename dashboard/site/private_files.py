"""Files that only the control plane's own user can read: the state folder and the database in it."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from dashboard.site.environment import shortened

FOLDER, FILE = 0o700, 0o600


def private_folder(folder: Path) -> Path:
    """The folder, created if missing, inaccessible to other users. Raises ImproperlyConfigured if that fails."""
    try:
        folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        _close(folder, FOLDER)
    except OSError as error:
        raise ImproperlyConfigured(
            f"STATE_DIR {shortened(str(folder))} cannot be used: {error.strerror}. Set another one."
        ) from None
    return folder


def private_file(file: Path) -> Path:
    """The file, created empty if missing, inaccessible to other users. SQLite's additional files inherit its mode.

    Raises ImproperlyConfigured if it cannot be written, or is there and no regular file, such as /dev/null: its rights
    are not the control plane's to take away.
    """
    if file.exists() and not file.is_file():
        raise ImproperlyConfigured(f"The database {shortened(str(file))} is not a regular file.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, FILE))
        for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
            if each.exists():
                _close(each, FILE)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The database {shortened(str(file))} cannot be written: {error.strerror}."
        ) from None
    return file


def _close(path: Path, mode: int) -> None:
    """Remove the rights of other users. Files of another owner are left unchanged."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        path.chmod(status.st_mode & mode)
