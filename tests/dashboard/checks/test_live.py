"""`check --live` on two local namespaces: trials with the real library, faults, and what is left behind: nothing."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dashboard.checks.live import plan, running, stage, trials
from dashboard.checks.live.assumptions import BY_ID, Holding, Result
from dashboard.checks.live.scratch import PREFIX
from dashboard.checks.live.stage import Stage
from dashboard.fleet.pairs_file import load_pairs
from pairing.messages import rewriting
from tests.dashboard.checks.test_endpoints import fault
from tests.dashboard.served import ROOT

LEFT = f"{PREFIX}20261102030405-0a1b2c3d"


def check(*words: str, **options: Any) -> tuple[int, str, str]:
    """The exit status and the outputs of `check --live contoso`."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("check", "--live", "contoso", *words, stdout=out, stderr=err, **options)
    except SystemExit as left:
        return int(left.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def results_of(output: str) -> dict[str, str]:
    return {entry["id"]: entry["result"] for entry in json.loads(output)["results"]}


@pytest.fixture
def scratch_of(reachable) -> Callable[[], list[str]]:
    """The scratch entities that exist in both namespaces."""

    def look() -> list[str]:
        here, there = reachable.administration, reachable.primary_administration
        names = [one.name for side in (here, there) for one in (*side.list_queues(), *side.list_topics())]
        return [name for name in names if name.startswith(PREFIX)]

    return look


def test_everything_holds_on_the_emulator_and_is_marked_so(reachable, scratch_of, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    before = [queue.name for queue in reachable.primary_administration.list_queues()]

    status, printed, said = check("--yes", "--json", "--report", str(file))

    assert status == 0, printed
    document = json.loads(printed)
    assert document == json.loads(file.read_text())
    found = results_of(printed)
    assert set(found) == set(BY_ID)
    assert {id_ for id_, result in found.items() if result != Holding.HOLDS} == {
        "rights.primary.least",
        *(one.id for one in BY_ID.values() if not one.trial),
    }
    assert document["is_emulator"] is True
    assert "nothing about Azure" in document["about"]
    assert "operations" in said
    assert "nothing is billed" in said
    assert scratch_of() == []
    assert [queue.name for queue in reachable.primary_administration.list_queues()] == before


def test_a_lock_that_cannot_be_renewed_contradicts_the_assumption(reachable, scratch_of, local_namespaces) -> None:
    gone = {"operation": "manage", "effect": "status", "status": 410, "condition": "com.microsoft:message-lock-lost"}
    with fault(local_namespaces["CONTOSO_PRIMARY"], **gone):
        status, printed, _ = check("--yes", "--json", "--only", "locks.renewal")

    assert status == 1
    found = results_of(printed)
    assert found["locks.renewal"] == "does not hold"
    assert found["settle.deferred"] == "could not tell"
    assert scratch_of() == []


def test_pings_that_are_delivered_contradict_the_assumption(reachable, monkeypatch) -> None:
    """The namespace recognises pings by their content type: with another one it delivers them."""
    monkeypatch.setattr(rewriting, "PING_CONTENT_TYPE", "application/x-delivered")

    status, printed, _ = check("--yes", "--json", "--only", "pings.queue")

    assert status == 1
    assert results_of(printed) == {
        "pings.queue": "does not hold",
        "pings.topic": "does not hold",
        "pings.sessions": "holds",
    }


def test_without_manage_nothing_is_known_and_nothing_is_created(reachable, scratch_of, local_namespaces) -> None:
    with fault(local_namespaces["CONTOSO_PRIMARY"], operation="admin", effect="status", status=401):
        status, printed, _ = check("--yes", "--json", "--only", "duplicates.dropped", "--only", "locks.renewal")

    document = json.loads(printed)
    assert set(results_of(printed).values()) == {"could not tell"}
    assert "ClientAuthenticationError" in document["results"][0]["reason"]
    assert scratch_of() == []
    assert status == 0


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
from dashboard.fleet.pairs_file import load_pairs
with Stage(load_pairs()["contoso"], "{LEFT}") as stage:
    stage.queue("queue")
    stage.queue("quarantine", "secondary")
    print("created", flush=True)
    time.sleep(600)
"""


def test_an_interrupted_run_cleans_up(reachable, scratch_of, monkeypatch) -> None:
    def interrupted(here: Stage) -> Any:
        here.queue("queue")
        assert len(scratch_of()) == 1
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(running, "TRIALS", {**trials.TRIALS, "duplicates": interrupted})
    status, printed, _ = check("--yes", "--json", "--only", "duplicates.dropped")

    assert status == 2
    assert json.loads(printed)["interrupted"] is True
    assert scratch_of() == []


def test_an_emulator_that_is_away_is_no_traceback_and_no_wait(pair, settings, tmp_path, monkeypatch) -> None:
    nobody = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=K;SharedAccessKey=hunter2;UseDevelopmentEmulator=true;"
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(
        '[pairs.contoso]\nprimary = { connection_string_env = "NOBODY" }\n'
        'secondary = { connection_string_env = "NOBODY", namespace = "contoso-dr" }\n'
    )
    monkeypatch.setenv("NOBODY", nobody)

    status, printed, said = check("--yes", "--json", "--only", "duplicates.dropped")

    assert results_of(printed) == {"duplicates.dropped": "could not tell"}
    assert status == 2
    assert "is not known" in said
    assert "hunter2" not in printed + said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Not confirmed, so nothing was done. Without a terminal, use --yes."),
        (("--yes", "--only", "nothing"), "There is no assumption nothing"),
        (("--yes", "--only", "throttling"), "throttling cannot be tried"),
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


def test_the_price_is_that_of_the_price_list_in_use(pair) -> None:
    """By the same rule as the cost of a drill; the bundled sample list here."""
    price = plan.price_of("contoso", {"send": 3, "settle": 2}, stage.now())

    assert price is not None
    assert price["billable_operations"] == 3
    assert price["is_sample"] is True


def test_a_trial_that_ends_early_leaves_the_rest_unknown(reachable, monkeypatch) -> None:
    def ends(_: Stage) -> Any:
        yield Result("sequence.gapless", Holding.HOLDS, "")
        raise ConnectionError("gone")

    monkeypatch.setattr(running, "TRIALS", {"locks": ends})
    found: list[Result] = []
    with Stage(load_pairs()["contoso"], LEFT) as here:
        running.try_one(here, "locks", found.append)

    assert [one.holding for one in found] == [Holding.HOLDS, *[Holding.UNKNOWN] * 5]
    assert "gone" in found[1].reason
    assert "ended at clocks.service" in found[2].reason


def test_what_does_not_happen_in_time_is_an_error_and_no_endless_wait(monkeypatch) -> None:
    monkeypatch.setattr(stage, "WAIT_S", 0.0)
    monkeypatch.setattr(time, "sleep", lambda _: None)

    with pytest.raises(stage.TooLate, match="draining did not happen"):
        stage.wait_until("draining", lambda: False)
