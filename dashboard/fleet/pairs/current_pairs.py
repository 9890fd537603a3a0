"""The current pairs of PAIRS_FILE: changes are read within seconds, and an invalid file is ignored."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from dashboard.fleet.pairs.pairs_file import PairConfig, PairsFileError

LOOK_S = 1.0

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int] | None
"""An identifier of a version of a file; None if there is no file."""


class PairsFile:
    """Reads the file on first use, and again after it has changed and is stable between two checks.

    ``check`` raises PairsFileError for unusable content; ``taken`` is called after each change.
    """

    def __init__(
        self,
        file: Callable[[], Path],
        load: Callable[[], dict[str, PairConfig]],
        check: Callable[[Mapping[str, PairConfig]], None] = lambda pairs: None,
        taken: Callable[[Mapping[str, PairConfig]], None] = lambda pairs: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._load, self._check, self._taken, self._now = file, load, check, taken, now
        self._lock = threading.Lock()
        self._pairs: dict[str, PairConfig] | None = None
        self._stamp: Stamp = None
        self._seen: Stamp = None
        self._look_at = 0.0
        self.problem = ""
        """Why the current file is not used; the previous pairs remain."""

    def pairs(self) -> dict[str, PairConfig]:
        """The pairs by name. Raises PairsFileError only if the file has never been valid."""
        with self._lock:
            if self._pairs is None:
                self._stamp = self._seen = self._look()
                self._pairs = self._load()
            elif self._now() >= self._look_at:
                self._pairs = self._looked_at(self._pairs)
            return self._pairs

    def _look(self) -> Stamp:
        self._look_at = self._now() + LOOK_S
        try:
            found = self._file().stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _looked_at(self, known: dict[str, PairConfig]) -> dict[str, PairConfig]:
        before, self._seen = self._seen, self._look()
        if self._seen == self._stamp or self._seen != before:  # unchanged, or currently being written
            return known
        self._stamp = self._seen
        try:
            fresh = self._load()
            self._check({name: pair for name, pair in fresh.items() if known.get(name) != pair})
        except PairsFileError as error:
            self.problem = str(error)
            log.error("the changed pairs file cannot be used; the previous pairs remain", problem=self.problem)
            return known
        self.problem = ""
        if fresh != known:
            log.info("the pairs file has changed", **_differences(known, fresh))
            self._report(fresh)
        return fresh

    def _report(self, fresh: dict[str, PairConfig]) -> None:
        try:
            self._taken(fresh)
        except Exception as error:  # the new pairs are used anyway
            log.error("a change of the pairs file was not stored; run sync_pairs", problem=repr(error))


def _differences(known: Mapping[str, PairConfig], fresh: Mapping[str, PairConfig]) -> dict[str, list[str]]:
    both = known.keys() & fresh.keys()
    return {
        "new": sorted(fresh.keys() - known.keys()),
        "gone": sorted(known.keys() - fresh.keys()),
        "changed": sorted(name for name in both if known[name] != fresh[name]),
    }
