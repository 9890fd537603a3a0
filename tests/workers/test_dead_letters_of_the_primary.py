"""Dead letters of the primary's own queues and subscriptions: counted, looked at, sent again, discarded on record."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.management import ServiceBusAdministrationClient
from django.contrib.auth.models import Group, User
from django.test import Client

from dashboard.backlog import places
from dashboard.models import DeadLetterJob, DiscardedMessage, EntityHealth, Pair, ResubmittedMessage, TopicSubscription
from tests.dashboard.markup import one_line
from tests.dashboard.secondary import Secondary, dead_letter
from tests.workers.test_orphans_drained import secondary
from workers import errands, watchers

__all__ = ["secondary"]
pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/backlog/contoso/messages/"
THREE = ("one", "two", "three")


@pytest.fixture
def died(secondary: Secondary) -> Iterator[Secondary]:
    """Three messages of `orders` that its receiver gave up."""
    with secondary.primary.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(text, message_id=f"id-of-{text}") for text in THREE])
    with secondary.primary.get_queue_receiver("orders") as receiver:
        dead_letter(receiver, 3, "Unreadable", "the total is no number")
    yield secondary
    with secondary.primary.get_queue_receiver("orders", sub_queue="deadletter") as receiver:
        while receiver.peek_messages():
            for message in receiver.receive_messages(max_message_count=10, max_wait_time=5):
                receiver.complete_message(message)


@pytest.fixture
def ada(fleet: object) -> Client:
    person = User.objects.create_user("ada")
    person.groups.add(Group.objects.get_or_create(name="administrator")[0])
    client = Client()
    client.force_login(person)
    return client


def act(client: Client, verb: str, queue: str = "orders", **more: object) -> None:
    form = {"queue": queue, "verb": verb, "which": "all", "reason": "mended", **more}
    client.post("/backlog/contoso/dead-letters/", form, headers={"HX-Request": "true"})
    errands.carry_out(DeadLetterJob.objects.latest("pk").pk)


def test_they_are_counted_shown_with_why_they_died_and_downloaded(died, ada):
    watchers.count_dead_letters("contoso")

    assert EntityHealth.objects.get(path="orders").dead_lettered == 3
    link = f'href="{PAGE}?queue=orders&amp;show=dead"'
    assert link in ada.get("/pairs/contoso/entities/orders/").text
    page = ada.get(PAGE, {"queue": "orders", "show": "dead"}).text
    for shown in ("id-of-two", "the total is no number", "Of <b>orders</b> itself, in contoso"):
        assert shown in page
    for hidden in ({"queue": "orders"}, {"queue": "nobody-s", "show": "dead"}):
        assert ada.get(PAGE, hidden).status_code == 404, "what waits there is not shown"

    reported = ada.get("/backlog/contoso/messages.json", {"queue": "orders", "show": "dead"}).json()
    assert [one["dead_letter_reason"] for one in reported["messages"]] == ["Unreadable"] * 3


def test_they_go_back_to_where_they_died(died, ada, fleet):
    act(ada, "resubmit")

    assert DeadLetterJob.objects.get().done == 3
    assert not ResubmittedMessage.objects.exists(), "they were in no backlog"
    assert died.received("orders", 3) == ["one", "two", "three"]
    assert not fleet.keys("*dead_letter_results*"), "the ledgers of backlog queues do not contain them"
    assert "orders has no dead letter" in ada.get(PAGE, {"queue": "orders", "show": "dead"}).text


def test_they_go_elsewhere_where_an_operator_says_so(died, ada):
    act(ada, "resubmit", destination="payments")

    assert died.received("payments", 3) == ["one", "two", "three"]


def test_they_are_discarded_on_record(died, ada):
    act(ada, "discard")

    assert set(DiscardedMessage.objects.values_list("message_id", flat=True)) == {f"id-of-{n}" for n in THREE}


BILLING = "invoices/Subscriptions/billing"


@pytest.fixture
def administration(secondary: Secondary) -> Iterator[ServiceBusAdministrationClient]:
    """Of the primary, which has a topic with two subscriptions."""
    client = secondary.primary_administration
    client.create_topic("invoices")
    for name in ("audit", "billing"):
        client.create_subscription("invoices", name)
    EntityHealth.objects.create(pair=Pair.objects.get(), path="invoices", kind="topic")
    yield client
    client.delete_topic("invoices")


@pytest.fixture
def unpaid(administration: ServiceBusAdministrationClient, secondary: Secondary) -> Secondary:
    """Two messages of `invoices` that the receiver of `billing` gave up, and the one of `audit` took."""
    with secondary.primary.get_topic_sender("invoices") as sender:
        sender.send_messages([ServiceBusMessage(text, message_id=f"id-of-{text}") for text in ("rent", "water")])
    with secondary.primary.get_subscription_receiver("invoices", "billing") as receiver:
        dead_letter(receiver, 2, "Unpaid", "the account is closed")
    assert taken(secondary, "audit", 2) == ["rent", "water"]
    return secondary


def taken(here: Secondary, subscription: str, count: int) -> list[str]:
    """The bodies of so many messages of a subscription."""
    found: list[str] = []
    with here.primary.get_subscription_receiver(
        "invoices", subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        while len(found) < count and (messages := receiver.receive_messages(max_message_count=9, max_wait_time=5)):
            found += [str(message) for message in messages]
    return found


def test_those_of_subscriptions_are_counted_and_found_from_their_topic_and_from_the_list(administration, unpaid, ada):
    watchers.count_dead_letters("contoso")

    link = f'href="{{}}?queue={BILLING}&amp;show=dead"'
    assert dict(TopicSubscription.objects.values_list("name", "dead_lettered")) == {"audit": 0, "billing": 2}
    assert EntityHealth.objects.get(path="invoices").dead_lettered == 2
    assert link.format(PAGE) in ada.get("/pairs/contoso/entities/invoices/").text
    assert link.format("") in ada.get(PAGE, {"show": "dead"}).text
    page = ada.get(PAGE, {"queue": BILLING, "show": "dead"}).text
    assert "Of the subscription <b>billing</b> of invoices" in page
    assert "the account is closed" in page

    administration.delete_subscription("invoices", "billing")
    watchers.count_dead_letters("contoso")

    assert list(TopicSubscription.objects.values_list("name", flat=True)) == ["audit"]
    assert EntityHealth.objects.get(path="invoices").dead_lettered == 0


def test_resubmitted_they_come_to_every_subscription_of_their_topic_and_the_question_says_so(unpaid, ada):
    watchers.count_dead_letters("contoso")

    asked = ada.get("/backlog/contoso/dead-letters/", {"queue": BILLING, "verb": "resubmit", "which": "all"}).text
    act(ada, "resubmit", BILLING)

    row = DeadLetterJob.objects.get()
    assert "Resubmit all 2 dead letters" in one_line(asked)
    assert "to billing, and also to audit" in asked
    assert (row.done, row.destination) == (2, "invoices")
    assert taken(unpaid, "billing", 2) == ["rent", "water"]
    assert taken(unpaid, "audit", 2) == ["rent", "water"]


def test_many_topics_are_counted_one_part_after_another():
    topics, noon = [f"topic-{n}" for n in range(7)], datetime(2026, 11, 21, 12, tzinfo=UTC)
    rounds = [places.turn_of(topics, noon + n * timedelta(minutes=5), most=3) for n in range(3)]

    assert sorted(topic for counted in rounds for topic in counted) == topics
    assert places.turn_of([], noon) == []
