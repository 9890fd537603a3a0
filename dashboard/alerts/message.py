"""The content of messages: equal for all channels, which only format it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

MOST_LINES = 20
PHASES = {"opened": "", "escalated": "Not acknowledged: ", "resolved": "Resolved: ", "test": "Test: "}
LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One alert of a message."""

    pair: str
    entity: str
    severity: str
    title: str
    detail: str
    began_at: str
    ended_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message about one or several alerts of a kind. Stored before it is first sent, and never changed."""

    id: str
    phase: str
    kind: str
    severity: str
    pair: str
    title: str
    lines: tuple[Line, ...]
    more: int = 0
    url: str = ""
    at: str

    def to_json(self) -> dict[str, Any]:
        """The JSON of the database and of webhooks."""
        return asdict(self)

    @classmethod
    def from_json(cls, reported: dict[str, Any]) -> Message:
        """Parse the output of `to_json`."""
        lines = tuple(Line(**line) for line in reported["lines"])
        return cls(**{**reported, "lines": lines})

    @property
    def summary(self) -> str:
        """One line: a subject, a notification on a phone."""
        return one_line(PHASES[self.phase] + self.title)

    @property
    def sentences(self) -> list[str]:
        """One sentence per alert, and the number of further alerts."""
        said = [sentence(line) for line in self.lines]
        return [*said, f"… and {self.more:,} more."] if self.more else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The fields of an alert that a message uses."""

    pair: str
    entity: str
    kind: str
    severity: str
    title: str
    detail: str
    began_at: datetime
    ended_at: datetime | None


def compose(identity: str, phase: str, alerts: Sequence[Known], url: str, now: datetime) -> Message:
    """The message about these alerts (at least one), most severe and oldest first."""
    ranks = ("critical", "warning", "info")
    ordered = sorted(alerts, key=lambda one: (ranks.index(one.severity), one.began_at, one.entity))
    first = ordered[0]
    return Message(
        id=identity,
        phase=phase,
        kind=first.kind,
        severity=first.severity,
        pair=first.pair,
        title=first.title if len(ordered) == 1 else _together(ordered, phase),
        lines=tuple(_line(one) for one in ordered[:MOST_LINES]),
        more=max(0, len(ordered) - MOST_LINES),
        url=url,
        at=now.isoformat(),
    )


MANY = {
    "failover": "{count:,} entities of {pair} failed over",
    "forced_expiring": "{count:,} forced failovers of {pair} are about to end",
    "backlog": "{count:,} backlogs of {pair} are over their threshold",
    "capacity": "{count:,} backlog queues of {pair} are filling up",
    "ledger": "the ledgers of {count:,} backlog queues of {pair} do not balance",
    "dead_letters": "{count:,} backlog queues of {pair} have dead letters",
    "budget": "{count:,} budgets are reached",
    "readiness": "{count:,} entities of {pair} are less ready to fail over",
    "workers": "{count:,} task queues have no worker",
}


def _together(alerts: Sequence[Known], phase: str) -> str:
    pair = alerts[0].pair
    if phase == "resolved" and alerts[0].kind == "failover":
        return f"{len(alerts):,} entities of {pair} have recovered"
    return MANY.get(alerts[0].kind, "{count:,} alerts about {pair}").format(count=len(alerts), pair=pair)


def _line(one: Known) -> Line:
    ended = one.ended_at.isoformat() if one.ended_at else None
    return Line(
        pair=one.pair,
        entity=one.entity,
        severity=one.severity,
        title=one_line(one.title),
        detail=one_line(one.detail),
        began_at=one.began_at.isoformat(),
        ended_at=ended,
    )


def sentence(line: Line) -> str:
    """`Title, since 2026-11-02 03:00 UTC. Detail`, or the duration if it is over."""
    began = datetime.fromisoformat(line.began_at)
    since = f"since {began:%Y-%m-%d %H:%M} UTC"
    if line.ended_at:
        lasted = datetime.fromisoformat(line.ended_at) - began
        return f"{line.title}: over after {lasting(lasted)}, {since}."
    return f"{line.title}, {since}. {line.detail}".strip()


def lasting(span: timedelta) -> str:
    """45 s, 12 min, 3 h 5 min."""
    seconds = max(0, round(span.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def one_line(text: str) -> str:
    """The text without control characters, truncated to LONGEST characters."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= LONGEST else f"{clean[: LONGEST - 1]}…"
