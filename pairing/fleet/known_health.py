"""The health of entities as known to a process, and which reports are new to it. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from pairing.fleet.shared_health import SharedHealth


class KnownHealth:
    """The last adopted health of each entity, with the reports that are withheld."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._known: dict[str, SharedHealth] = {}
        self._withheld: set[str] = set()  # known, but not passed on because of a pending report

    def __iter__(self) -> Iterator[SharedHealth]:
        return iter(list(self._known.values()))

    def get(self, path: str) -> SharedHealth | None:
        """The last health of an entity; None if it is unknown."""
        return self._known.get(path)

    def is_unclear(self, health: SharedHealth, *, is_read: bool) -> bool:
        """Whether only a read of Redis can show the meaning of this report.

        ``failing`` ends no failover: if it follows one, a recovery was missed, or Redis has lost the failover. ``knew``
        shows which of them if its author knew of the failover, otherwise a read does (``is_read``: Redis has lost
        nothing since the last one); until then neither is assumed.
        """
        known = self._known.get(health.path)
        if known is None or not _follows_failover(known, health):
            return False
        return not (is_read or health.knew >= known.version)

    def take(
        self, health: SharedHealth, *, is_pending: bool, is_answer: bool = False, is_reported: bool = False
    ) -> SharedHealth | None:
        """Process a report. Returns the health to pass on; None if it is not new.

        What this process is about to report (``is_pending``) is first decided in Redis; what it has just reported
        (``is_reported``) is not new to it.
        """
        known = self._known.get(health.path)
        if known is not None and _follows_failover(known, health):
            health = replace(health, state="healthy", reason="it recovered, and failed again")
        is_own = is_reported or (health.process == self._process and not _is_news_to_itself(health, known))
        is_new = known is None or health.version > known.version or _gives_way(known, health)
        if is_new:
            self._known[health.path] = health
        is_withheld = health.path in self._withheld
        is_due = is_new or is_answer or (is_withheld and health.version == self._known[health.path].version)
        if is_due:
            (self._withheld.add if is_pending else self._withheld.discard)(health.path)
        return health if is_due and not (is_own or health.state == "failing" or is_pending) else None


def has_forgotten(text: str | None, known: SharedHealth, *, was_emptied: bool = True) -> bool:
    """Whether Redis has no health, an older one, or, if it was emptied, ``failing`` by a process that knew of no
    failover. Otherwise that process may have missed a recovery.
    """
    if text is None:
        return True
    stands = SharedHealth.from_json(text)
    if was_emptied and stands.state == "failing" and known.state == "failed_over":
        return stands.knew < known.version
    return stands.version < known.version


def _follows_failover(known: SharedHealth, health: SharedHealth) -> bool:
    return (known.state, health.state) == ("failed_over", "failing")


def _gives_way(known: SharedHealth, health: SharedHealth) -> bool:
    """Whether the known health is only ``failing``, which any failover replaces."""
    return known.state == "failing" and health.state == "failed_over"


def _is_news_to_itself(health: SharedHealth, known: SharedHealth | None) -> bool:
    """Whether a process's own report is new to it: another failover arrived after the report that had ended it."""
    return known is not None and known.state == "failed_over" and known.process != health.process
