"""`check --live` on two local namespaces: trials with the real library, faults, and what is left behind: nothing."""

import io
import re
from collections.abc import Callable
from typing import cast

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)
from django.core.management import CommandError, call_command

from dashboard.checks import stage
from dashboard.checks.assumptions import ASSUMPTIONS, Assumption, Holding
from dashboard.checks.failovers import differences
from dashboard.checks.stage import Stage
from emulator.running import RunningNamespace
from pairing.messages import rewriting
from tests.dashboard.served import ROOT
from tests.test_docs import anchor, headings

DOCS = ROOT / "docs"


def at(connection_string: str) -> RunningNamespace:
    return RunningNamespace("contoso", connection_string)


def check(*ids: str) -> tuple[int, str]:
    """The exit status and the output of `check --live contoso`."""
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("check", "--live", "contoso", *(word for one in ids for word in ("--only", one)), stdout=out)
    return int(left.value.code or 0), out.getvalue()


def results_of(output: str) -> dict[str, str]:
    found = (re.match(rf"({'|'.join(Holding)}) +([a-z.]+)", line) for line in output.splitlines())
    return {one[2]: one[1] for one in found if one}


@pytest.fixture(autouse=True)
def patient(monkeypatch) -> None:
    """No bound that a slow machine reaches."""
    monkeypatch.setattr(stage, "WAIT_S", 300.0)


@pytest.fixture
def scratch_of(reachable) -> Callable[[], list[str]]:
    """The scratch entities that exist in both namespaces."""

    def look() -> list[str]:
        here, there = reachable.administration, reachable.primary_administration
        names = [one.name for side in (here, there) for one in (*side.list_queues(), *side.list_topics())]
        return [name for name in names if name.startswith(stage.PREFIX)]

    return look


def test_a_lock_that_cannot_be_renewed_contradicts_the_assumption(reachable, scratch_of, local_namespaces) -> None:
    gone = {"operation": "manage", "effect": "status", "status": 410, "condition": "com.microsoft:message-lock-lost"}
    with at(local_namespaces["CONTOSO_PRIMARY"]).faulty(**gone):
        status, printed = check("locks.renewal")

    assert status == 1
    assert results_of(printed) == {"locks.renewal": "does not hold"}
    assert scratch_of() == []


def test_pings_that_are_delivered_contradict_the_assumption(reachable, monkeypatch) -> None:
    """The namespace recognises pings by their content type: with another one it delivers them."""
    monkeypatch.setattr(rewriting, "PING_CONTENT_TYPE", "application/x-delivered")

    status, printed = check("pings.queue", "pings.sessions")

    assert status == 1
    assert results_of(printed) == {"pings.queue": "does not hold", "pings.sessions": "holds"}
    assert "show nothing about Azure" in printed


def test_without_manage_nothing_is_known_and_nothing_is_created(reachable, scratch_of, local_namespaces) -> None:
    with at(local_namespaces["CONTOSO_PRIMARY"]).faulty(operation="admin", effect="status", status=401):
        status, printed = check("duplicates.dropped", "locks.renewal")

    assert set(results_of(printed).values()) == {"could not tell"}
    assert "ClientAuthenticationError" in printed
    assert (status, scratch_of()) == (0, [])


def test_an_interrupted_run_cleans_up(reachable, scratch_of, monkeypatch) -> None:
    def interrupted(here: Stage) -> None:
        here.queue("queue")
        assert here.client.state == "opened"
        assert len(scratch_of()) == 2
        raise KeyboardInterrupt

    monkeypatch.setitem(ASSUMPTIONS, "locks.renewal", Assumption("locks.renewal", "", "", interrupted))
    with pytest.raises(KeyboardInterrupt):
        check("locks.renewal")

    assert scratch_of() == []


def test_an_emulator_that_is_away_is_no_traceback_and_no_wait(pair, settings, tmp_path, monkeypatch) -> None:
    nobody = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=K;SharedAccessKey=hunter2;UseDevelopmentEmulator=true;"
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(
        '[pairs.contoso]\nprimary = { connection_string_env = "NOBODY" }\n'
        'secondary = { connection_string_env = "NOBODY", namespace = "contoso-dr" }\n'
    )
    monkeypatch.setenv("NOBODY", nobody)

    status, printed = check("duplicates.dropped")

    assert results_of(printed) == {"duplicates.dropped": "could not tell"}
    assert status == 0
    assert "hunter2" not in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("contoso", "--only", "nothing"), "invalid choice: 'nothing'"),
        (("fabrikam",), "There is no pair fabrikam in PAIRS_FILE; the known ones are: contoso"),
    ],
)
def test_what_cannot_begin_is_one_sentence(reachable, words, sentence) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("check", "--live", *words)


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
        (OSError("SharedAccessKey=hunter2;"), Holding.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_definite_refusal_contradicts_an_assumption(error: Exception, holding: Holding) -> None:
    def fails(_: Stage) -> None:
        raise error

    found, reason = Assumption("a", "", "", fails).tried(cast("Stage", None))

    assert found is holding
    assert "hunter2" not in reason


def test_every_assumption_names_a_section() -> None:
    for one in ASSUMPTIONS.values():
        page, _, heading = one.section.partition("#")
        assert heading in map(anchor, headings(DOCS / page))


def test_a_difference_after_the_backlog_is_named() -> None:
    assert differences({"a": 1, "b": 2, "c": None}, {"a": 1, "b": 3}) == ["b", "c"]
