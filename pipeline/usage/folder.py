"""The folder of the usage files: what is in it, on this machine or in an object store, by PyArrow's file systems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow.fs as pafs

from pipeline.errors import InputError
from pipeline.usage.place import VARIABLE, Settings, place_of, without_keys

PATTERN = "{}[]*?\\:"
"""Characters by which Spark and Hadoop take a name for a pattern or an address."""
IS_A_FOLDER = "is a folder inside a day"
NO_DAY = "is not a folder named date=YYYY-MM-DD"
Mark = list[int]
"""The size and the time of a file: it has changed when one of them has."""


@dataclass(frozen=True, slots=True)
class Child:
    """A file or folder."""

    name: str
    path: str
    is_folder: bool
    mark: Mark


@dataclass(frozen=True, slots=True)
class UsageFolder:
    """The folder that holds `usage/` and `connections/`.

    `address`: the folder as Spark reads it, with the `settings` of Hadoop that this takes; `root`: as PyArrow's
    `filesystem` reads it; `url`: without keys, what is known of the folder is kept under it.
    """

    url: str
    address: str
    root: str
    filesystem: pafs.FileSystem
    settings: Settings

    @classmethod
    def of(cls, usage: str, environment: Mapping[str, str] = os.environ) -> UsageFolder:
        """The folder at this path or URL. A URL without keys gets those of the environment's. Raises InputError."""
        place = place_of(usage, environment)
        address = place.address.rstrip("/")
        if address.startswith("file:") or "://" not in address:
            root = str(Path(address.removeprefix("file://")).absolute())
            if odd := sorted(set(PATTERN) - {":"} & set(root)):
                raise InputError(f"{root} has {' '.join(odd)}, which Spark takes for a pattern: rename the folder.")
            return cls(f"file://{root}", f"file://{root}", root, pafs.LocalFileSystem(), {})
        with_keys = environment.get(VARIABLE, "")
        url = with_keys if with_keys and without_keys(with_keys) == usage else usage
        try:
            filesystem, root = pafs.FileSystem.from_uri(url.replace("s3a://", "s3://", 1))
        except (OSError, ValueError) as error:
            raise InputError(f"{without_keys(url)} cannot be reached: {error}.") from None
        return cls(without_keys(url).rstrip("/"), address, root.rstrip("/"), filesystem, place.settings)

    def children(self, *folder: str) -> list[Child]:
        """What is in a folder under the root, by name, without unfinished uploads; nothing where there is no such
        folder. Raises InputError.
        """
        path = "/".join((self.root, *folder))
        try:
            found = _local(path) if isinstance(self.filesystem, pafs.LocalFileSystem) else self._stored(path)
        except OSError as error:
            raise InputError(f"The folder {path} cannot be read: {error.strerror or error}.") from error
        return sorted(found, key=lambda each: each.name)

    def _stored(self, path: str) -> list[Child]:
        infos = self.filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return [
            Child(info.base_name, info.path, info.type == pafs.FileType.Directory, [info.size or 0, info.mtime_ns or 0])
            for info in infos
            if not _is_hidden(info.base_name)
        ]

    def days(self, kind: str) -> tuple[list[str], list[tuple[str, str]]]:
        """The days that have a folder of these records, and what else is beside them, each with what is wrong."""
        days, others = [], []
        for child in self.children(kind):
            day = child.name.removeprefix("date=")
            if child.is_folder and child.name.startswith("date=") and is_date(day):
                days.append(day)
            else:
                others.append((printable(child.path), NO_DAY))
        return days, others

    def files(self, kind: str, day: str) -> list[Child]:
        """What is in the folder of a day."""
        return self.children(kind, f"date={day}")


def _is_hidden(name: str) -> bool:
    """Whether it is an unfinished upload or a checksum."""
    return name.startswith(("_", "."))


def _local(folder: str) -> list[Child]:
    try:
        with os.scandir(folder) as entries:
            seen = (_child(entry) for entry in entries if not _is_hidden(entry.name))
            return [child for child in seen if child is not None]
    except FileNotFoundError:
        return []


def _child(entry: os.DirEntry[str]) -> Child | None:
    """The entry; nothing of one that was deleted since its name was read. Raises InputError for a link that leads
    nowhere: what is behind it is missing on the bill.
    """
    try:
        found = entry.stat()
        return Child(entry.name, entry.path, entry.is_dir(), [found.st_size, found.st_mtime_ns])
    except OSError:
        if os.path.islink(entry.path):
            raise InputError(f"{entry.path} is a link that leads nowhere: repair or remove it.") from None
        if os.path.lexists(entry.path):
            raise
        return None


def printable(path: str) -> str:
    """The path with bytes that are no text written as `\\udcf6`: such a name can be neither printed nor stored."""
    return path.encode(errors="backslashreplace").decode()


def is_date(text: str) -> bool:
    """Whether it is a day, written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def day_number(day: str) -> int:
    """The days from 1970 to this one."""
    return (date.fromisoformat(day) - date(1970, 1, 1)).days


def day_of(number: int) -> str:
    """The day with this number."""
    return date.fromordinal(date(1970, 1, 1).toordinal() + number).isoformat()
