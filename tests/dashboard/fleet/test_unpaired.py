"""What is left of pairs that PAIRS_FILE no longer names: explained, and not brought to somebody else's entities."""

import pytest
from django.utils import timezone

from dashboard.access.audited import ActionError, Request
from dashboard.backlog.actions import RESUBMIT
from dashboard.fleet.pairs.sync import sync
from dashboard.models import BacklogQueue, DeadLetterJob, Pair, QueueDrain
from tests.dashboard.backlog.test_queue_actions import act
from tests.dashboard.conftest import NOW
from tests.dashboard.markup import one_line
from tests.dashboard.secondary import OWN

FOREIGN = "fabrikam/x-servicebus-transfer/0"


@pytest.fixture
def foreign(reachable, pair):
    """A backlog queue of a primary that is not paired any more, in this pair's secondary, with two messages."""
    reachable.make(FOREIGN)
    reachable.fill(FOREIGN, "a", "b")
    return BacklogQueue.objects.create(pair=pair, path=FOREIGN, index=0, is_orphan=True, seen_at=timezone.now())


def test_messages_of_another_primary_go_only_where_an_operator_says(foreign, reachable, pair, people, as_role):
    answer = act(as_role("operator"), "drain_queue", FOREIGN, headers={"HX-Request": "true"})
    assert "Its messages are for fabrikam" in answer.text
    assert not QueueDrain.objects.exists()

    asked = {"queue": FOREIGN, "verb": "resubmit", "which": "all"}
    page = as_role("operator").get("/backlog/contoso/dead-letters/", asked).text
    assert "Their destination is in fabrikam, which is not a pair of this control plane" in page
    assert 'required placeholder="orders"' in page

    reachable.dead_letter(FOREIGN, 2)
    request = Request(user=people["operator"], pair=pair, target=FOREIGN, reason="mended")

    with pytest.raises(ActionError, match="Their primary is fabrikam"):
        RESUBMIT.run(request)
    RESUBMIT.run(request, destination="orders")

    assert DeadLetterJob.objects.get().destination == "orders"


@pytest.fixture
def dropped(pair):
    """The pair is in the file no more; its queue held messages when it was seen last."""
    BacklogQueue.objects.create(pair=pair, path=OWN, index=0, active=5, seen_at=NOW)
    list(sync({}))
    return pair


def test_the_queues_of_a_pair_that_was_dropped_are_orphans_and_the_page_says_what_can_be_done(dropped, as_role):
    page = as_role("operator").get("/backlog/").text

    assert BacklogQueue.objects.get().is_orphan
    assert "no longer contains this pair" in page
    assert "add the pair to the file again" in page
    assert "/actions/" not in page
    assert "The current state of its queues" not in page


def test_where_its_secondary_is_still_another_pair_s_the_page_leads_there(dropped, as_role):
    Pair.objects.create(
        name="fabrikam", primary_namespace="fabrikam", secondary_namespace="contoso-dr", synced_at=timezone.now()
    )

    assert 'The current state of its queues is shown at <a href="/pairs/fabrikam/">' in one_line(
        as_role("viewer").get("/backlog/").text
    )
