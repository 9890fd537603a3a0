"""`check --live` on two local namespaces: trials with the real library, faults, and what is left behind: nothing."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

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

from dashboard.checks.live import stage
from dashboard.checks.live.assumptions import ASSUMPTIONS, Assumption, Holding
from dashboard.checks.live.failovers import differences
from dashboard.checks.live.stage import Stage
from dashboard.fleet.pairs.pairs_file import load_pairs
from pairing.backlog.rotation import backlog_path
from pairing.messages import rewriting
from tests.dashboard.served import ROOT
from tests.test_docs import anchor, headings

DOCS = ROOT / "docs"
LEFT = "paired-namespaces-check-20261102030405-0a1b2c3d"


@contextmanager
def fault(connection_string: str, **body: Any) -> Iterator[None]:
    """A fault of the namespace, for as long as the block."""
    where = connection_string.split(";")[0].removeprefix("Endpoint=sb://").rstrip("/")
    address = f"http://{where}/$emulator/faults"
    with urllib.request.urlopen(
        urllib.request.Request(address, data=json.dumps(body).encode(), method="POST"), timeout=60
    ):
        pass
    try:
        yield
    finally:
        with urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60):
            pass


def check(*words: str, **options: Any) -> tuple[int, str, str]:
    """The exit status and the outputs of `check --live contoso`."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("check", "--live", "contoso", *words, stdout=out, stderr=err, **options)
    except SystemExit as left:
        return int(left.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


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
        return [name for name in names if stage.is_scratch(name)]

    return look


def test_a_lock_that_cannot_be_renewed_contradicts_the_assumption(reachable, scratch_of, local_namespaces) -> None:
    gone = {"operation": "manage", "effect": "status", "status": 410, "condition": "com.microsoft:message-lock-lost"}
    with fault(local_namespaces["CONTOSO_PRIMARY"], **gone):
        status, printed, _ = check("--yes", "--only", "locks.renewal")

    assert status == 1
    assert results_of(printed) == {"locks.renewal": "does not hold"}
    assert scratch_of() == []


def test_pings_that_are_delivered_contradict_the_assumption(reachable, monkeypatch) -> None:
    """The namespace recognises pings by their content type: with another one it delivers them."""
    monkeypatch.setattr(rewriting, "PING_CONTENT_TYPE", "application/x-delivered")

    status, printed, said = check("--yes", "--only", "pings.queue", "--only", "pings.sessions")

    assert status == 1
    assert results_of(printed) == {"pings.queue": "does not hold", "pings.sessions": "holds"}
    assert "show nothing about Azure" in printed
    assert "nothing is billed" in said


def test_without_manage_nothing_is_known_and_nothing_is_created(reachable, scratch_of, local_namespaces) -> None:
    with fault(local_namespaces["CONTOSO_PRIMARY"], operation="admin", effect="status", status=401):
        status, printed, _ = check("--yes", "--only", "duplicates.dropped", "--only", "locks.renewal")

    assert set(results_of(printed).values()) == {"could not tell"}
    assert "ClientAuthenticationError" in printed
    assert scratch_of() == []
    assert status == 2


def test_what_a_killed_run_has_left_is_found_and_deleted(reachable, scratch_of) -> None:
    """Killed while a trial holds scratch entities in both namespaces."""
    with subprocess.Popen(
        (sys.executable, "-c", KILLED), cwd=ROOT, env=environment(reachable.strings), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "created\n"
        process.send_signal(signal.SIGKILL)
    reachable.make("orders-of-others")
    assert len(scratch_of()) == 2

    status, _, said = check("--yes", "--clean")

    assert status == 0
    assert "Left by earlier runs" in said
    assert "Deleted: 2." in said
    assert scratch_of() == []
    assert "orders-of-others" in [queue.name for queue in reachable.administration.list_queues()]


def environment(strings: Any) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "STATE_DIR") if name in os.environ}
    return {**kept, **strings, "LOG_LEVEL": "WARNING"}


KILLED = f"""
import os, tempfile, time
folder = tempfile.mkdtemp()
os.environ.update(STATE_DIR=folder, DJANGO_SETTINGS_MODULE="dashboard.settings", PAIRS_FILE=folder + "/pairs.toml")
open(folder + "/pairs.toml", "w").write('''
[pairs.contoso]
primary = {{ connection_string_env = "CONTOSO_PRIMARY" }}
secondary = {{ connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }}
''')
import django
django.setup()
from dashboard.checks.live.stage import Stage
from dashboard.fleet.pairs.pairs_file import load_pairs
with Stage(load_pairs()["contoso"], "{LEFT}") as stage:
    stage.queue("queue")
    stage.queue("quarantine", "secondary")
    print("created", flush=True)
    time.sleep(600)
"""


def test_an_interrupted_run_cleans_up(reachable, scratch_of, monkeypatch) -> None:
    def interrupted(here: Stage) -> None:
        here.queue("queue")
        assert len(scratch_of()) == 1
        raise KeyboardInterrupt

    monkeypatch.setitem(ASSUMPTIONS, "locks.renewal", Assumption("locks.renewal", "", "", interrupted))
    status, printed, _ = check("--yes", "--only", "locks.renewal")

    assert status == 2
    assert "Interrupted: the rest was not tried." in printed
    assert scratch_of() == []


def test_an_emulator_that_is_away_is_no_traceback_and_no_wait(pair, settings, tmp_path, monkeypatch) -> None:
    nobody = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=K;SharedAccessKey=hunter2;UseDevelopmentEmulator=true;"
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(
        '[pairs.contoso]\nprimary = { connection_string_env = "NOBODY" }\n'
        'secondary = { connection_string_env = "NOBODY", namespace = "contoso-dr" }\n'
    )
    monkeypatch.setenv("NOBODY", nobody)

    status, printed, said = check("--yes", "--only", "duplicates.dropped")

    assert results_of(printed) == {"duplicates.dropped": "could not tell"}
    assert status == 2
    assert "may be left" in said
    assert "hunter2" not in printed + said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Not confirmed, so nothing was done. Without a terminal, use --yes."),
        (("--yes", "--only", "nothing"), "There is no assumption nothing"),
    ],
)
def test_what_cannot_begin_is_one_sentence(reachable, scratch_of, monkeypatch, words, sentence) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    with pytest.raises(CommandError, match=sentence):
        check(*words)
    assert scratch_of() == []


def test_a_pair_that_is_not_configured_is_one_sentence(reachable) -> None:
    with pytest.raises(CommandError, match="There is no pair fabrikam in PAIRS_FILE; the known ones are: contoso"):
        call_command("check", "--live", "fabrikam")


def test_the_library_is_closed_before_its_backlog_queue_is_deleted(reachable, monkeypatch) -> None:
    """It creates a backlog queue again that is deleted while it lives."""
    states: list[str] = []
    with Stage(load_pairs()["contoso"], LEFT) as here:
        client, delete = here.client, here.delete
        here.queue("queue")
        monkeypatch.setattr(here, "delete", lambda scratch: (states.append(client.state), delete(scratch)))

        assert here.clean_up() == []

    assert states == ["closed", "closed"]


@pytest.mark.parametrize(
    "path",
    [
        "orders",
        "contoso/x-servicebus-transfer/0",
        LEFT,
        f"{LEFT}-orders",
        f"orders/{LEFT}/queue",
        "paired-namespaces-check-orders/queue",
        "paired-namespaces-check-20261102030405-0A1B2C3D/queue",
    ],
)
def test_other_entities_are_never_scratch_entities(path: str) -> None:
    assert stage.is_scratch(f"{LEFT}/queue")
    assert stage.is_scratch(backlog_path(LEFT, 0))
    assert not stage.is_scratch(path)


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


def test_every_assumption_names_a_section_and_is_documented() -> None:
    documented = " ".join((DOCS / "check.md").read_text(encoding="utf-8").split())
    for one in ASSUMPTIONS.values():
        page, _, heading = one.section.partition("#")
        assert heading in map(anchor, headings(DOCS / page))
        assert f"- `{one.id}`: {one.sentence}" in documented


def test_a_difference_after_the_backlog_is_named() -> None:
    assert differences({"a": 1, "b": 2, "c": None}, {"a": 1, "b": 3}) == ["b", "c"]
