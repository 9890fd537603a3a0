"""The content of messages: equal for all channels, which only format it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.models import Alert
from dashboard.site.durations import lasting

PHASES = {"opened": "", "resolved": "Resolved: ", "test": "Test: "}
LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message about one alert. Stored before it is first sent, and never changed."""

    id: str
    condition: str
    """Equal in all messages about one condition, also if its severity increases."""
    phase: str
    kind: str
    severity: str
    pair: str
    entity: str = "*"
    title: str
    detail: str = ""
    began_at: str | None = None
    ended_at: str | None = None
    url: str = ""
    at: str

    @property
    def summary(self) -> str:
        """One line: a subject, a notification on a phone."""
        return one_line(PHASES[self.phase] + self.title)

    @property
    def sentence(self) -> str:
        """`Title, since 2026-11-02 03:00 UTC. Detail`, or the duration if it is over; the title of a test."""
        if self.began_at is None:
            return self.title
        began = datetime.fromisoformat(self.began_at)
        since = f"since {began:%Y-%m-%d %H:%M} UTC"
        if self.ended_at:
            lasted = lasting(datetime.fromisoformat(self.ended_at) - began).replace("\N{NO-BREAK SPACE}", " ")
            return f"{self.title}: over after {lasted}, {since}."
        return f"{self.title}, {since}. {self.detail}".strip()


def about(alert: Alert, *, phase: str, **common: str) -> Message:
    """The message about an alert; `common`: id, condition, url and at."""
    is_over = phase == "resolved" and alert.ended_at is not None
    return Message(
        phase=phase,
        kind=alert.kind,
        severity=alert.severity,
        pair=alert.pair,
        entity=alert.entity,
        title=one_line(alert.title),
        detail=one_line(alert.detail),
        began_at=alert.began_at.isoformat(),
        ended_at=alert.ended_at.isoformat() if is_over and alert.ended_at else None,
        **common,
    )


def one_line(text: str) -> str:
    """The text without control characters, truncated to LONGEST characters."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= LONGEST else f"{clean[: LONGEST - 1]}…"
