"""The drills of the simulated past, and the readiness that they prove, as rows of the models."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from dashboard.demo.history.plan import MARK, DrillRun, History
from dashboard.demo.history.reports import identity, person
from dashboard.drills.plan import Arrival, Plan, Step
from dashboard.drills.report import report
from dashboard.models import Drill, Pair, ReadinessChange
from dashboard.models.readiness import WHOLE_PAIR
from dashboard.readiness.score import OF_ENTITY, WEIGHTS, Result

CANARY = "pairing-canary"
MESSAGES = 30
FORCED_AFTER, LASTED = timedelta(seconds=6), timedelta(seconds=41)
_S = timedelta(seconds=1)
READINESS_DAYS = 29
WEAK = ((12, "syphon", Result.WEAK, timedelta(hours=3)), (5, "senders", Result.WEAK, timedelta(minutes=50)))
"""How many days ago which check of the live pair was not good, and for how long."""


def drills(past: History, pairs: Mapping[str, Pair]) -> Iterator[Drill]:
    """The drills with their courses and reports."""
    for one in past.drills:
        plan = failed(one) if one.failure else passed(one)
        ended_at = one.at + LASTED
        yield Drill(
            pair=pairs[one.pair],
            path=CANARY,
            by=person(one.by),
            reason=f"before the release {MARK}",
            at=one.at,
            request_id=identity("drill", one.at.isoformat())[:32],
            ended_at=ended_at,
            detail=f"{plan.failure} {MARK}".strip() if one.failure else "",
            step=plan.step.value,
            messages=MESSAGES,
            is_scheduled=one.is_scheduled,
            expires_at=one.at + timedelta(minutes=15),
            course=plan.as_json(),
            attempts=1,
            outcome=Drill.Outcome.FAILED if one.failure else Drill.Outcome.PASSED,
            report=report(plan, one.at, ended_at),
        )


def passed(one: DrillRun) -> Plan:
    """A drill in which every message arrived."""
    forced_at = one.at + FORCED_AFTER
    return Plan(
        step=Step.ENDED,
        since=one.at + LASTED,
        total=MESSAGES,
        sent=MESSAGES,
        is_prepared=True,
        forced_at=forced_at,
        known_at=forced_at + 0.4 * _S,
        diverted_at=forced_at + 0.6 * _S,
        released_at=forced_at + 11 * _S,
        healed_at=forced_at + 13 * _S,
        home_at=forced_at + 24 * _S,
        seen_in_backlog=MESSAGES // 3,
        left_in_backlog=0,
        arrivals=tuple(Arrival(number, number) for number in range(1, MESSAGES + 1)),
        operations={"send": 20, "send_backlog": 10, "receive": 30, "settle": 30, "manage": 9},
    )


def failed(one: DrillRun) -> Plan:
    """A drill that was rolled back before anything was forced."""
    return Plan(step=Step.ENDED, since=one.at + LASTED, total=MESSAGES, sent=4, is_prepared=True, failure=one.failure)


def readiness_changes(past: History, pairs: Mapping[str, Pair]) -> Iterator[ReadinessChange]:
    """Good findings for a month, but for two that were weak for a while."""
    since = past.end - timedelta(days=READINESS_DAYS)
    good = {name: Result.GOOD.value for name in WEIGHTS if name not in OF_ENTITY}
    own = dict.fromkeys(OF_ENTITY, Result.GOOD.value)
    for name, pair in pairs.items():
        yield ReadinessChange(pair=pair, at=since, entity=WHOLE_PAIR, results=good)
        for entity in pair.entities.filter(is_configured=True):
            yield ReadinessChange(pair=pair, at=since, entity=entity.path, results=own)
        for days, check, result, lasted in WEAK if name == past.drills[0].pair else ():
            at = past.end - timedelta(days=days)
            yield ReadinessChange(pair=pair, at=at, results=good | {check: result.value})
            yield ReadinessChange(pair=pair, at=at + lasted, results=good)
