"""Each check of the judge finds what it is for: evidence in which nothing is broken, and one thing that is."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from tests.campaign import crowd, doubles, report
from tests.campaign.evidence import (
    Attempt,
    Evidence,
    LedgerAtEnd,
    Left,
    Life,
    Lives,
    Receipt,
    Seen,
    Window,
    attempts_of,
    failed_tasks,
    loaded_at,
)
from tests.campaign.judge import CHECKS, judge

ORDER = Attempt(
    *("sender-0-0-0", "d0", "orders", None, "sender-0", 10, 0, 0, 100.0, 8.0, "accepted", 100.2),
    took_s=0.2,
    message_id="m0",
)
FIRST = replace(ORDER, identity="sender-0-1-0", digest="d1", target="sessions", session="s", turn=1, message_id="m1")
SECOND = replace(FIRST, identity="sender-0-2-0", digest="d2", turn=2, began=101.0, ended=101.2, message_id="m2")
NOTE = replace(ORDER, identity="sender-0-3-0", digest="d3", target="events", turn=3, message_id="m3")
GOT = Receipt("sender-0-0-0", "orders", "m0", 1, 100.1, 100.5, "d0")
GOT_FIRST = Receipt("sender-0-1-0", "sessions", "m1", 1, 100.1, 100.5, "d1", "s")
GOT_SECOND = Receipt("sender-0-2-0", "sessions", "m2", 2, 101.1, 101.5, "d2", "s")
GOT_BY_AUDIT = Receipt("sender-0-3-0", "events/audit", "m3", 1, 100.1, 100.5, "d3")
GOT_BY_MAIL = replace(GOT_BY_AUDIT, inbox="events/mail")
LIFE = Life("sender-0", 10, 90.0, 200.0, "asked", 0, "vm:10")
QUEUE = "contoso/x-servicebus-transfer/0"
SOUND = Evidence(
    attempts=(ORDER, FIRST, SECOND, NOTE),
    receipts=(GOT, GOT_FIRST, GOT_SECOND, GOT_BY_AUDIT, GOT_BY_MAIL),
    lives=(LIFE,),
    ledgers=(LedgerAtEnd(QUEUE, 1, 4, 4, 4), LedgerAtEnd("contoso/x-servicebus-transfer/1", 0, 0, 0, 0)),
    statuses={"orders": "healthy"},
    depths={QUEUE: 0},
    billed={"vm:10": 4},
)


OUTAGE = Window("outage", "back", 90.0, 110.0, {"outage": 0})
[ONE, *_] = crowd.group("back", 0, 10)
OF_CROWD, GOT_OF_CROWD = replace(ORDER, target=ONE), replace(GOT, inbox=ONE, enqueued=112.0)
OUT = Evidence(attempts=(OF_CROWD,), receipts=(GOT_OF_CROWD,), windows=(OUTAGE,), crowd=10)
"""An entity that was out until 110, and whose message was home at 112."""


def found(evidence: Evidence) -> set[str]:
    return {finding.check for finding in judge(evidence)}


def without(receipt: Receipt) -> Evidence:
    return replace(SOUND, receipts=tuple(one for one in SOUND.receipts if one != receipt))


def but(old: Attempt, **changes: object) -> Evidence:
    changed = tuple(replace(one, **changes) if one == old else one for one in SOUND.attempts)
    return replace(SOUND, attempts=changed)


def also(*receipts: Receipt, **more: object) -> Evidence:
    return replace(SOUND, receipts=SOUND.receipts + receipts, **more)


REVERSED = replace(without(GOT_FIRST), receipts=(*without(GOT_FIRST).receipts, replace(GOT_FIRST, sequence=3)))


def test_nothing_is_found_where_nothing_is_broken() -> None:
    assert judge(SOUND) == judge(OUT) == []


BROKEN: list[tuple[str, Callable[[], Evidence]]] = [
    ("lost", lambda: without(GOT)),
    ("lost", lambda: without(GOT_BY_MAIL)),
    ("left behind", lambda: replace(without(GOT), left=(Left("primary", "orders", 1, "m0"),))),
    ("changed", lambda: also(replace(GOT, digest="other"))),
    ("foreign", lambda: also(replace(GOT, identity="<of nobody>", sequence=9))),
    ("foreign", lambda: replace(SOUND, receipts=(replace(GOT, message_id="another"), *SOUND.receipts[1:]))),
    ("doubled", lambda: also(replace(GOT, sequence=2, enqueued=150.0))),
    ("order", lambda: REVERSED),
    ("bound", lambda: but(ORDER, took_s=8.3)),
    ("seen", lambda: replace(SOUND, seen=(Seen("gateway-0", 150.0, 30.5),))),
    ("seen", lambda: replace(SOUND, seen=(Seen("gateway-0", 150.0, 0.0, "a detach"),))),
    ("hung", lambda: but(ORDER, outcome="", message_id=None)),
    ("hung", lambda: replace(SOUND, lives=(replace(LIFE, how="overdue"),))),
    ("crashed", lambda: replace(SOUND, lives=(LIFE, Life("worker-1", 11, 90.0, 95.0, "ended", 1)))),
    ("crashed", lambda: replace(SOUND, lives=(LIFE, Life("drainer-1", 11, 90.0, 95.0, "asked", 1)))),
    ("task", lambda: replace(SOUND, failed_tasks={"alerts.look IntegrityError": 58})),
    ("ledger", lambda: replace(SOUND, ledgers=(LedgerAtEnd(QUEUE, 1, 4, 3, 4),))),
    ("ledger", lambda: replace(SOUND, ledgers=(LedgerAtEnd(QUEUE, 1, 3, 3, 4),))),
    ("ledger", lambda: replace(SOUND, ledgers=(LedgerAtEnd(QUEUE, 0, 0, 0, 4),))),
    ("page", lambda: replace(SOUND, statuses={"orders": "failed_over"})),
    ("page", lambda: replace(SOUND, depths={QUEUE: 1})),
    ("barrier", lambda: replace(SOUND, barriers=("sessions s",))),
    ("usage", lambda: replace(SOUND, billed={"vm:10": 5})),
    ("usage", lambda: replace(SOUND, billed={"vm:10": 3})),
    ("late", lambda: replace(OUT, receipts=(replace(GOT_OF_CROWD, enqueued=200.0),))),
    ("settled", lambda: replace(SOUND, is_settled=False)),
]  # fmt: skip


@pytest.mark.parametrize(("check", "broken"), BROKEN)
def test_one_broken_thing_is_found_by_its_check_alone(check: str, broken: Callable[[], Evidence]) -> None:
    assert found(broken()) == {check}


def test_every_check_has_evidence_that_it_finds() -> None:
    assert {check for check, _ in BROKEN} == set(CHECKS)


def test_a_message_that_was_refused_may_be_missing_or_arrive() -> None:
    assert found(replace(but(ORDER, outcome="refused", message_id=None), billed={"vm:10": 3})) == set()
    refused = replace(without(GOT), attempts=(replace(ORDER, outcome="refused", message_id=None), *SOUND.attempts[1:]))
    assert found(replace(refused, billed={"vm:10": 3})) == set()


def test_a_redelivery_of_one_copy_is_no_double() -> None:
    assert found(also(replace(GOT, at=130.0))) == set()


def window(what: str, target: str, began: float, ended: float) -> tuple[Window, ...]:
    return (Window(what, target, began, ended),)


@pytest.mark.parametrize(
    ("windows", "second_at", "is_known"),
    [
        (window("kill", "drainer-1", 105.0, 107.0), 120.0, True),
        (window("kill", "drainer-1", 160.0, 160.0), 200.0, False),  # the first copy was settled long before
        (window("kill", "sender-0", 105.0, 107.0), 120.0, False),
        (window("kill", "primary", 100.0, 101.0), 101.0, True),
        (window("freeze", "drainer-1", 100.5, 112.0), 113.0, True),  # on its way when it was frozen
        (
            window("freeze", "drainer-1", 90.0, 112.0),
            112.5,
            False,
        ),  # sent by another one meanwhile, and once more after
        (window("network", "senders-primary", 99.0, 101.0), 101.0, True),
        (window("network", "senders-primary", 110.0, 111.0), 112.0, False),
        (window("network", "drainers-secondary", 101.0, 111.0), 112.0, True),
        (window("operate", "orders", 90.0, 130.0), 112.0, False),
    ],
)
def test_a_double_needs_a_reason_at_its_time_and_place(
    windows: tuple[Window, ...], second_at: float, is_known: bool
) -> None:
    doubled = also(replace(GOT, sequence=2, enqueued=second_at), windows=windows)
    assert ("doubled" in found(doubled)) is not is_known


def test_duplicate_detection_lets_no_reason_count() -> None:
    sent = [replace(ORDER, target="payments")]
    copies = [replace(GOT, inbox="payments"), replace(GOT, inbox="payments", sequence=2)]
    assert doubles.reason(sent, copies, "payments", window("kill", "primary", 99.0, 101.0)) is None
    assert doubles.reason(sent, copies, "orders", window("kill", "primary", 99.0, 101.0)) is not None


def test_a_message_that_waited_longer_than_its_queue_remembers_ids_may_arrive_twice() -> None:
    sent = [replace(ORDER, target="payments", outcome="refused"), replace(ORDER, target="payments")]
    late = [replace(GOT, inbox="payments"), replace(GOT, inbox="payments", sequence=2, enqueued=GOT.enqueued + 1165)]
    assert doubles.reason(sent, late, "payments", ()) == "the application sent it again"
    assert doubles.reason(sent[1:], late, "payments", ()) is None


def test_what_the_application_repeats_may_arrive_twice() -> None:
    again = replace(ORDER, outcome="refused", message_id=None)
    evidence = also(replace(GOT, sequence=2), attempts=(again, *SOUND.attempts))
    assert found(evidence) == set()


def test_the_order_is_not_promised_while_redis_does_not_answer() -> None:
    assert found(replace(REVERSED, windows=window("kill", "redis", 99.0, 101.0))) == set()
    assert found(replace(REVERSED, windows=window("network", "senders-redis", 99.0, 101.0))) == set()
    assert found(replace(REVERSED, windows=window("kill", "redis", 200.0, 201.0))) == {"order"}


def test_time_that_the_host_or_a_freeze_withheld_is_not_the_senders() -> None:
    assert found(but(ORDER, took_s=9.0, withheld_s=0.9)) == set()
    frozen = but(ORDER, took_s=14.0, ended=114.0)
    assert found(replace(frozen, windows=window("freeze", "sender-0", 101.0, 108.0))) == set()
    assert found(replace(frozen, windows=window("freeze", "sender-1", 101.0, 108.0))) == {"bound"}


def test_a_killed_process_takes_a_send_and_the_usage_of_its_last_minute_with_it() -> None:
    killed = replace(LIFE, how="killed", code=-9, ended=101.5)
    cut_short = but(SECOND, outcome="", message_id=None)
    assert found(replace(cut_short, lives=(killed,), billed={"vm:10": 0})) == set()
    assert found(replace(SOUND, lives=(replace(killed, ended=200.0),), billed={"vm:10": 0})) == {"usage"}


def test_a_process_that_ends_while_redis_is_away_takes_the_usage_of_its_last_minute_with_it() -> None:
    life = replace(LIFE, ended=104.0)
    ended = replace(SOUND, lives=(life,), billed={"vm:10": 0})

    def with_redis_back_at(began: float, sender: Life = life, loading_s: float = 0.0) -> Evidence:
        first = Life("redis", 20, 80.0, 103.0, "killed", -9)
        lives = (sender, first, replace(first, pid=21, began=began, ended=300.0, how="asked"))
        return replace(ended, lives=lives, redis_loaded=(80.0, began + loading_s))

    assert found(ended) == {"usage"}
    assert found(with_redis_back_at(104.5)) == set()
    assert found(with_redis_back_at(103.5, replace(life, ended=106.0))) == {"usage"}
    assert found(with_redis_back_at(103.5, replace(life, ended=106.0), loading_s=3.0)) == set()
    assert found(with_redis_back_at(200.5, LIFE)) == {"usage"}  # it had reported the minutes before
    assert found(replace(ended, windows=window("network", "senders-redis", 103.0, 110.0))) == set()
    assert found(replace(ended, windows=window("freeze", "redis", 103.0, 110.0))) == set()
    for elsewhere in ("workers-redis", "senders-primary"):
        assert found(replace(ended, windows=window("network", elsewhere, 103.0, 110.0))) == {"usage"}
    assert found(replace(ended, windows=window("network", "senders-redis", 80.0, 90.0))) == {"usage"}


def test_redis_has_loaded_its_data_when_it_says_so() -> None:
    started = "27880:M 25 Nov 2026 19:33:02.373 # Server initialized\n"
    loaded = "27880:M 25 Nov 2026 19:33:05.632 * Ready to accept connections\n"
    assert list(loaded_at([started, loaded])) == [datetime(2026, 11, 25, 19, 33, 5, 632_000).timestamp()]


def test_failed_tasks_are_counted_by_task_and_exception() -> None:
    failed = "level='error' event='Task alerts.look[be1c-d0] raised unexpected: IntegrityError(\\'duplicate key\\')'\n"
    assert failed_tasks([failed, "event='Task alerts.look[be1c-d0] succeeded'\n", failed]) == {
        "alerts.look IntegrityError": 2
    }


def test_a_process_id_that_the_system_gave_again_is_another_life() -> None:
    killed = replace(LIFE, how="killed", code=-9, ended=104.0)
    later = Life(LIFE.process, LIFE.pid, 400.0, 401.0, "asked", -15)
    assert found(replace(SOUND, lives=(killed, later), billed={"vm:10": 0})) == set()
    lives = Lives([killed, later])
    assert [lives.at(LIFE.process, LIFE.pid, moment) for moment in (101.0, 400.5, 200.0)] == [killed, later, None]


def test_an_attempt_without_an_outcome_ends_where_the_next_record_begins() -> None:
    letters = {"letters": [["i", "d"]], "target": "orders", "session": None, "bound_s": 8.0}
    records = [
        {"kind": "began", "at": 1.0, "pid": 7},
        {"kind": "attempted", "at": 2.0, "turn": 0, **letters},
        {"kind": "began", "at": 3.0, "pid": 8},
        {"kind": "attempted", "at": 4.0, "turn": 1, **letters},
        {"kind": "accepted", "at": 5.0, "turn": 1, "took_s": 1.0, "withheld_s": 0.0, "message_ids": ["m"]},
        {"kind": "attempted", "at": 6.0, "turn": 2, **letters},
    ]
    assert [(one.pid, one.outcome) for one in attempts_of("sender-0", iter(records))] == [
        (7, ""),
        (8, "accepted"),
        (8, ""),
    ]


def test_the_table_has_a_line_for_each_check_and_shows_what_was_found() -> None:
    findings = judge(without(GOT))
    text = report.table({"seed": 1}, report.sizes(without(GOT)), findings)
    assert all(f"\n{check} " in text for check in CHECKS)
    assert "sender-0-0-0: accepted by sender-0, never in orders" in text
    assert text.endswith("1 findings: something is broken")
    assert report.table({}, {}, []).endswith("nothing is broken")
