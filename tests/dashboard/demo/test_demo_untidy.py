"""The demo has orphans to clean up, which are not part of its counts."""

import pytest

from dashboard.demo import panel as demo_panel
from dashboard.demo import untidy
from dashboard.demo.faults import LocalNamespace
from dashboard.fleet.pairs.pairs_file import load_pairs
from tests.dashboard.secondary import OWN


@pytest.fixture
def left_behind(reachable, local_namespaces):
    untidy.make_untidy(local_namespaces["CONTOSO_PRIMARY"], local_namespaces["CONTOSO_SECONDARY"])
    yield reachable
    reachable.primary_administration.delete_queue(untidy.DESTINATION)


def test_there_is_an_empty_orphan_and_one_with_dead_letters(left_behind):
    look = left_behind.administration.get_queue_runtime_properties

    assert look(untidy.EMPTY).total_message_count == 0
    assert look(untidy.WITH_DEAD_LETTERS).dead_letter_message_count == 3


def test_what_is_left_of_another_primary_is_none_of_this_pair_s_stock(left_behind):
    pair = load_pairs()["contoso"]
    ends = LocalNamespace.of(pair.primary), LocalNamespace.of(pair.secondary)

    assert demo_panel.held(*ends, ["orders"]).backlog == 0
    left_behind.fill(left_behind.make(OWN), "ours")
    assert demo_panel.held(*ends, ["orders"]).backlog == 1
