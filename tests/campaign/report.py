"""The result of a campaign in words: what was reached, what was disturbed, and each check with what it found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.campaign import doubles
from tests.campaign.evidence import Evidence, Window
from tests.campaign.judge import CHECKS, TOLERANCE_S, Facts, Finding, held_s, own_s

SHOWN = 5


def sizes(evidence: Evidence) -> dict[str, Any]:
    """The numbers of a campaign."""
    facts = Facts(evidence)
    outcomes = Counter(one.outcome or "unknown" for one in evidence.attempts)
    accepted = {one.identity for one in facts.accepted()}
    freezes = [one for one in evidence.windows if one.what == "freeze"]
    took = sorted((own_s(one, freezes) for one in evidence.attempts if one.outcome and not one.index), reverse=True)
    return {
        "messages accepted": len(accepted),
        "attempts refused": outcomes["refused"],
        "attempts with an unknown outcome": outcomes["unknown"],
        "deliveries": len(evidence.receipts),
        "drained through the backlog": sum(one.truth for one in evidence.ledgers),
        "doubles with a known reason": dict(_explained(facts)),
        "kills": sum(one.what == "kill" for one in evidence.windows),
        "disturbances": dict(Counter(one.what for one in evidence.windows)),
        "receivers that the SDK did not give back": sum(life.how == "stuck" for life in evidence.lives),
        "longest send of its own (s)": round(took[0], 2) if took else None,
        "longest of each sender (s)": _longest(evidence, freezes),
        "longest without an outcome of a gateway (s)": max(
            (round(held_s(one, freezes), 2) for one in evidence.seen), default="below 5"
        ),
        "bound (s)": (evidence.attempts[0].bound_s + TOLERANCE_S) if evidence.attempts else None,
    }


def _longest(evidence: Evidence, freezes: Sequence[Window]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in evidence.attempts:
        if one.outcome and not one.index:
            found[one.process] = max(found.get(one.process, 0.0), round(own_s(one, freezes), 1))
    return found


def _explained(facts: Facts) -> Counter[str]:
    found: Counter[str] = Counter()
    for (identity, inbox), copies in facts.copies.items():
        sent = facts.attempts.get(identity)
        if sent and len(copies) > 1 and (why := doubles.reason(sent, copies, inbox, facts.evidence.windows)):
            found[why] += 1
    return found


def table(head: Mapping[str, Any], reached: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """The result as text; each check has a line, with the first of what it found."""
    counts = Counter(finding.check for finding in findings)
    lines = ["", "campaign"]
    lines += [f"  {name:<42} {_shown(value)}" for name, value in {**head, **reached}.items()]
    lines += ["", "check            found"]
    for check in CHECKS:
        lines.append(f"{check:<16} {counts[check]:>5}  {'' if counts[check] else 'nothing'}".rstrip())
        lines += [f"    {one.about}: {one.text}" for one in findings if one.check == check][:SHOWN]
    lines += ["", "nothing is broken" if not findings else f"{len(findings)} findings: something is broken"]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {count}" for name, count in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return str(value)
