"""An incident as files: its timeline as rows, and all of it as Markdown, to begin a post-mortem with. Pure."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from dashboard.access import registry
from dashboard.incidents.folding import Incident
from dashboard.incidents.moved import Moved
from dashboard.incidents.story import Story
from dashboard.incidents.timeline import Moment
from dashboard.site.durations import lasting
from dashboard.site.money import small_money
from pairing.events import KINDS

COLUMNS = ("time", "since_first_failure_s", "what", "about", "by", "reason", "waiting_messages")
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
"""Characters with a meaning in Markdown: names and reasons come from outside."""


def words_of(moment: Moment) -> str:
    """What happened, in words."""
    if moment.kind:
        label = KINDS[moment.kind].label if moment.kind in KINDS else moment.kind
        return f"{label} {moment.often}".strip()
    if moment.verb:
        parts = (registry.label(moment.verb), moment.detail, f"({moment.outcome})" if moment.outcome else "")
        return " ".join(part for part in parts if part)
    return moment.words


def as_rows(story: Story) -> Iterator[Sequence[object]]:
    """The timeline, one row a line, oldest first."""
    for one in story.timeline:
        passed_s = (one.at - story.incident.began_at).total_seconds()
        yield one.at, passed_s, words_of(one), one.about, one.by, one.reason, one.waiting


def as_markdown(story: Story) -> str:
    """The incident as a document; what is not known is said, not left out."""
    incident = story.incident
    lines = [
        f"# Incident of {_plain(incident.entity)} ({_plain(incident.pair)})",
        "",
        f"Cause: {_plain(_cause(incident)) or 'not recorded'}",
        "",
        *_facts(story),
        "",
        "## Timeline",
        "",
        "All times are UTC. *Waiting*: messages of the entity in the backlog, by the last sample.",
        "",
        *_table(("Time", "After", "What", "About", "By", "Reason", "Waiting"), _timeline(story)),
        "",
        "## What was drained",
        "",
        *_drained(story),
        "",
        "## What it cost",
        "",
        *_cost(story),
        "",
        f"Incident {incident.id}, as of {_utc(story.now)}.",
        "",
    ]
    return "\n".join(lines)


def _cause(incident: Incident) -> str:
    """The plain cause, and what was reported; what was reported if there is no plain one."""
    return f"{incident.cause} ({incident.reason})" if incident.cause else incident.reason


def _facts(story: Story) -> Iterator[str]:
    incident, drain = story.incident, story.drain
    state = "over" if incident.is_over else incident.status.word.lower()
    by = f", forced by {_plain(incident.forced_by)}" if incident.forced_by else ""
    yield f"- State: {state}{by}"
    yield f"- First failure: {_utc(incident.began_at)}"
    yield f"- Failed over: {_utc(incident.failed_over_at)}"
    yield f"- Recovered: {_utc(incident.recovered_at)}"
    yield f"- Drained: {_utc(incident.drained_at)}"
    yield f"- Lasted: {lasting(story.lasted)}{'' if incident.is_over else ' so far'}"
    yield f"- Most messages waiting: {drain.peak:,}"
    yield f"- Waiting: {drain.waiting:,}"


def _timeline(story: Story) -> Iterator[Sequence[str]]:
    for one in story.timeline:
        after = lasting(one.at - story.incident.began_at)
        about = "the whole pair" if one.about == "*" else one.about
        yield _utc(one.at, "%Y-%m-%d %H:%M:%S"), after, words_of(one), about, one.by, one.reason, f"{one.waiting:,}"


def _drained(story: Story) -> Iterator[str]:
    if moved := story.moved:
        yield from _table(("Messages of the entity", "Count"), _of_the_entity(moved))
    else:
        yield f"Nothing was metered. {story.drain.waiting:,} messages are waiting."
    if story.ledgers:
        yield ""
        yield "Ledgers of the backlog queues, of all their entities:"
        yield ""
        heads = ("Queue", "From", "Drained", "Enqueued", "Missing")
        rows = [
            (
                one.queue,
                _utc(one.began_at),
                _utc(one.ended_at),
                f"{one.enqueued:,}" if one.ended_at else "not known yet",
                "not known yet" if one.missing is None else f"{one.missing:,}",
            )
            for one in story.ledgers
        ]
        yield from _table(heads, rows)


def _of_the_entity(moved: Moved) -> Iterator[Sequence[str]]:
    yield "In the backlog before", f"{moved.waiting_before:,}"
    yield "Sent to the backlog", f"{moved.to_backlog:,}"
    yield "Drained", f"{moved.to_primary:,}"
    yield "Dead-lettered by the syphon", f"{moved.dead_lettered:,}"
    yield "Of these, expired in the backlog", f"{moved.expired:,}"
    yield "Set aside by the syphon", f"{moved.set_aside:,}"
    yield "Resubmitted later", f"{moved.resubmitted:,}"
    yield "Discarded later", f"{moved.discarded:,}"
    yield "Still in the backlog", f"{moved.waiting:,}"
    yield "Taken out of the pair's backlog, of an unknown entity", f"{moved.of_unknown_entity:,}"
    yield "Not accounted for", "not known yet" if moved.unexplained is None else f"{moved.unexplained:,}"


def _cost(story: Story) -> Iterator[str]:
    cost = story.cost
    if cost is None:
        yield "Not known: the price list cannot be used."
        return
    currency = _plain(cost.prices.currency)
    yield f"{small_money(cost.money)} {currency} for {cost.operations:,} additional operations, as metered."
    if to_come := cost.to_come.operations:
        estimate = f"{small_money(cost.to_come.money)} {currency} for {to_come:,} operations, estimated"
        yield f"Not metered yet: {estimate}, by the messages that wait and the highest sampled depth."
    if cost.prices.is_sample:
        yield "The prices are samples."


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"


def _plain(text: str | None) -> str:
    """Text of others in one line, without a meaning of its own."""
    return SPECIAL.sub(r"\\\1", " ".join((text or "").split()))


def _utc(at: datetime | None, pattern: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    return at.strftime(pattern) if at else "not yet"
