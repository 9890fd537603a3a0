"""Probes of namespaces: rights are shown by using them, against real local namespaces."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from dashboard.checks import endpoints
from dashboard.checks.findings import Finding, Level
from dashboard.fleet.pairs.pairs_file import load_pairs
from dashboard.readiness.facts import Answer, Probe

NOW = datetime(2026, 11, 2, tzinfo=UTC)
ALLOWED = Probe(Answer.ALLOWED, NOW)
REFUSED = Probe(Answer.REFUSED, NOW, "refused: a right is missing")


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


def found_at(item: str) -> list[Finding]:
    return list(endpoints.probes()[item]())


def test_rights_are_shown_by_using_them(reachable) -> None:
    reachable.make("contoso/x-servicebus-transfer/0")

    (primary,), (secondary,) = found_at("contoso primary"), found_at("contoso secondary")

    assert (primary.level, secondary.level) == (Level.OK, Level.OK)
    assert "Send at orders" in primary.cause
    assert "Manage, Send at contoso/x-servicebus-transfer/0, Listen at" in secondary.cause


def test_a_credential_without_manage_is_a_problem_of_the_secondary_only(reachable, local_namespaces) -> None:
    reachable.make("contoso/x-servicebus-transfer/0")
    for variable in ("CONTOSO_SECONDARY", "CONTOSO_PRIMARY"):
        with fault(local_namespaces[variable], operation="admin", effect="status", status=401):
            found = found_at(f"contoso {variable.removeprefix('CONTOSO_').lower()}")
        assert found[0].level is (Level.PROBLEM if variable == "CONTOSO_SECONDARY" else Level.OK)


def test_a_missing_backlog_queue_is_a_warning(reachable) -> None:
    found = found_at("contoso secondary")

    assert {finding.level for finding in found} == {Level.WARNING}
    assert all("contoso/x-servicebus-transfer/0" in finding.cause for finding in found)


@pytest.mark.parametrize(("role", "level"), [("primary", Level.OK), ("secondary", Level.PROBLEM)])
def test_manage_is_needed_where_the_documentation_says(reachable, role, level) -> None:
    pair = load_pairs()["contoso"]

    assert endpoints.rights_findings(pair, role, REFUSED, [])[0].level is level
    assert endpoints.rights_findings(pair, role, ALLOWED, [("Send", "orders", REFUSED)])[0].level is Level.WARNING
