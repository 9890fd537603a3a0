"""The demo's panel against real local namespaces: breaking, mending, and where it is not offered."""

from collections.abc import Iterator

import pytest

from dashboard.demo import panel as demo_panel
from dashboard.demo.configuration import ORPHANS
from dashboard.demo.faults import LocalNamespace
from dashboard.demo.prepare import leave_dead_letters
from dashboard.fleet.pairs.pairs_file import load_pairs
from dashboard.models import AuditEntry
from tests.dashboard.markup import one_line
from tests.dashboard.secondary import OWN


@pytest.fixture
def demo(reachable, pair, settings) -> Iterator[LocalNamespace]:
    """The primary of the pair as a demo's."""
    settings.DEMO = True
    pair.is_emulated = True
    pair.save()
    primary = LocalNamespace.of(load_pairs()["contoso"].primary)
    yield primary
    primary.mend("*")


def press(client, verb, **data):
    return client.post(f"/pairs/contoso/demo/{verb}/", data)


@pytest.mark.parametrize(("how", "effect"), [("rejects", "reject"), ("silent", "silent"), ("resets", "reset")])
def test_an_entity_is_broken_and_mended(demo, as_role, how, effect):
    operator = as_role("operator")

    press(operator, "break", path="orders", how=how)
    assert [(fault.path, fault.operation, fault.effect) for fault in demo.faults()] == [("orders", "send", effect)]
    entry = AuditEntry.objects.get()
    assert (entry.operator, entry.verb, entry.target, entry.outcome) == ("operator", "demo_break", "orders", "done")

    press(operator, "break", path="payments")
    press(operator, "mend", path="orders")
    assert [fault.path for fault in demo.faults()] == ["payments"]


def test_the_whole_primary_is_broken_and_mended(demo, as_role):
    operator = as_role("operator")

    press(operator, "break", path="*", how="resets")
    assert {(fault.path, fault.operation) for fault in demo.faults()} == {("*", "send"), ("*", "connect")}

    press(operator, "mend", path="*")
    assert demo.faults() == []


def test_the_page_says_what_is_broken_and_what_the_failover_interval_is(demo, as_role):
    operator = as_role("operator")
    assert "Break one queue</button>" in operator.get("/").text
    press(operator, "break", path="orders", how="silent")

    page = one_line(operator.get("/").text)
    assert ("Break one queue" in page, "Mend all</button>" in page) == (False, True)

    assert '<span class="broken">does not answer</span>' in page
    assert "failover interval of <b>5\N{NO-BREAK SPACE}s</b>" in page


@pytest.mark.parametrize(
    "change", [lambda pair, settings: setattr(settings, "DEMO", False), lambda pair, settings: real(pair)]
)
def test_outside_the_demo_there_is_no_panel_and_no_breaking(demo, pair, settings, as_role, change):
    change(pair, settings)
    operator = as_role("operator")

    assert "Break it" not in operator.get("/").text
    assert press(operator, "break", path="orders").status_code == 404
    assert demo.faults() == []


def real(pair) -> None:
    pair.is_emulated = False
    pair.save()


def test_a_namespace_that_is_away_is_said_and_not_an_error(demo, as_role, monkeypatch, local_namespaces):
    string = local_namespaces["CONTOSO_PRIMARY"]
    gone = string.replace(string.split("://")[1].split(";")[0], "127.0.0.1:1")
    monkeypatch.setenv("CONTOSO_PRIMARY", gone)
    operator = as_role("operator")

    page = operator.get("/").text
    assert "is not known: contoso does not answer" in page
    assert ("Break one queue" in page, "Mend all</button>" in page) == (False, True)
    assert press(operator, "break", path="orders").status_code == 503


def test_a_namespace_elsewhere_is_never_broken(demo, as_role, monkeypatch):
    monkeypatch.setenv(
        "CONTOSO_PRIMARY", "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=s"
    )

    answer = press(as_role("operator"), "break", path="orders")

    assert answer.status_code == 503
    assert "is not a local namespace" in answer.text


def test_what_is_left_of_another_primary_is_none_of_this_pair_s_stock(reachable, local_namespaces):
    orphan = reachable.make(ORPHANS[1])

    leave_dead_letters(local_namespaces["CONTOSO_SECONDARY"])

    assert reachable.administration.get_queue_runtime_properties(orphan).dead_letter_message_count == 3
    pair = load_pairs()["contoso"]
    ends = LocalNamespace.of(pair.primary), LocalNamespace.of(pair.secondary)
    assert demo_panel.held(*ends, ["orders"]).backlog == 0
    reachable.fill(reachable.make(OWN), "ours")
    assert demo_panel.held(*ends, ["orders"]).backlog == 1
