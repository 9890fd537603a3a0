"""The pure part of `check --live`: assumptions as data, names of scratch entities, classification, plan and report."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from dashboard.checks.live import plan, report
from dashboard.checks.live.assumptions import ASSUMPTIONS, BY_ID, Holding, Result, of_trial, trials_for, untried
from dashboard.checks.live.findings import after_error
from dashboard.checks.live.scratch import PREFIX, Scratch, among, began_at, described, new_prefix
from dashboard.checks.live.snapshots import differences
from dashboard.checks.live.trials import TRIALS
from pairing.backlog.rotation import backlog_path
from tests.test_docs import anchor, headings

DOCS = Path(__file__).resolve().parents[3] / "docs"
NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
MINE = f"{PREFIX}20261102030405-0a1b2c3d"


# -- assumptions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assumption", ASSUMPTIONS, ids=lambda one: one.id)
def test_an_assumption_names_a_section_and_a_trial_or_where_to_look(assumption: Any) -> None:
    page, _, heading = assumption.section.partition("#")

    assert heading in map(anchor, headings(DOCS / page))
    assert bool(assumption.trial) != bool(assumption.otherwise)
    assert f"`{assumption.id}`" in (DOCS / "check.md").read_text(encoding="utf-8")


def test_ids_are_unique_and_every_trial_has_assumptions_and_a_price() -> None:
    assert len(BY_ID) == len(ASSUMPTIONS)
    assert set(TRIALS) == set(plan.OPERATIONS) == set(trials_for(()))
    assert all(of_trial(trial) for trial in TRIALS)


def test_only_the_trials_that_are_asked_for_run() -> None:
    assert trials_for(["locks.renewal", "settle.deferred"]) == ("locks",)


# -- scratch entities --------------------------------------------------------------------------------------------------


def test_a_prefix_names_when_the_run_began() -> None:
    assert new_prefix(NOW, "0a1b2c3d") == MINE
    assert began_at(backlog_path(MINE, 0)) == NOW
    assert described([Scratch("primary", "queue", f"{MINE}/queue")]) == [
        f"primary queue {MINE}/queue, of a run that began 2026-11-02 03:04:05 UTC"
    ]


@pytest.mark.parametrize(
    "path",
    [
        "orders",
        "contoso/x-servicebus-transfer/0",
        MINE,
        f"{MINE}-orders",
        f"orders/{MINE}/queue",
        f"{PREFIX}orders/queue",
        f"{PREFIX}20261302030405-0a1b2c3d/queue",
        f"{PREFIX}20261102030405-0A1B2C3D/queue",
    ],
)
def test_other_entities_are_never_scratch_entities(path: str) -> None:
    assert began_at(path) is None
    assert among("primary", "queue", [path]) == []
    with pytest.raises(ValueError, match="not a scratch entity"):
        Scratch("primary", "queue", path)


def test_the_entities_of_one_run_are_found_among_those_of_others() -> None:
    other = f"{PREFIX}20261102030405-ffffffff"
    paths = ["orders", f"{MINE}/queue", f"{other}/queue", backlog_path(MINE, 0)]

    assert [one.path for one in among("primary", "queue", paths, MINE)] == [f"{MINE}/queue", backlog_path(MINE, 0)]
    assert len(among("primary", "queue", paths)) == 3


# -- what an error says ------------------------------------------------------------------------------------------------


def http_error(status: int) -> HttpResponseError:
    error = HttpResponseError(message="refused")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("error", "holding"),
    [
        (OperationTimeoutError(), Holding.UNKNOWN),
        (ServiceBusConnectionError(), Holding.UNKNOWN),
        (ServiceBusServerBusyError(message="busy"), Holding.UNKNOWN),
        (ServiceBusAuthenticationError(), Holding.UNKNOWN),
        (ClientAuthenticationError("no"), Holding.UNKNOWN),
        (ServiceRequestError("away"), Holding.UNKNOWN),
        (http_error(503), Holding.UNKNOWN),
        (http_error(400), Holding.FAILS),
        (MessageLockLostError(message="lost", error=None), Holding.FAILS),
        (RuntimeError("a fault of this check"), Holding.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_definite_refusal_contradicts_an_assumption(error: Exception, holding: Holding) -> None:
    assert after_error("locks.renewal", error).holding is holding


def test_a_reason_holds_no_secret() -> None:
    assert "hunter2" not in after_error("locks.renewal", OSError("SharedAccessKey=hunter2;")).reason


def test_differences_name_what_changed_and_what_is_missing() -> None:
    assert differences({"a": 1, "b": 2, "c": None}, {"a": 1, "b": 3}) == ["b", "c"]
    assert differences({"a": 1}, {"a": 1}) == []


# -- plan and report ---------------------------------------------------------------------------------------------------


def test_operations_are_those_of_the_trials_and_of_cleaning_up() -> None:
    assert plan.operations_of(("duplicates",)) == {"manage": 15, "receive": 3, "send": 3, "settle": 2}
    assert sum(plan.operations_of(TRIALS).values()) < 1000


def test_operations_and_price_are_announced() -> None:
    price = {"billable_operations": 21, "amount": "0.00001", "currency": "EUR", "is_sample": True}
    said = plan.announced("contoso", {"send": 20, "settle": 2}, price, 3, is_emulator=False)

    assert re.search(r"3 trials .* contoso: at most 22 operations, 21 of them billable, 0\.00001 EUR.*sample", said)
    assert "price is not known" in plan.announced("contoso", {"send": 20}, None, 3, is_emulator=False)
    assert "nothing is billed" in plan.announced("contoso", {"send": 20}, price, 3, is_emulator=True)


def reported(*results: Result, **changes: Any) -> report.Report:
    known = {
        "pair": "contoso",
        "hosts": {"primary": "127.0.0.1:1"},
        "is_emulator": True,
        "began_at": NOW,
        "ended_at": NOW + timedelta(minutes=1),
        "operations": {"send": 1},
        "cost": None,
        "results": results,
    }
    return report.Report(**{**known, **changes})


HELD = Result("locks.renewal", Holding.HOLDS, "")
FAILED = Result("pings.queue", Holding.FAILS, "the ping was delivered")
UNKNOWN = Result("throttling", Holding.UNKNOWN, "look at the metrics")


def test_only_what_does_not_hold_or_is_left_sets_the_exit_status() -> None:
    assert reported(HELD, UNKNOWN).status == 0
    assert reported(HELD, FAILED).status == 1
    assert reported(HELD, FAILED, left=["primary x"]).status == 2
    assert reported(HELD, interrupted=True).status == 2


def test_results_of_an_emulator_are_marked_so() -> None:
    assert "show nothing about Azure" in reported(HELD).lines()[-1]
    assert reported(HELD).document()["is_emulator"] is True
    assert "Tried on Azure" in reported(HELD, is_emulator=False).lines()[-1]


def test_a_result_is_a_line_with_its_reason_and_section() -> None:
    assert report.line_of(HELD) == "holds          locks.renewal            Renewing a lock moves its end."
    assert report.line_of(FAILED).endswith("The ping was delivered. (docs/specification.md#7-pings)")


def test_the_document_has_every_result() -> None:
    (entry,) = reported(FAILED).document()["results"]

    assert (entry["id"], entry["result"], entry["reason"]) == ("pings.queue", "does not hold", "the ping was delivered")


def test_what_cannot_be_tried_is_not_known_and_says_where_to_look() -> None:
    assert all(result.holding is Holding.UNKNOWN and result.reason for result in untried())
    assert "Azure Monitor" in next(one.reason for one in untried() if one.id == "billing.idle_receive")
