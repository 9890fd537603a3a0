"""Names of scratch entities: recognisable, unique to a run, and all that the live check ever deletes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pairing.ends import Role

PREFIX = "paired-namespaces-check-"
_WHEN = "%Y%m%d%H%M%S"
_NAME = re.compile(rf"{PREFIX}(?P<when>\d{{14}})-[0-9a-f]{{8}}(?=/)")
Kind = Literal["queue", "topic"]


@dataclass(frozen=True, slots=True)
class Scratch:
    """One scratch entity of some run."""

    role: Role
    kind: Kind
    path: str

    def __post_init__(self) -> None:
        if began_at(self.path) is None:
            raise ValueError(f"{self.path} is not a scratch entity of a check")


def new_prefix(now: datetime, token: str) -> str:
    """The first part of all names of a run; `token`: 8 hexadecimal digits."""
    prefix = f"{PREFIX}{now.astimezone(UTC):{_WHEN}}-{token}"
    if began_at(f"{prefix}/queue") is None:
        raise ValueError(f"{token} is not 8 hexadecimal digits")
    return prefix


def began_at(path: str) -> datetime | None:
    """When the run began that has created the entity; None if it is not a scratch entity."""
    found = _NAME.match(path)
    try:
        return datetime.strptime(found["when"], _WHEN).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def among(role: Role, kind: Kind, paths: Iterable[str], prefix: str = PREFIX) -> list[Scratch]:
    """The scratch entities among these, of one run if its prefix is given."""
    mine = prefix if prefix == PREFIX else f"{prefix}/"
    return [Scratch(role, kind, path) for path in paths if began_at(path) is not None and path.startswith(mine)]


def described(left: Iterable[Scratch]) -> list[str]:
    """One line for each, with when its run began."""
    return [f"{one.role} {one.kind} {one.path}, of a run that began {began_at(one.path):%F %T} UTC" for one in left]
