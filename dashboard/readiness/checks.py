"""The findings of all checks with reasons and remedies, from the facts. Pure; weights are in score.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from dashboard.readiness.facts import Answer, EntityFacts, PairFacts, Probe, QueueFacts
from dashboard.readiness.score import Check, Result
from dashboard.site.durations import roughly

FULL = 0.8
SOON_S, LATER_S = 30 * 60.0, 4 * 3600.0
SKEW_S, BAD_SKEW_S = 1.0, 5.0
RENEWED_S = 30 * 86_400.0
HEADROOM = 4_096
"""Maximum bytes that rewriting adds to a message: path, session, times and the types of properties."""
NEAR = 0.8
STALE = timedelta(minutes=45)
"""Age from which the result of a probe counts as unknown."""
HOME_STALE = timedelta(hours=12)
"""The same for entities, which are probed in turn if there are many."""

GOOD, WEAK, BAD, UNKNOWN = Result.GOOD, Result.WEAK, Result.BAD, Result.UNKNOWN


def checks_of_pair(facts: PairFacts) -> list[Check]:
    """The checks of a pair, which apply to all its entities."""
    every = (secondary, queues, senders, rights, room, syphon, fleet, clocks, gateway)
    return [check(facts) for check in every]


def checks_of_entity(facts: EntityFacts, now: datetime) -> list[Check]:
    """The checks of one entity."""
    return [home(facts, now), sizes(facts)]


def secondary(facts: PairFacts) -> Check:
    """Whether workers can administer the secondary: create, count and repair backlog queues."""
    probe = fresh(facts.administration, facts.at, STALE)
    if probe is None:
        return Check("secondary", UNKNOWN, "No worker has probed the secondary recently.", _START_WORKER)
    if probe.answer is Answer.ALLOWED:
        return Check("secondary", GOOD)
    if probe.answer is Answer.REFUSED:
        todo = "Give the workers' credential the Manage claim on the secondary."
        return Check("secondary", BAD, f"The secondary refuses to be administered: {probe.reason}", todo)
    todo = "Check that the secondary is available and reachable from the workers."
    return Check("secondary", BAD, f"The secondary does not answer: {probe.reason}", todo)


def queues(facts: PairFacts) -> Check:
    """Whether the backlog queues exist, accept messages, and have the expected properties."""
    if not facts.queues or any(queue.is_there is None for queue in facts.queues):
        return Check("queues", UNKNOWN, "The backlog queues have not been checked recently.", _START_WORKER)
    missing = [queue.path for queue in facts.queues if not queue.is_there]
    closed = [queue.path for queue in facts.queues if queue.is_there and queue.status != "Active"]
    odd = [queue for queue in facts.queues if queue.is_there and queue.deviations]
    if len(missing) + len(closed) == len(facts.queues):
        return Check("queues", BAD, f"None of {_count(facts.queues)} takes messages.", _OPEN_CLIENT)
    if missing:
        return Check("queues", WEAK, f"Missing: {_listed(missing)}.", _OPEN_CLIENT)
    if closed:
        return Check("queues", WEAK, f"Not active: {_listed(closed)}.", "End its quarantine on the Backlog page.")
    if odd:
        reported = f"{odd[0].path}: {', '.join(odd[0].deviations)}"
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        return Check("queues", WEAK, f"Deviating: {reported}{more}.", "Compare and repair on the Backlog page.")
    return Check("queues", GOOD)


def senders(facts: PairFacts) -> Check:
    """Whether each sending process has backlog queues in its rotation, found or created with its own credential."""
    wanted = len(facts.queues)
    if not facts.senders:
        reason = "No live sending process is known, so there is no evidence that senders can use the backlog."
        return Check("senders", UNKNOWN, reason, 'Start the applications with coordination="redis…" and pair set.')
    without = sorted(process for process, known in facts.senders.items() if not known)
    fewer = sorted(process for process, known in facts.senders.items() if 0 < known < wanted)
    if without:
        reason = f"{len(without)} of {len(facts.senders)} senders have no backlog queue: {_listed(without)}."
        return Check("senders", BAD, reason, "Give their credential the Manage claim on the secondary, then restart.")
    if fewer:
        reason = f"{len(fewer)} of {len(facts.senders)} senders use fewer than {wanted} queues: {_listed(fewer)}."
        return Check("senders", WEAK, reason, "Set their backlog_queue_count to the value of the pairs file.")
    shown = f"Inferred, not probed: all {len(facts.senders)} live senders opened every queue, which requires Manage."
    return Check("senders", GOOD, shown)


def rights(facts: PairFacts) -> Check:
    """Whether the workers' credential may send to and receive from each backlog queue, shown by opening links."""
    there = [queue for queue in facts.queues if queue.is_there]
    tried = [(queue.path, what, probe) for queue in there for what, probe in _rights_of(queue, facts.at)]
    refused = [
        f"{what} at {path}: {probe.reason}" for path, what, probe in tried if probe and probe.answer is Answer.REFUSED
    ]
    if refused:
        reason = f"The workers' credential is refused: {refused[0]}"
        return Check("rights", BAD, reason, "Give it Send, Listen and Manage on the secondary.")
    open_ones = [f"{what} at {path}" for path, what, probe in tried if not probe or probe.answer is Answer.SILENT]
    if open_ones or not tried:
        reason = f"Not shown yet: {_listed(open_ones) or 'there is no queue to probe'}."
        return Check("rights", UNKNOWN, reason, "Wait for the next check, or check whether the secondary answers.")
    return Check("rights", GOOD)


def room(facts: PairFacts) -> Check:
    """Whether the backlog has capacity: below 80 %, and for hours at its current or expected growth."""
    known = [queue for queue in facts.queues if queue.is_there and queue.limit]
    if not known:
        return Check("room", UNKNOWN, "The size of the backlog queues has not been checked recently.", _START_WORKER)
    full = [queue for queue in known if queue.share >= FULL]
    left_s, usual = time_left_s(known, facts.bytes_per_s, facts.lasts_s), _usual(facts)
    left = "" if left_s is None else _in_steps(min(left_s, 1e9))
    todo = "Find out why the backlog is not drained, or raise backlog_queue_count here and in the applications."
    if len(full) == len(known):
        return Check("room", BAD, "Every backlog queue is 80 % full or more.", todo)
    if left_s is not None and left_s < SOON_S:
        return Check("room", BAD, f"The backlog would be full within {left}{usual}.", todo)
    if full:
        return Check("room", WEAK, f"80 % full or more: {_listed([queue.path for queue in full])}.", todo)
    if left_s is not None and left_s < LATER_S:
        return Check("room", WEAK, f"The backlog would hold an outage of {left} only{usual}.", todo)
    fullest = max(queue.share for queue in known)
    held = f"; it would hold an outage of {left}{usual}" if left else ""
    return Check("room", GOOD, f"The fullest queue is {fullest:.0%} full{held}.")


def _in_steps(left_s: float) -> str:
    """The time in whole hours, or in tens of minutes, so that a check does not change with every minute."""
    step_s = 3_600 if left_s > 3_600 else 600
    return roughly(timedelta(seconds=max(1, round(left_s / step_s)) * step_s))


def _usual(facts: PairFacts) -> str:
    """The traffic that the time was computed with; to two digits, so that a check changes when the traffic does."""
    if not facts.per_hour:
        return ""
    digits = max(0, len(str(round(facts.per_hour))) - 2)
    return f", at about {round(facts.per_hour, -digits):,.0f} messages an hour as {facts.rate_words}"


def time_left_s(known: Sequence[QueueFacts], bytes_per_s: float | None, lasts_s: float | None = None) -> float | None:
    """Seconds until the backlog is full, at its current growth, or if all sends were redirected to it.

    `lasts_s`: the latter by the rhythm of the day, if that is known.
    """
    left = sum(max(0, queue.limit - queue.size) for queue in known)
    growing = [queue.full_in_s for queue in known if queue.full_in_s is not None]
    times = [max(growing)] if len(growing) == len(known) else []
    if lasts_s is not None or bytes_per_s:
        times.append(lasts_s if lasts_s is not None else left / (bytes_per_s or 1))
    return min(times) if times else None


def syphon(facts: PairFacts) -> Check:
    """Whether a syphon is ready to drain each queue."""
    if facts.paused:
        what = "the whole pair's" if "*" in facts.paused else _listed(facts.paused)
        return Check("syphon", WEAK, f"Paused by an operator: {what}.", "Resume it when possible.")
    if not facts.queues:
        return Check("syphon", UNKNOWN, "No backlog queue is known.", _START_WORKER)
    alone = [queue.path for queue in facts.queues if not queue.holder]
    if len(alone) == len(facts.queues):
        return Check("syphon", BAD, "No process holds a lease of a backlog queue: nothing is drained.", _START_WORKER)
    if alone:
        return Check("syphon", WEAK, f"No process holds the lease of {_listed(alone)}.", "Check the Workers page.")
    return Check("syphon", GOOD)


def fleet(facts: PairFacts) -> Check:
    """Whether workers are alive and can serve the pair. Their heartbeats also show that Redis is available."""
    if not facts.workers:
        return Check("fleet", BAD, "No worker has sent a heartbeat within 20 s.", _START_WORKER)
    if facts.problems:
        worker, problem = next(iter(sorted(facts.problems.items())))
        return Check("fleet", BAD, f"{worker} cannot serve the pair: {problem}", "Correct the reported problem.")
    return Check("fleet", GOOD)


def clocks(facts: PairFacts) -> Check:
    """Whether the clocks of workers and applications agree with Redis, as the expiry of holds and samples need."""
    if not facts.clocks:
        return Check("clocks", UNKNOWN, "No live process reports its clock.", _START_WORKER)
    process, ahead_s = max(facts.clocks.items(), key=lambda one: abs(one[1]))
    if abs(ahead_s) <= SKEW_S:
        return Check("clocks", GOOD)
    reason = f"{process} is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} Redis."
    return Check("clocks", BAD if abs(ahead_s) > BAD_SKEW_S else WEAK, reason, "Synchronise its clock (NTP).")


def gateway(facts: PairFacts) -> Check:
    """Whether a gateway answers, if the pair has any, and all their certificates are valid for 30 days more."""
    if facts.gateways is None:
        return Check("gateway", UNKNOWN, "Nobody has looked for gateways.", _START_WORKER)
    if not facts.gateways and facts.gateway_heard_at is not None:
        reason = f"No gateway has answered since {facts.gateway_heard_at:%H:%M} UTC."
        return Check("gateway", BAD, reason, "Start it. One that was given up is forgotten after a day.")
    ends = {process: at for process, at in facts.gateways.items() if at is not None}
    process, at = min(ends.items(), key=lambda one: one[1], default=("", float("inf")))
    left_s = at - facts.at.timestamp()
    if left_s >= RENEWED_S:
        return Check("gateway", GOOD)
    reason = f"The certificate of {process} is valid until {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC."
    return Check("gateway", WEAK if left_s > 0 else BAD, reason, "Renew it, then restart the gateway.")


def home(facts: EntityFacts, now: datetime) -> Check:
    """Whether the workers' credential may send to the entity in the primary, to which its messages are drained."""
    probe = fresh(facts.home, now, HOME_STALE)
    if probe is not None and probe.answer is Answer.ALLOWED:
        return Check("home", GOOD)
    if facts.is_away:
        return Check("home", UNKNOWN, "It is failing or failed over, so it is not probed.", "Wait for its recovery.")
    if probe is None:
        return Check("home", UNKNOWN, "Not probed yet, or too long ago.", "Wait: entities are probed in turn.")
    if probe.answer is Answer.REFUSED:
        todo = "Give the workers' credential Send on the primary, and check that the entity exists."
        return Check("home", BAD, f"The primary refuses the workers: {probe.reason}", todo)
    return Check("home", UNKNOWN, f"The primary did not answer: {probe.reason}", "Check the primary.")


def sizes(facts: EntityFacts) -> Check:
    """Whether its messages fit the limits of both namespaces after rewriting."""
    if facts.message_bytes is None:
        todo = "Wait for the charges of a month with sends to it."
        return Check("sizes", UNKNOWN, "The size of its messages is unknown.", todo)
    limit = facts.limit - HEADROOM
    reported = f"Its messages have {facts.message_bytes:,} bytes on average; the backlog accepts {limit:,}."
    todo = "Make them smaller, store bodies elsewhere, or use a higher tier for the secondary."
    if facts.message_bytes >= limit:
        return Check("sizes", BAD, reported, todo)
    return Check("sizes", WEAK, reported, todo) if facts.message_bytes >= NEAR * limit else Check("sizes", GOOD)


def fresh(probe: Probe | None, now: datetime, kept: timedelta) -> Probe | None:
    """The probe, unless it is outdated."""
    return probe if probe is not None and now - probe.at <= kept else None


_START_WORKER = "Start a worker and beat, and check that the worker reaches both namespaces."
_OPEN_CLIENT = "Restart a worker: opening the pair creates missing queues. Check that its key has the Manage claim."


def _rights_of(queue: QueueFacts, now: datetime) -> list[tuple[str, Probe | None]]:
    return [("Send", fresh(queue.send, now, STALE)), ("Listen", fresh(queue.listen, now, STALE))]


def _count(queues: Sequence[QueueFacts]) -> str:
    return f"{len(queues)} backlog queue{'s' if len(queues) != 1 else ''}"


def _listed(names: Iterable[str]) -> str:
    """The first three, and the number of others."""
    known = list(names)
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return ", ".join(known[:3]) + more
