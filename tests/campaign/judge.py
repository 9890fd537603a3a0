"""The judge: a pure function from the evidence of a campaign to what was broken. It reads nothing and asks nobody.

A message arriving twice breaks nothing if it is known why: delivery is at least once. `doubled` is only what no
disturbance explains, see `doubles.py`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.campaign import crowd, doubles
from tests.campaign.evidence import DRAINERS, RECEIVERS, SENDERS, Attempt, Evidence, Life, Lives, Receipt, Seen, Window
from tests.campaign.plan import INBOXES

HELD_S = 30.0
"""How long a gateway keeps a delivery without an outcome at most."""
TOLERANCE_S = 0.25
"""How much longer than its timeout a send may take."""
INTENT_S = 35.0
"""How long the order of a session is at risk after Redis was not there (docs/design/session-order.md)."""
USAGE_LOST_S = 75.0
"""A process that is killed takes at most the usage of its last minute with it, and what was on its way."""
CLOSED_S = 2.0
"""How long ago a process may have given up reporting when it has ended, on a busy machine."""
WORKERS = ("worker-", "beat", "web")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is broken."""

    check: str
    about: str
    text: str


@dataclass(slots=True)
class Facts:
    """The evidence, arranged once for all checks."""

    evidence: Evidence
    attempts: Mapping[str, list[Attempt]] = field(init=False)
    copies: Mapping[tuple[str, str], list[Receipt]] = field(init=False)
    """The first delivery of each stored copy, by identity and inbox, in the order of their sequence numbers."""

    def __post_init__(self) -> None:
        attempts: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.evidence.attempts:
            attempts[attempt.identity].append(attempt)
        self.attempts = attempts
        stored: dict[tuple[str, str], dict[int, Receipt]] = defaultdict(dict)
        for receipt in sorted(self.evidence.receipts, key=lambda one: one.at):
            stored[receipt.identity, receipt.inbox].setdefault(receipt.sequence, receipt)
        self.copies = {key: sorted(found.values(), key=lambda one: one.sequence) for key, found in stored.items()}

    def accepted(self) -> Iterator[Attempt]:
        """The accepted attempts, one for each message."""
        for tries in self.attempts.values():
            if accepted := next((one for one in tries if one.outcome == "accepted"), None):
                yield accepted


def judge(evidence: Evidence) -> list[Finding]:
    """Everything that is broken, check by check."""
    facts = Facts(evidence)
    return [Finding(name, about, text) for name, check in CHECKS.items() for about, text in check(facts)]


Found = Iterator[tuple[str, str]]


def lost(facts: Facts) -> Found:
    """Accepted, and neither received nor anywhere in the namespaces."""
    left = {one.message_id for one in facts.evidence.left}
    for attempt in facts.accepted():
        for inbox in INBOXES.get(attempt.target, (attempt.target,)):
            if (attempt.identity, inbox) not in facts.copies and (attempt.message_id or attempt.identity) not in left:
                yield attempt.identity, f"accepted by {attempt.process}, never in {inbox}"


def left_behind(facts: Facts) -> Found:
    """Still in a namespace although everything had time to arrive: a forgotten lock, a dead letter, a stuck drain."""
    for one in facts.evidence.left:
        yield f"{one.namespace} {one.path}", f"message {one.message_id} (sequence number {one.sequence})"


def changed(facts: Facts) -> Found:
    """Arrived with another body, session or properties than were sent."""
    for one in facts.evidence.receipts:
        if (sent := facts.attempts.get(one.identity)) and one.digest != sent[0].digest:
            yield one.identity, f"differs in {one.inbox} (sequence number {one.sequence})"


def foreign(facts: Facts) -> Found:
    """Arrived and was never sent, or not under the message id it was sent with."""
    for (identity, inbox), copies in facts.copies.items():
        sent = facts.attempts.get(identity)
        if sent is None:
            yield identity, f"in {inbox}, and nobody sent it"
            continue
        known = {one.message_id for one in sent if one.message_id is not None}
        ids = known | {copy.message_id for copy in copies}
        is_resumed = len({one.pid for one in sent}) > 1  # a new process makes a new message
        if len(ids) > 1 and not is_resumed:
            yield identity, f"in {inbox} under {len(ids)} message ids"


def doubled(facts: Facts) -> Found:
    """Stored more than once, without a known reason."""
    for (identity, inbox), copies in facts.copies.items():
        sent = facts.attempts.get(identity)
        if sent and len(copies) > 1 and doubles.reason(sent, copies, inbox, facts.evidence.windows) is None:
            moments = ", ".join(f"{copy.enqueued - sent[0].began:.2f} s" for copy in copies)
            yield identity, f"{len(copies)} times in {inbox}, {moments} after it was sent, for no known reason"


def disordered(facts: Facts) -> Found:
    """First arrivals of a session that are not in the order of its accepted sends, while Redis answered."""
    sessions: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in facts.accepted():
        if attempt.session is not None:
            sessions[attempt.session].append(attempt)
    risky = [one for one in facts.evidence.windows if endangers_order(one)]
    for session, accepted in sessions.items():
        latest: tuple[int, Attempt] | None = None
        for attempt in sorted(accepted, key=lambda one: (one.turn, one.index)):
            copies = facts.copies.get((attempt.identity, attempt.target))
            if not copies:
                continue
            number = copies[0].sequence
            if latest and number < latest[0] and not _is_at_risk(latest[1], copies[0], risky):
                yield session, f"{attempt.identity} arrived before {latest[1].identity}, which was sent before it"
            if latest is None or number > latest[0]:
                latest = number, attempt


def endangers_order(window: Window) -> bool:
    """The documented exceptions: Redis does not answer, or a process is frozen for longer than an intent lasts."""
    if window.target.endswith("redis"):
        return True
    return window.what == "freeze" and window.ended - window.began > 30


def _is_at_risk(earlier: Attempt, copy: Receipt, risky: list[Window]) -> bool:
    return any(
        one.began <= max(copy.enqueued, earlier.ended) and one.ended + INTENT_S >= earlier.began for one in risky
    )


def over_bound(facts: Facts) -> Found:
    """Sends that took longer than their timeout and the tolerance, without what the host and a freeze withheld."""
    freezes = [one for one in facts.evidence.windows if one.what == "freeze"]
    for attempt in facts.evidence.attempts:
        if attempt.index == 0 and attempt.outcome and own_s(attempt, freezes) > attempt.bound_s + TOLERANCE_S:
            text = (
                f"{own_s(attempt, freezes):.2f} s of {attempt.bound_s:.2f} s ({attempt.outcome} {attempt.error[:80]})"
            )
            yield attempt.identity, text


def seen(facts: Facts) -> Found:
    """What a client of a gateway should never see, and outcomes that it did not give in time."""
    for one in facts.evidence.seen:
        took_s = held_s(one, facts.evidence.windows)
        if one.what or took_s > HELD_S:
            yield one.process, one.what or f"no outcome for {took_s:.2f} s of {HELD_S:.0f} s"


def held_s(one: Seen, windows: Sequence[Window]) -> float:
    """How long a gateway kept a delivery without an outcome, when it was not frozen."""
    return one.took_s - _frozen_s(one.process, one.at - one.took_s, one.at, windows)


def own_s(attempt: Attempt, freezes: Sequence[Window]) -> float:
    """How long a send took of its own."""
    frozen_s = _frozen_s(attempt.process, attempt.began, attempt.ended, freezes)
    return attempt.took_s - attempt.withheld_s - frozen_s


def _frozen_s(process: str, began: float, ended: float, windows: Sequence[Window]) -> float:
    freezes = (one for one in windows if (one.what, one.target) == ("freeze", process))
    return sum(max(0.0, min(one.ended, ended) - max(one.began, began)) for one in freezes)


def hung(facts: Facts) -> Found:
    """Sends without an outcome whose process was not killed, and processes that did not end when asked."""
    lives = Lives(facts.evidence.lives)
    for attempt in facts.evidence.attempts:
        life = lives.at(attempt.process, attempt.pid, attempt.began)
        if not attempt.outcome and attempt.index == 0 and (life is None or life.how not in ("killed", "interrupted")):
            yield attempt.identity, f"no outcome in {attempt.process}, which {_ending(life)}"
    for life in facts.evidence.lives:
        if life.how == "overdue" and not life.process.startswith(RECEIVERS):
            yield life.process, "did not end within 15 s of SIGTERM"


def _ending(life: Life | None) -> str:
    return "is unknown" if life is None else f"ended by itself ({life.how}, exit code {life.code})"


def crashed(facts: Facts) -> Found:
    """Applications and workers that ended by themselves, or with an error when asked."""
    ours = (SENDERS, DRAINERS, *WORKERS)
    for life in facts.evidence.lives:
        is_error = life.how == "asked" and life.code not in (0, -15)
        if life.process.startswith(ours) and (life.how == "ended" or is_error):
            yield life.process, f"exit code {life.code}"


def failed_tasks(facts: Facts) -> Found:
    """Tasks of the workers that ended with an exception that they do not handle."""
    for task, count in facts.evidence.failed_tasks.items():
        yield task, f"{count} times"


def ledgers(facts: Facts) -> Found:
    """Ledgers that do not account for every sequence number of their queue."""
    for one in facts.evidence.ledgers:
        if one.truth and (one.enqueued != one.accounted or one.first + one.enqueued - 1 != one.truth):
            text = f"{one.enqueued} from {one.first} on, {one.accounted} accounted for; the queue has given {one.truth}"
            yield one.queue, text


def pages(facts: Facts) -> Found:
    """Pages that show another state than the real one: everything healthy, and nothing in the backlog."""
    for entity, status in facts.evidence.statuses.items():
        if status != "healthy":
            yield entity, f"is shown as {status}"
    there = Counter(one.path for one in facts.evidence.left if one.namespace == "secondary")
    for queue, depth in facts.evidence.depths.items():
        if depth != there[queue]:
            yield queue, f"is shown with {depth} messages, has {there[queue]}"


def barriers(facts: Facts) -> Found:
    """Sessions that go to the backlog although nothing of them is there."""
    for session in facts.evidence.barriers:
        yield session, "still goes to the backlog"


def usage(facts: Facts) -> Found:
    """Usage that says more messages were sent than were, or fewer than a kill or an absent Redis explains."""
    away = list(_without_redis(facts.evidence))
    lives, sent = Lives(facts.evidence.lives), defaultdict[Life | None, list[Attempt]](list)
    for attempt in facts.evidence.attempts:
        sent[lives.at(attempt.process, attempt.pid, attempt.began)].append(attempt)
    for life in facts.evidence.lives:
        if not life.reporter or not life.process.startswith(SENDERS):
            continue
        attempts, billed = sent[life], facts.evidence.billed.get(life.reporter, 0)
        may_lose = life.how != "asked" or any(began <= life.ended <= ended + CLOSED_S for began, ended in away)
        most, least = len(attempts), sum(1 for one in attempts if _must_be_billed(one, life, may_lose))
        if not least <= billed <= most:
            yield life.reporter, f"{billed} messages billed, {least} to {most} sent by {life.process}"


def _without_redis(evidence: Evidence) -> Iterator[tuple[float, float]]:
    """When senders could not use Redis: from the end of a life until it had loaded its data in the next one, while it
    was frozen, or without a way to it.
    """
    lives = sorted((one for one in evidence.lives if one.process == "redis"), key=lambda one: one.began)
    for before, after in pairwise(lives):
        loaded = (at for at in evidence.redis_loaded if after.began <= at <= after.ended)
        yield before.ended, min(loaded, default=after.ended)
    for one in evidence.windows:
        if (one.what, one.target) in (("freeze", "redis"), ("network", "senders-redis")):
            yield one.began, one.ended


def _must_be_billed(attempt: Attempt, life: Life, may_lose: bool) -> bool:
    return attempt.outcome == "accepted" and (not may_lose or attempt.ended < life.ended - USAGE_LOST_S)


def late(facts: Facts) -> Found:
    """Entities whose messages were not home in time after an outage, whatever the other entities did."""
    for window in facts.evidence.windows:
        if window.what != "outage":
            continue
        entities = crowd.group(window.target, window.details["outage"], facts.evidence.crowd)
        took: dict[str, list[float]] = defaultdict(list)
        for one in facts.accepted():
            if one.target in entities and one.ended < window.ended:
                took[one.target].append(_home_at(facts, one) - window.ended)
        for entity, seconds in took.items():
            if count := sum(one > crowd.NOTICED_S + crowd.DRAINED_S for one in seconds):
                text = f"{count} of {len(seconds)} messages not home in time, the last after {max(seconds):.0f} s"
                yield f"{entity} ({window.target})", text


def _home_at(facts: Facts, attempt: Attempt) -> float:
    copies = facts.copies.get((attempt.identity, attempt.target))
    return copies[0].enqueued if copies else float("inf")


def unsettled(facts: Facts) -> Found:
    """Not everything had arrived, although it had time for as long as messages moved."""
    if not facts.evidence.is_settled:
        yield "the end", "not everything had arrived when nothing moved any more"


CHECKS: Mapping[str, Callable[[Facts], Found]] = {
    "lost": lost,
    "left behind": left_behind,
    "changed": changed,
    "foreign": foreign,
    "doubled": doubled,
    "order": disordered,
    "bound": over_bound,
    "seen": seen,
    "hung": hung,
    "crashed": crashed,
    "task": failed_tasks,
    "ledger": ledgers,
    "page": pages,
    "barrier": barriers,
    "usage": usage,
    "late": late,
    "settled": unsettled,
}
