"""The documented assumptions about the service, exactly as `check --live` tries them on real namespaces."""

import json
import urllib.request

import pytest

from dashboard.checks.live import stage
from dashboard.checks.live.assumptions import Holding
from dashboard.checks.live.running import OPERATIONS, Result, run_live
from dashboard.fleet.pairs.pairs_file import load_pairs

pytestmark = pytest.mark.contract


def metered(connection_string):
    """The operations that a local namespace has counted at scratch entities."""
    where = connection_string.split(";")[0].removeprefix("Endpoint=sb://").rstrip("/")
    with urllib.request.urlopen(f"http://{where}/$emulator/meter", timeout=60) as response:
        entities = json.load(response)
    kinds = [kind for path, kinds in entities.items() if stage.is_scratch(path) for kind in kinds.values()]
    return sum(kind["operations"] for kind in kinds)


def test_every_assumption_holds_within_the_announced_operations_and_nothing_is_left(
    connection_string, emulator_with, tmp_path, monkeypatch
):
    if "UseDevelopmentEmulator=true" not in connection_string:
        pytest.skip("manage.py check --live tries them on real namespaces")
    monkeypatch.setattr(stage, "WAIT_S", 300.0)  # no bound that a slow machine reaches
    file = tmp_path / "pairs.toml"
    file.write_text(
        '[pairs.contract]\nprimary = { connection_string_env = "PRIMARY" }\n'
        'secondary = { connection_string_env = "SECONDARY", namespace = "contract-dr" }\n'
    )
    with emulator_with() as secondary:
        strings = {"PRIMARY": connection_string, "SECONDARY": secondary}
        for name, string in strings.items():
            monkeypatch.setenv(name, string)
        found: list[Result] = []
        report = run_live(load_pairs(file, strings)["contract"], (), found.append)
        operations = sum(map(metered, strings.values()))

    assert [one.line() for one in found if one.holding is not Holding.HOLDS] == []
    assert (report.status, report.left) == (0, [])
    assert 50 < operations <= OPERATIONS
