"""Actions on single backlog queues over the web: proven, asked for, done, refused (docs/contract.md, section 6)."""

import pytest
from django.utils import timezone

from dashboard.models import AuditEntry, BacklogQueue, QueueDeletion, QueueDrain
from tests.dashboard.markup import one_line
from tests.dashboard.secondary import ORPHAN, OWN

HTMX = {"HX-Request": "true"}


@pytest.fixture
def orphan(reachable, pair):
    reachable.make()
    return BacklogQueue.objects.create(pair=pair, path=ORPHAN, index=7, is_orphan=True, seen_at=timezone.now())


def ask(client, verb, path=ORPHAN, **headers):
    return client.get(f"/pairs/contoso/actions/{verb}/", {"path": path}, headers=headers)


def act(client, verb, path=ORPHAN, headers=None, **more):
    return client.post(
        f"/pairs/contoso/actions/{verb}/", {"path": path, "reason": "not needed", **more}, headers=headers or {}
    )


def test_an_empty_orphan_is_cleaned_without_scripts_from_the_page_to_the_undo(orphan, reachable, as_role):
    operator = as_role("operator")
    assert "Delete</a>" in operator.get("/backlog/").text

    page = ask(operator, "delete_queue")
    assert "a peek found neither a message nor a dead letter" in page.text
    assert "nobody: no configured pair, no live process, no syphon" in page.text
    answer = act(operator, "delete_queue")
    assert (answer.status_code, answer["Location"]) == (302, "/backlog/")
    shown = operator.get("/backlog/").text
    assert "To be deleted" in shown
    assert "Cancel deletion</a>" in shown

    act(operator, "take_back")
    assert "is kept in its previous state" in operator.get("/backlog/").text
    assert reachable.status(ORPHAN) == "Active"


def test_the_question_shows_what_hinders(orphan, reachable, as_role):
    reachable.fill(ORPHAN, "one")

    page = ask(as_role("operator"), "delete_queue").text

    assert "Drain it first, or ask an administrator" in page
    assert "Quarantine and delete</button>" not in page


def test_an_administrator_is_asked_to_type_the_path(orphan, reachable, as_role):
    reachable.fill(ORPHAN, "one")
    administrator = as_role("administrator")
    assert 'name="typed"' in ask(administrator, "delete_queue").text

    again = act(administrator, "delete_queue", typed="something else")
    assert (again.status_code, "type its full path" in again.text) == (503, True)
    assert 'value="something else"' in again.text
    assert not QueueDeletion.objects.exists()

    act(administrator, "delete_queue", typed=ORPHAN)
    assert QueueDeletion.objects.get().counts["active"] == 1


def test_what_was_shown_is_what_is_confirmed(orphan, reachable, as_role):
    administrator = as_role("administrator")
    shown = ask(administrator, "delete_queue").context["confirmed"]
    reachable.fill(ORPHAN, "late")

    again = act(administrator, "delete_queue", typed=ORPHAN, confirmed=shown)

    assert (again.status_code, "has changed since" in again.text) == (503, True)
    assert again.context["confirmed"] != shown
    assert not QueueDeletion.objects.exists()


def test_a_queue_that_is_gone_meanwhile_is_reported_in_the_dialog(orphan, reachable, as_role):
    reachable.administration.delete_queue(ORPHAN)

    asked = ask(as_role("operator"), "drain_queue", **HTMX).text
    assert ("<html" in asked, "no longer exists in the namespace" in asked) == (False, True)


def test_a_repair_compares_expected_and_actual_first(orphan, reachable, as_role):
    queue = reachable.administration.get_queue(ORPHAN)
    queue.max_delivery_count = 10
    reachable.administration.update_queue(queue)

    page = ask(as_role("operator"), "repair_queue").text
    assert "max_<wbr>delivery_<wbr>count" in page
    assert "2,147,483,647" in page
    BacklogQueue.objects.filter(path=ORPHAN).update(deviations={"max_delivery_count": (2147483647, 10)})
    assert "is 10, expected 2,147,483,647" in as_role("operator").get("/backlog/").text

    act(as_role("operator"), "repair_queue")
    assert reachable.administration.get_queue(ORPHAN).max_delivery_count == 2147483647


def test_a_drain_is_shown_with_how_far_it_is(orphan, reachable, as_role):
    reachable.fill(ORPHAN, "one", "two")
    operator = as_role("operator")

    act(operator, "drain_queue")
    QueueDrain.objects.update(moved=1, waiting=1)

    page = operator.get("/backlog/").text
    assert "1 moved, 1 left" in one_line(page)
    assert "Stop drain</a>" in page


def test_a_pair_s_own_queue_offers_no_deletion(reachable, pair, as_role):
    reachable.make(OWN)
    BacklogQueue.objects.create(pair=pair, path=OWN, index=0, seen_at=timezone.now())
    operator = as_role("operator")

    assert "Delete</a>" not in operator.get("/backlog/").text
    assert "So it is not an orphan" in ask(operator, "delete_queue", OWN).text


def test_empty_orphans_are_cleaned_up_in_the_administration_and_others_are_refused(orphan, reachable, pair, as_role):
    full = BacklogQueue.objects.create(
        pair=pair, path="contoso/x-servicebus-transfer/8", index=8, is_orphan=True, seen_at=timezone.now()
    )
    reachable.fill(reachable.make(full.path), "one")
    administrator = as_role("administrator")
    chosen = {"action": "delete_empty_orphans", "_selected_action": [orphan.pk, full.pk]}

    asked = administrator.post("/admin/dashboard/backlogqueue/", chosen).text
    assert "Quarantined now, deleted after the undo window" in asked
    assert not QueueDeletion.objects.exists()
    unreasoned = administrator.post("/admin/dashboard/backlogqueue/", {**chosen, "confirmed": "yes"}).text
    assert "Enter a reason" in unreasoned

    answer = {**chosen, "confirmed": "yes", "reason": "the count was lowered", "click": "one-click"}
    page = administrator.post("/admin/dashboard/backlogqueue/", answer, follow=True).text
    administrator.post("/admin/dashboard/backlogqueue/", answer)

    assert "type its full path" in page
    assert AuditEntry.objects.filter(verb="delete_queue", outcome="done", reason="the count was lowered").count() == 1
    assert list(QueueDeletion.objects.values_list("path", flat=True)) == [ORPHAN]
    assert (reachable.status(ORPHAN), reachable.status(full.path)) == ("SendDisabled", "Active")
