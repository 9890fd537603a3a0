"""The contract about faces finds what it is there to find."""

import grimp
import pytest

from tools.import_contracts import FacesContract

SETTINGS = {
    "package": "dashboard",
    "faces": ["views", "urls", "api"],
    "frames": ["api"],
    "composers": ["dashboard.urls"],
}


def broken(importer: str, imported: str) -> list[str]:
    graph = grimp.ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = FacesContract(name="faces", session_options={}, contract_options=SETTINGS)
    return [why for _, _, why in contract.check(graph, verbose=False).metadata["broken"]]


@pytest.mark.parametrize(
    ("importer", "imported", "why"),
    [
        ("dashboard.costs.reporting.report", "dashboard.costs.views", "a rule imports a face"),
        ("dashboard.costs.reporting.report", "dashboard.fleet.views.pairs", "a rule imports a face"),
        ("dashboard.fleet.views.pairs", "dashboard.costs.api.charges", "a face imports another room's face"),
        ("dashboard.middleware", "dashboard.costs.views", "a rule imports a face"),
    ],
)
def test_a_forbidden_import_breaks_the_contract(importer: str, imported: str, why: str) -> None:
    assert broken(importer, imported) == [why]
