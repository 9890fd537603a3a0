"""The probe of USAGE_DIR: a folder that is private, writable and has room, or an object store that takes a file."""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from dashboard.checks.findings import Finding, ok, problem, warning
from pipeline.usage.place import AddressError, missing_connector, remedy_for

ITEM = "usage folder"
SCARCE_BYTES, LITTLE_BYTES = 100_000_000, 2_000_000_000
_TRIED = "_tmp-check-"
"""Readers skip names that begin like this, and compaction deletes them after an hour."""
_USABLE = "Let the user of the workers write there, or set USAGE_DIR."


def probe() -> Sequence[Finding]:
    """The findings about USAGE_DIR. It is created if it is missing, as a worker would."""
    where = settings.USAGE_DIR
    return _store(where) if "://" in where else _folder(Path(where).expanduser())


def _folder(folder: Path) -> list[Finding]:
    file = folder / f"{_TRIED}{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        file.unlink()
        mode, free = folder.stat().st_mode, shutil.disk_usage(folder).free
    except OSError as error:
        return [problem(ITEM, f"{folder} cannot be written: {error.strerror}.", _USABLE)]
    return judged(folder, mode, free, is_inside_private=_is_inside_private(folder))


def judged(folder: Path, mode: int, free: int, *, is_inside_private: bool = False) -> list[Finding]:
    """The findings about a folder that can be written. Pure."""
    found = []
    if free < SCARCE_BYTES:
        found.append(problem(ITEM, f"{folder} has {free / 1e6:.0f} MB left.", "Free some space: usage would be lost."))
    elif free < LITTLE_BYTES:
        found.append(warning(ITEM, f"{folder} has {free / 1e9:.1f} GB left.", "Make room."))
    if mode & stat.S_IWOTH and not is_inside_private:
        found.append(problem(ITEM, f"Every user of this host can write to {folder}.", f"Run: chmod o-rwx {folder}"))
    elif mode & 0o077 and not is_inside_private:
        found.append(warning(ITEM, f"Other users of this host can read {folder}.", f"Run: chmod go-rwx {folder}"))
    return found or [ok(ITEM, f"{folder} is writable and private, with {free / 1e9:.1f} GB left.")]


def _is_inside_private(folder: Path) -> bool:
    """Whether a folder above it, such as STATE_DIR, keeps other users out."""
    return any(not parent.stat().st_mode & 0o011 for parent in folder.parents if os.access(parent, os.F_OK))


def _store(url: str) -> list[Finding]:
    import pyarrow.fs as pafs

    try:
        store, root = pafs.FileSystem.from_uri(url)
        name = f"{root}/{_TRIED}{uuid.uuid4().hex}"
        with store.open_output_stream(name) as file:
            file.write(b"-")
        with suppress(OSError):
            store.delete_file(name)
    except (OSError, ValueError, NotImplementedError) as error:
        return [problem(ITEM, f"The store of USAGE_DIR accepts no file ({_code_of(error)}).", "Check URL and keys.")]
    return [ok(ITEM, f"{url.split('://')[0]}://…: a file was written and deleted."), *_spark(url)]


def _spark(url: str) -> list[Finding]:
    """Whether Spark has what it needs to read the store; what a cluster is configured with cannot be seen here."""
    try:
        connector = missing_connector(url)
    except AddressError as error:
        return [problem(ITEM, str(error), "Correct USAGE_DIR.")]
    if not connector:
        return []
    cause = f"Spark has no connector for it ({connector})."
    return [warning(ITEM, cause, f"{remedy_for(connector)} Only needed where charges are computed.")]


def _code_of(error: Exception) -> str:
    """The store's own code, such as NO_SUCH_BUCKET; its sentences may repeat what the URL contains."""
    named = re.search(r"AWS Error ([A-Z_]+) ", str(error))
    return named[1] if named else type(error).__name__
