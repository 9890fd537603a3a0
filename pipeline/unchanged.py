"""The result of a month's last run, kept beside its hours: while nothing changes that a run reads, it is given again.

That is found out before Spark is started. Only the availability of the entities is computed anew, because it depends on
the time and on the inventory. A result that would come out differently tomorrow from the same files is not kept.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.checks import FUTURE
from pipeline.months import Month
from pipeline.outages import Episode, availability
from pipeline.results import line_of
from pipeline.schemas import KEPT_SHAPE
from pipeline.sources import is_date

CODE = Path(__file__).parent
THE_RUN, AN_OUTAGE, AN_ENTITY, THE_END = (
    json.dumps({"record": kind})[:-1] for kind in ("run", "episode", "availability", "end")
)
"""How the lines of these records begin."""
FASTEST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that the result of a run follows from, except the time and the entities.

    `usage`: the local folder that holds `usage/` and `connections/`; `outages`: the file of outages, if they are part
    of the result; `files`: the others, where there are any; `options`: the other arguments.
    """

    month: Month
    usage: Path
    outages: Path | None
    files: tuple[Path | None, ...]
    options: Mapping[str, object]

    def digest(self) -> str:
        """A digest of the names, sizes and times of the records' files, of the other files, and of the code."""
        found = hashlib.sha256(repr((KEPT_SHAPE, str(self.month), sorted(self.options.items()))).encode())
        for file in [self.outages, *self.files, *sorted(CODE.rglob("*.py"))]:
            content = b"" if file is None else file.read_bytes()
            found.update(f"{file is None} {len(content)} ".encode() + content)
        for records in ("usage", "connections"):
            for entry in _entries(self.usage / records, str(self.month)):
                found.update(f"{records} {entry}\n".encode(errors="surrogateescape"))
        return found.hexdigest()


def _entries(root: Path, month: str) -> Iterator[tuple[str, int, int]]:
    """The name, size and time of each file of the month's days, and of everything in the folder that is no day."""
    for entry in _scan(root):
        day = entry.name.removeprefix("date=")
        if not entry.is_dir() or not entry.name.startswith("date=") or not is_date(day):
            yield _mark(entry, "")
        elif day.startswith(f"{month}-"):
            yield from (_mark(file, f"{entry.name}/") for file in _scan(root / entry.name))


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _mark(file: os.DirEntry[str], folder: str) -> tuple[str, int, int]:
    try:
        found = file.stat()
    except FileNotFoundError:  # deleted since the folder was read, by the compaction for example
        return folder + file.name, -1, -1
    return folder + file.name, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The place of a month's result under `USAGE_DIR/hourly/`, and the digest of what a run is about to read."""

    inputs: Inputs
    digest: str

    @classmethod
    def of(cls, inputs: Inputs) -> KeptResult:
        """To be made before a run reads anything: what comes later is then a change to the next run."""
        return cls(inputs, inputs.digest())

    @property
    def path(self) -> Path:
        return self.inputs.usage / "hourly" / f"_{self.inputs.month}.result.gz"

    @property
    def _is_of_this_machine(self) -> bool:
        """Whether the hours are kept, and on this machine, not on the file system that Hadoop takes for the default."""
        return (self.path.parent / f"_{self.inputs.month}.json").exists()

    def give(self, result: Path, inventory: Sequence[tuple[str, str]], now: datetime) -> bool:
        """Write the kept result to this file, if it was made from the same. Returns whether it was."""
        if not self._is_of_this_machine:
            return False
        beside = result.with_suffix(".part")
        try:
            with gzip.open(self.path, "rt", encoding="utf-8") as kept:
                if next(kept, "").strip() != self.digest:
                    return False
                with beside.open("w", encoding="utf-8") as out:
                    out.writelines(self._at(kept, inventory, now))
        except (OSError, EOFError, ValueError, zlib.error):  # nothing is kept, or a damaged file
            return False
        beside.replace(result)
        return True

    def _at(self, kept: Iterable[str], inventory: Sequence[tuple[str, str]], now: datetime) -> Iterator[str]:
        """The lines of the result as they are at this time: with the availability of each entity until then."""
        episodes: list[Episode] = []
        count, is_head = 0, True
        for line in kept:
            kind = line[: line.index(",")]
            if is_head and kind not in (THE_RUN, AN_OUTAGE):
                is_head = False
                if self.inputs.outages is not None:
                    known = availability(episodes, inventory, self.inputs.month, now)
                    yield from (line_of({"record": "availability", **asdict(each)}) for each in known)
                    count += len(known)
            if kind == AN_OUTAGE:
                episodes.append(_episode(json.loads(line)))
            if kind not in (AN_ENTITY, THE_END):
                yield line
                count += 1
        yield line_of({"record": "end", "records": count})

    def keep(self, result: Path, now: datetime) -> None:
        """Keep this result for the next run, unless time alone will change it. Deletes what was kept before."""
        with suppress(OSError):  # the result is complete without it
            self.path.unlink(missing_ok=True)
            if not self._is_of_this_machine or not self._is_lasting(result, now):
                return
            beside = self.path.with_suffix(".part")
            with (
                result.open(encoding="utf-8") as made,
                gzip.open(beside, "wt", encoding="utf-8", compresslevel=FASTEST) as out,
            ):
                out.write(self.digest + "\n")
                out.writelines(made)
            beside.replace(self.path)

    def _is_lasting(self, result: Path, now: datetime) -> bool:
        """Whether the same files give the same result later: no record is refused because it lies in the future, and
        no outage goes on.
        """
        with result.open(encoding="utf-8") as made:
            run = json.loads(next(made))
        if self.inputs.month.start > now or FUTURE in run["counts"]["reasons"]:
            return False
        outages = self.inputs.outages
        lines = outages.read_text(encoding="utf-8").splitlines() if outages else []
        return all(_is_over(json.loads(line), now) for line in lines)


def _is_over(outage: Mapping[str, Any], now: datetime) -> bool:
    return outage["ended"] is not None and datetime.fromisoformat(outage["ended"]) <= now


def _episode(record: Mapping[str, Any]) -> Episode:
    return Episode(
        pair=record["pair"],
        entity=record["entity"],
        started=datetime.fromisoformat(record["started_at"]),
        ended=datetime.fromisoformat(record["ended_at"]) if record["ended_at"] else None,
        cause=record["cause"],
        reason=record["reason"],
        down_s=record["down_s"],
    )
