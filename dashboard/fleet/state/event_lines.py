"""Events for display: the same event of several processes is one line."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from dashboard.models import FailoverEvent
from dashboard.models.syphon import WHOLE_PAIR
from pairing.events import KINDS

SAME_TIME = timedelta(seconds=10)
ECHOED = tuple(name for name, kind in KINDS.items() if kind.is_repeated)


@dataclass(slots=True)
class EventLine:
    """An event, the number of processes that reported it at about the same time, and how often they did."""

    event: FailoverEvent
    processes: int = 1
    times: int = 1

    @property
    def often(self) -> str:
        """`in 3 processes`, `4 times`, or empty."""
        if self.processes > 1:
            return f"in {self.processes} processes"
        return f"{self.times} times" if self.times > 1 else ""


def together(events: Iterable[FailoverEvent]) -> list[EventLine]:
    """Events, newest first; equal events of an entity within SAME_TIME are merged."""
    reported: list[EventLine] = []
    latest: dict[tuple[str, str, str], EventLine] = {}
    seen: dict[tuple[str, str, str], set[str]] = {}
    for event in _without_echoes(list(events)):
        key = (event.pair, event.entity, event.kind)
        known = latest.get(key)
        if known and not event.operator and known.event.time - event.time <= SAME_TIME:
            seen[key].add(event.process)
            known.processes, known.times = len(seen[key]), known.times + 1
            continue
        latest[key], seen[key] = EventLine(event), {event.process}
        reported.append(latest[key])
    return reported


def _without_echoes(events: list[FailoverEvent]) -> list[FailoverEvent]:
    """Whether the event of a queue only repeats the operator's pause of the whole pair."""
    words = [event for event in events if event.operator and event.kind in ECHOED]

    def is_echo(event: FailoverEvent) -> bool:
        return event.kind in ECHOED and not event.operator and any(_follows(event, word) for word in words)

    return [event for event in events if not is_echo(event)]


def _follows(event: FailoverEvent, word: FailoverEvent) -> bool:
    is_meant = word.entity in (WHOLE_PAIR, event.entity)
    return (event.pair, event.kind) == (word.pair, word.kind) and is_meant and abs(event.time - word.time) <= SAME_TIME


CAUSES = (
    (r"quota|resource-limit-exceeded|QuotaExceeded", "quota reached"),
    (r"internal-error", "rejects sends: internal error"),
    (r"server-?busy|throttl", "rejects sends: server busy"),
    (r"EntityDisabled|entity-disabled|is disabled|SendDisabled", "the entity is disabled"),
    (r"EntityNotFound|amqp:not-found|resource-deleted|could not be found", "the entity does not exist"),
    (r"a right is missing", "refused: a right is missing"),
    (r"wrong key|unauthori[sz]ed|AuthenticationError|AuthorizationError", "refused: wrong key, or no such entity"),
    (r"getaddrinfo|Name or service not known|name resolution", "the primary's name cannot be resolved"),
    (r"Connection ?refused|Errno 111", "the primary refuses connections"),
    (r"\breset|connection:forced|detach-forced|Broken ?pipe|ConnectionError", "the primary resets connections"),
    (r"no answer|not answer|no connection|did not open|Timeout|timed out", "the primary does not answer"),
)
"""What is looked for in a reason, and what that means. The first match counts."""
_KNOWN = tuple((re.compile(pattern, re.IGNORECASE), words) for pattern, words in CAUSES)


def plain_cause(reason: str, kind: str = "") -> str:
    """The cause in a few words; empty if the reason is not known, for example because a person wrote it.

    `kind`: that of an event, because backlog queues are in the secondary.
    """
    words = next((words for pattern, words in _KNOWN if pattern.search(reason)), "")
    return words.replace("the primary", "the secondary") if kind == "queue_pulled" else words
