"""Files of the control plane that only its own user reads: the state folder and the database in it."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

FOLDER, FILE = 0o700, 0o600


def private_folder(folder: Path) -> Path:
    """The folder, made where it is missing, closed to other users. Raises ImproperlyConfigured where it cannot be."""
    try:
        folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        _close(folder, FOLDER)
    except OSError as error:
        raise ImproperlyConfigured(f"STATE_DIR {folder} cannot be used: {error.strerror}. Give another one.") from None
    return folder


def private_file(file: Path) -> Path:
    """The file, made empty where it is missing, closed to other users. SQLite's own files beside it get its mode.

    Raises ImproperlyConfigured where it cannot be written.
    """
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, FILE))
        for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
            if each.exists():
                _close(each, FILE)
    except OSError as error:
        raise ImproperlyConfigured(f"The database {file} cannot be written: {error.strerror}.") from None
    return file


def _close(path: Path, mode: int) -> None:
    """Take the rights of others away; those of the owner stay. What belongs to somebody else is theirs to close."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        path.chmod(status.st_mode & mode)
