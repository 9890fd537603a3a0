"""The documented assumptions about the service, exactly as `check --live` tries them on real namespaces."""

import pytest

from dashboard.checks import failovers, service, stage  # noqa: F401 (they register their assumptions)
from dashboard.checks.assumptions import ASSUMPTIONS, Holding
from dashboard.fleet.pairs.pairs_file import load_pairs
from emulator.running import RunningNamespace
from tests.administration import administration_of

pytestmark = pytest.mark.contract
OPERATIONS = 400


def metered(connection_string):
    """The operations that a local namespace has counted at scratch entities."""
    entities = RunningNamespace("contoso", connection_string)._call("GET", "meter")
    kinds = [kind for path, kinds in entities.items() if path.startswith(stage.PREFIX) for kind in kinds.values()]
    return sum(kind["operations"] for kind in kinds)


def scratch(connection_string):
    """The scratch entities of a namespace."""
    with administration_of(connection_string) as administration:
        found = [*administration.list_queues(), *administration.list_topics()]
    return [one.name for one in found if one.name.startswith(stage.PREFIX)]


def test_every_assumption_holds_within_the_documented_operations_and_nothing_is_left(
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
        with stage.Stage(load_pairs(file, strings)["contract"]) as here:
            found = [(one, *one.tried(here)) for one in ASSUMPTIONS.values()]
            assert len(scratch(connection_string)) > 10
            assert len(scratch(secondary)) == 2
        operations = sum(map(metered, strings.values()))
        left = [*scratch(connection_string), *scratch(secondary)]

    assert [one.line(holding, why) for one, holding, why in found if holding is not Holding.HOLDS] == []
    assert left == []
    assert 50 < operations <= OPERATIONS
