"""Campaigns from end to end, a few seconds by day, two minutes at night: nothing is broken, nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from tests.campaign import plan as plans
from tests.campaign.languages import LANGUAGES, NET
from tests.campaign.plan import SMALL, Plan
from tests.campaign.safeguards import SAFEGUARDS
from tests.emulator.clients import programs

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
TINY = replace(
    SMALL, messages=20, kills=2, senders=2, receivers=1, rate=6.0, gap_s=0.8, has_control_plane=False, seed=12, crowd=0,
    kinds=("kill", "network", "fault"),
)  # fmt: skip


def run(plan: Plan, folder: Path) -> dict[str, object]:
    """The result of a campaign; fails with all it said if anything is broken."""
    folder.mkdir()
    plans.keep(plan, folder)
    argv = [sys.executable, "-m", "tests.campaign", "--resume", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    logs = (f"\n{log.name}\n{log.read_text()[-2000:]}" for log in sorted((folder / "logs").glob("*.log")))
    assert done.returncode == 0, done.stdout + done.stderr + "".join(logs)
    result: dict[str, object] = json.loads((folder / "result.json").read_text())
    return result


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that have the folder among their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_a_campaign_of_seconds_finds_nothing_broken_and_leaves_nothing_behind(tmp_path: Path) -> None:
    result = run(TINY, tmp_path / "campaign")
    assert result["findings"] == []
    assert int(str(result["messages accepted"])) >= TINY.messages
    assert result["disturbances"]
    assert not processes_of(tmp_path)
    assert not any(os.path.ismount(path) for path in (tmp_path / "campaign" / "stores").iterdir())


def spoken() -> tuple[str, ...]:
    """The languages whose programs can be had here."""
    is_there = {"Go": which("go"), "Java": which("mvn"), "JavaScript": which("npm"), NET: programs.NET_CLIENT}
    return tuple(name for name in LANGUAGES if is_there[name])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_campaign_of_two_minutes_finds_nothing_broken(tmp_path: Path, seed: int) -> None:
    result = run(replace(SMALL, seed=seed, gatewayed=1, languages=spoken()), tmp_path / "campaign")
    assert int(str(result["kills"])) > 0
    assert not processes_of(tmp_path)


@pytest.mark.nightly
def test_a_campaign_that_is_interrupted_leaves_nothing_behind_and_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    folder.mkdir()
    plans.keep(replace(TINY, messages=60), folder)
    argv = [sys.executable, "-m", "tests.campaign", "--resume", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        lines = iter(first.stdout)
        assert any(" kill " in line or " network " in line or " fault " in line for line in lines)
        first.send_signal(signal.SIGINT)
        assert any("interrupted" in line for line in lines)
    assert first.returncode == 130
    assert not processes_of(tmp_path)
    progress = json.loads((folder / "progress.json").read_text())
    assert progress["number"] > 0
    again = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout
    assert json.loads((folder / "progress.json").read_text())["number"] >= progress["number"]


DRAINS = "--kinds fault,operate,network --gap 2"
"""Disturbances by which much is drained."""
THROUGH = "--senders 1 --gatewayed 2 --gap 2"
MISSED = {
    "usage": "", "identity": "", "lease": "", "settle": DRAINS, "retained": THROUGH, "proven": THROUGH,
    "hidden": f"{THROUGH} --rate 12 --kinds detach", "released": f"{THROUGH} --gap 1 --kinds fault",
}  # fmt: skip
"""Safeguards that the campaign misses, with the options by which it does."""
RUNS = 3


@pytest.mark.nightly
@pytest.mark.parametrize("name", MISSED)
def test_a_safeguard_that_is_removed_is_missed_within_three_runs(name: str, tmp_path: Path) -> None:
    size = ["--small", "--without-control-plane", "--minutes", "1.5", *MISSED[name].split()]
    for seed in range(5, 5 + RUNS):
        folder = tmp_path / str(seed)
        argv = [sys.executable, "-m", "tests.campaign", *size, "--without", name, "--seed", str(seed)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*argv, "--folder", str(folder)], cwd=ROOT, env=environment, check=False)
        assert done.returncode in (0, 1)
        found = {check for check, _, _ in json.loads((folder / "result.json").read_text())["findings"]}
        if not found.isdisjoint(SAFEGUARDS[name].checks):
            return
    pytest.fail(f"{RUNS} runs without it found nothing")
