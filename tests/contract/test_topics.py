"""What topics promise about messages: which subscription gets which, and what rules make of the copies."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
)

from tests.contract import worlds
from tests.pace import slowed

pytestmark = [pytest.mark.contract, pytest.mark.sampled("world")]


@pytest.fixture(scope="module")
def topic(administration) -> Iterator[str]:
    """One topic for all tests here: each has its own subscriptions and takes them away."""
    name = f"contract/{uuid4().hex}"
    administration.create_topic(name)
    yield name
    administration.delete_topic(name)


@pytest.fixture(scope="module")
def sender(client, topic) -> Iterator[Any]:
    with client.get_topic_sender(topic) as sender:
        yield sender


@pytest.fixture
def subscribe(administration, topic) -> Iterator[Callable[..., str]]:
    """Makes subscriptions, with these rules instead of the default one; they are gone after the test."""
    made: list[str] = []

    def make(*rules: dict[str, object], **options: object) -> str:
        name = uuid4().hex
        administration.create_subscription(topic, name, **options)
        made.append(name)
        if rules:
            administration.delete_rule(topic, name, "$Default")
        for number, rule in enumerate(rules):
            administration.create_rule(topic, name, f"rule{number}", **rule)
        return name

    yield make
    for name in made:
        administration.delete_subscription(topic, name)


@pytest.fixture(scope="module")
def background() -> Iterator[ThreadPoolExecutor]:
    """Where receivers are closed: the SDK takes up to a second for each."""
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture
def receive_from(client, topic, background) -> Iterator[Callable[..., Any]]:
    """Opens receivers of subscriptions; they are closed after the test, while others run."""
    opened: list[Any] = []

    def receiver(name: str, **options: object) -> Any:
        opened.append(client.get_subscription_receiver(topic, name, **options))
        return opened[-1]

    yield receiver
    for each in opened:
        background.submit(each.close)


@pytest.fixture
def take(receive_from: Callable[..., Any]) -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Takes this many messages from a subscription."""

    def take(name: str, count: int, **options: object) -> list[ServiceBusReceivedMessage]:
        receiver = receive_from(name, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options)
        return worlds.take(receiver, count)

    return take


def body(message: ServiceBusReceivedMessage) -> str:
    return b"".join(message.body).decode()


def properties(message: ServiceBusReceivedMessage) -> dict[str, object]:
    return {
        key.decode(): value.decode() if isinstance(value, bytes) else value
        for key, value in (message.application_properties or {}).items()
    }


def test_every_subscription_gets_a_copy_of_its_own(sender, subscribe, take, administration, topic):
    one, other = subscribe(), subscribe()

    sender.send_messages([ServiceBusMessage("a", message_id="1"), ServiceBusMessage("b", message_id="2")])

    assert [body(message) for message in take(one, 2)] == ["a", "b"]
    runtime = administration.get_subscription_runtime_properties(topic, other)
    assert (runtime.active_message_count, runtime.total_message_count) == (2, 2)
    assert [message.sequence_number for message in take(other, 2)] == [1, 2]


ORDER = {"color": "red", "quantity": 10, "price": 2.5, "urgent": True, "due": datetime(2026, 7, 5, tzinfo=UTC)}

FILTERS = {
    "no rule at all": (None, False),
    "false filter": (FalseRuleFilter(), False),
    "equal text": (SqlRuleFilter("color = 'red'"), True),
    "equal in another case": (SqlRuleFilter("color = 'RED'"), False),
    "property name in another case": (SqlRuleFilter("COLOR = 'red'"), True),
    "numbers": (SqlRuleFilter("quantity >= 10 AND price * 2 = 5"), True),
    "boolean": (SqlRuleFilter("urgent = TRUE"), True),
    "like": (SqlRuleFilter("sys.Label LIKE 'bus%'"), True),
    "like with escape": (SqlRuleFilter("sys.Label LIKE 'bus!%' ESCAPE '!'"), False),
    "in": (SqlRuleFilter("color IN ('blue', 'red')"), True),
    "not in": (SqlRuleFilter("color NOT IN ('blue', 'red')"), False),
    "missing is null": (SqlRuleFilter("missing IS NULL"), True),
    "missing is unknown": (SqlRuleFilter("NOT missing = 1"), False),
    "exists": (SqlRuleFilter("EXISTS(color) AND NOT EXISTS(missing)"), True),
    "or": (SqlRuleFilter("missing = 1 OR color = 'red'"), True),
    "system property": (SqlRuleFilter("sys.CorrelationId = 'c' AND sys.MessageId = 'm'"), True),
    "parameters": (SqlRuleFilter("due = @due AND quantity = @n", {"@due": ORDER["due"], "@n": 10}), True),
    "correlation id": (CorrelationRuleFilter(correlation_id="c"), True),
    "another correlation id": (CorrelationRuleFilter(correlation_id="d"), False),
    "all of a correlation": (CorrelationRuleFilter(label="bus ride", properties={"color": "red"}), True),
    "not all of a correlation": (CorrelationRuleFilter(label="bus ride", properties={"color": "blue"}), False),
    "correlated types": (CorrelationRuleFilter(properties={"quantity": 10, "urgent": True}), True),
    "correlation in another type": (CorrelationRuleFilter(properties={"quantity": "10"}), False),
    "correlated time": (CorrelationRuleFilter(properties={"due": ORDER["due"]}), True),
}


def test_a_filter_takes_what_it_says(sender, subscribe, administration, topic):
    names = {subscribe({"filter": rule}) if rule else subscribe(): case for case, (rule, _) in FILTERS.items()}
    [bare] = [name for name, case in names.items() if case == "no rule at all"]
    administration.delete_rule(topic, bare, "$Default")

    sender.send_messages(
        ServiceBusMessage("x", subject="bus ride", correlation_id="c", message_id="m", application_properties=ORDER)
    )

    runtimes = administration.list_subscriptions_runtime_properties(topic)
    taken = {names[each.name]: each.active_message_count for each in runtimes if each.name in names}
    assert taken == {case: int(expected) for case, (_, expected) in FILTERS.items()}


def test_rules_without_actions_give_one_copy_and_each_action_one_more(sender, subscribe, take, administration, topic):
    name = subscribe(
        {"filter": SqlRuleFilter("1=1")},
        {"filter": SqlRuleFilter("color = 'red'")},
        {"filter": SqlRuleFilter("color = 'red'"), "action": SqlRuleAction("SET priority = 'high'")},
        {"filter": SqlRuleFilter("1=1"), "action": SqlRuleAction("SET priority = 'low'")},
        {"filter": SqlRuleFilter("color = 'blue'"), "action": SqlRuleAction("SET priority = 'none'")},
    )
    sender.send_messages(ServiceBusMessage("x", application_properties={"color": "red"}))

    copies = [properties(message) for message in take(name, 3)]

    assert administration.get_subscription_runtime_properties(topic, name).total_message_count == 0
    assert sorted(copies, key=str) == sorted(
        [
            {"color": "red"},
            {"color": "red", "priority": "high", "RuleName": "rule2"},
            {"color": "red", "priority": "low", "RuleName": "rule3"},
        ],
        key=str,
    )


def test_an_action_changes_only_the_copy_of_its_subscription(sender, subscribe, take):
    plain = subscribe()
    action = """
        SET quantity = quantity / 2; SET total = price * quantity; SET [new one] = 'n'; SET Color = @color;
        REMOVE urgent; REMOVE missing; SET sys.Label = 'changed ' + sys.Label; SET sys.To = color;
        SET sys.CorrelationId = NULL; SET at = due
    """
    parameters = {"@color": "green"}
    changed = subscribe({"filter": SqlRuleFilter("1=1"), "action": SqlRuleAction(action, parameters)})

    sender.send_messages(
        ServiceBusMessage("x", subject="l", correlation_id="c", message_id="m", application_properties=ORDER)
    )

    [message] = take(changed, 1)
    due = int(ORDER["due"].timestamp() * 1000)
    assert properties(message) == {
        "color": "green",
        "quantity": 5,
        "price": 2.5,
        "total": 12.5,
        "new one": "n",
        "due": due,
        "at": due,
        "RuleName": "rule0",
    }
    assert (message.subject, message.to, message.correlation_id) == ("changed l", "green", None)
    assert (body(message), message.message_id) == ("x", "m")
    [message] = take(plain, 1)
    assert properties(message) == ORDER | {"due": due}
    assert message.subject == "l"


def test_a_filter_that_fails_dead_letters_a_copy_if_asked_to(sender, subscribe, take, administration, topic):
    rule = {"filter": SqlRuleFilter("color > 5")}
    kept = subscribe(rule)
    ignored = subscribe(rule, dead_lettering_on_filter_evaluation_exceptions=False)

    sender.send_messages(ServiceBusMessage("x", application_properties={"color": "red"}))

    [message] = take(kept, 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert body(message) == "x"
    assert message.dead_letter_reason
    assert ">" in message.dead_letter_error_description
    runtime = administration.get_subscription_runtime_properties(topic, ignored)
    assert runtime.total_message_count == 0


def test_a_rule_is_in_force_for_the_next_message(sender, subscribe, administration, topic):
    name = subscribe({"filter": SqlRuleFilter("n = 1")})
    sender.send_messages(ServiceBusMessage("x", application_properties={"n": 2}))
    administration.create_rule(topic, name, "more", filter=SqlRuleFilter("n = 2"))
    sender.send_messages(ServiceBusMessage("x", application_properties={"n": 2}))
    administration.delete_rule(topic, name, "more")
    sender.send_messages(ServiceBusMessage("x", application_properties={"n": 2}))
    assert administration.get_subscription_runtime_properties(topic, name).active_message_count == 1


def test_messages_are_settled_in_each_subscription_by_itself(sender, subscribe, receive_from, administration, topic):
    one, other = subscribe(), subscribe()
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])

    receiver = receive_from(one)
    first, second, third = worlds.take(receiver, 3)
    receiver.complete_message(first)
    receiver.dead_letter_message(second, reason="because", error_description="of it")
    receiver.abandon_message(third)

    runtime = administration.get_subscription_runtime_properties(topic, one)
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (1, 1)
    runtime = administration.get_subscription_runtime_properties(topic, other)
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (3, 0)


def test_a_session_subscription_gives_sessions_and_buries_what_has_none(sender, subscribe, take, receive_from):
    name = subscribe(requires_session=True)
    sender.send_messages([ServiceBusMessage("a", session_id="s"), ServiceBusMessage("none")])

    receiver = receive_from(name, session_id="s")
    [message] = receiver.receive_messages(max_message_count=1, max_wait_time=60)
    assert body(message) == "a"
    receiver.complete_message(message)
    [buried] = take(name, 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert body(buried) == "none"
    assert buried.dead_letter_reason == "Session ID is null."


def test_a_subscription_forwards_to_a_queue(client, sender, subscribe, administration, topic):
    target = f"{topic}.target"
    administration.create_queue(target)
    subscribe({"filter": SqlRuleFilter("color = 'red'")}, forward_to=target)

    sender.send_messages(
        [ServiceBusMessage(color, application_properties={"color": color}) for color in ("red", "blue")]
    )

    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(target, receive_mode=mode) as receiver:
        [message] = receiver.receive_messages(max_message_count=2, max_wait_time=60)
    assert body(message) == "red"
    administration.delete_queue(target)


def test_a_scheduled_message_is_published_when_it_is_due(sender, subscribe, take, administration, topic):
    name = subscribe()
    later, soon = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) + timedelta(seconds=slowed(3))
    cancelled, kept = sender.schedule_messages([ServiceBusMessage("later"), ServiceBusMessage("kept")], later)
    sender.schedule_messages(ServiceBusMessage("soon"), soon)
    sender.cancel_scheduled_messages(cancelled)

    assert administration.get_topic_runtime_properties(topic).scheduled_message_count == 2
    assert administration.get_subscription_runtime_properties(topic, name).total_message_count == 0
    [message] = take(name, 1)
    assert body(message) == "soon"
    assert datetime.now(UTC) >= soon
    sender.cancel_scheduled_messages(kept)
    assert administration.get_topic_runtime_properties(topic).scheduled_message_count == 0


def test_a_topic_that_detects_duplicates_publishes_each_message_once(client, administration):
    name = f"contract/{uuid4().hex}"
    administration.create_topic(name, requires_duplicate_detection=True)
    administration.create_subscription(name, "audit")
    with client.get_topic_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("x", message_id=id_) for id_ in ("1", "2", "1")])
        sender.send_messages(ServiceBusMessage("x", message_id="2"))
    assert administration.get_subscription_runtime_properties(name, "audit").active_message_count == 2
    administration.delete_topic(name)


def test_a_disabled_topic_refuses_and_a_disabled_subscription_gives_nothing(client, administration):
    name = f"contract/{uuid4().hex}"
    administration.create_topic(name, status=EntityStatus.SEND_DISABLED)
    administration.create_subscription(name, "audit", status=EntityStatus.RECEIVE_DISABLED)
    with pytest.raises(MessagingEntityDisabledError), client.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with pytest.raises(MessagingEntityDisabledError), client.get_subscription_receiver(name, "audit") as receiver:
        receiver.receive_messages(max_wait_time=1)
    administration.delete_topic(name)


def test_nobody_sends_to_a_subscription_or_receives_from_a_topic(client, subscribe, topic):
    name = subscribe()
    with pytest.raises(ServiceBusError), client.get_queue_sender(f"{topic}/Subscriptions/{name}") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with pytest.raises(ServiceBusError), client.get_queue_receiver(topic) as receiver:
        receiver.receive_messages(max_wait_time=1)


def test_an_unknown_subscription_is_not_found(client, topic):
    expected = (MessagingEntityNotFoundError, ServiceBusAuthenticationError)
    with pytest.raises(expected), client.get_subscription_receiver(topic, "unknown") as receiver:
        receiver.receive_messages(max_wait_time=1)
