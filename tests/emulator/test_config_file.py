"""The configuration file of Microsoft's emulator: what of it is created, and what is refused with a reason."""

import json
import math
from pathlib import Path

import pytest

from emulator.broker.descriptions import DEFAULT_RULE, EntityStatus
from emulator.broker.filters import CorrelationFilter, SqlFilter, SqlRuleAction, TrueFilter
from emulator.broker.namespace import Namespace
from emulator.command_line.config_file import ConfigError, read_config
from emulator.command_line.entities import create_configured

QUEUE = {
    "Name": "queue.1",
    "Properties": {
        "DeadLetteringOnMessageExpiration": True,
        "DefaultMessageTimeToLive": "PT1H",
        "DuplicateDetectionHistoryTimeWindow": "PT20S",
        "ForwardDeadLetteredMessagesTo": "",
        "ForwardTo": "",
        "LockDuration": "PT1M30S",
        "MaxDeliveryCount": 3,
        "RequiresDuplicateDetection": True,
        "RequiresSession": True,
    },
}
CORRELATED = {
    "Name": "correlated",
    "Properties": {
        "FilterType": "Correlation",
        "CorrelationFilter": {"Label": "subject", "To": "", "Properties": {"colour": "red", "size": 3}},
    },
}
SQL = {
    "Name": "sql",
    "Properties": {
        "FilterType": "Sql",
        "SqlFilter": {"SqlExpression": "sys.MessageId = '1' AND colour = 'red'"},
        "Action": {"SqlExpression": "SET sys.To = 'audit'"},
    },
}
TOPIC = {
    "Name": "topic.1",
    "Properties": {"DefaultMessageTimeToLive": "P1D", "RequiresDuplicateDetection": False},
    "Subscriptions": [
        {"Name": "filtered", "Properties": {"ForwardTo": "sb://sbemulatorns/queue.1"}, "Rules": [CORRELATED, SQL]},
        {"Name": "everything"},
    ],
}


@pytest.fixture
def read(tmp_path):
    """Reads a file with these namespaces."""

    def read(*namespaces):
        path = tmp_path / "Config.json"
        document = {"UserConfig": {"Namespaces": namespaces, "Logging": {"Type": "File"}}}
        path.write_text(json.dumps(document), encoding="utf-8-sig")
        return read_config(path)

    return read


def of(*queues, topics=(), **more):
    """A namespace of the file."""
    return {"Name": "sbemulatorns", "Queues": list(queues), "Topics": list(topics), **more}


def changed(entity, **properties):
    return {**entity, "Properties": {**entity.get("Properties", {}), **properties}}


def with_rule(**properties):
    rule = {"Name": "rule", "Properties": properties}
    return {"Name": "topic.1", "Subscriptions": [{"Name": "s", "Rules": [rule]}]}


def test_the_properties_of_a_queue_are_those_of_the_file(read):
    ((queue,),) = (namespace.queues for namespace in read(of(QUEUE)))

    assert (queue.name, queue.lock_duration_s, queue.default_message_time_to_live_s) == ("queue.1", 90.0, 3600.0)
    assert (queue.max_delivery_count, queue.duplicate_detection_history_time_window_s) == (3, 20.0)
    assert queue.requires_session
    assert queue.requires_duplicate_detection
    assert queue.dead_lettering_on_message_expiration
    assert (queue.forward_to, queue.forward_dead_lettered_messages_to) == (None, None)


def test_properties_that_are_left_out_have_the_defaults_of_the_service(read):
    (namespace,) = read(of({"Name": "plain"}))

    assert namespace.queues[0].max_delivery_count == 10
    assert math.isinf(namespace.queues[0].default_message_time_to_live_s)


def test_rules_of_the_file_stand_in_place_of_the_default_rule(read):
    (namespace,) = read(of(QUEUE, topics=[TOPIC]))

    filtered, everything = namespace.subscriptions
    assert filtered.description.forward_to == "queue.1"
    assert [rule.name for rule in filtered.rules] == ["correlated", "sql"]
    assert filtered.rules[0].filter == CorrelationFilter(label="subject", properties={"colour": "red", "size": 3})
    assert filtered.rules[1].filter == SqlFilter("sys.MessageId = '1' AND colour = 'red'")
    assert filtered.rules[1].action == SqlRuleAction("SET sys.To = 'audit'")
    assert everything.rules == (DEFAULT_RULE,)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"SqlFilter": {"SqlExpression": "colour = 'red'"}}, SqlFilter("colour = 'red'")),
        ({"CorrelationFilter": {"Label": "red"}}, CorrelationFilter(label="red")),
        ({"Action": {"SqlExpression": "SET seen = 1"}}, TrueFilter()),
        ({}, TrueFilter()),
    ],
)
def test_a_rule_without_a_type_has_the_filter_that_it_states(read, properties, expected):
    (namespace,) = read(of(topics=[with_rule(**properties)]))

    ((rule,),) = (subscription.rules for subscription in namespace.subscriptions)
    assert rule.filter == expected


def test_a_window_for_duplicates_may_be_as_short_as_in_microsofts_emulator(read):
    entity = changed(QUEUE, DuplicateDetectionHistoryTimeWindow="PT5S")
    topic = {"Name": "t", "Properties": {"DuplicateDetectionHistoryTimeWindow": "PT19S"}}

    (namespace,) = read(of(entity, topics=[topic]))

    windows = [each.duplicate_detection_history_time_window_s for each in (*namespace.queues, *namespace.topics)]
    assert windows == [5.0, 19.0]


def test_further_properties_of_the_service_are_read(read):
    entity = changed(QUEUE, Status="SendDisabled", UserMetadata="mine", AutoDeleteOnIdle="PT5M")

    (namespace,) = read(of(entity))

    queue = namespace.queues[0]
    assert (queue.status, queue.user_metadata) == (EntityStatus.SEND_DISABLED, "mine")
    assert queue.auto_delete_on_idle_s == 300.0


def test_entities_are_created_once_and_then_left_as_they_are(read):
    (config,) = read(of(QUEUE, topics=[TOPIC]))
    namespace = Namespace("sbemulatorns")
    create_configured(namespace, config, 0.0)
    changed_config = read(of(changed(QUEUE, MaxDeliveryCount=7), topics=[TOPIC]))[0]

    create_configured(namespace, changed_config, 1.0)

    assert namespace.queue("queue.1").description.max_delivery_count == 3
    assert namespace.subscription("topic.1/Subscriptions/filtered") is not None


@pytest.mark.parametrize(
    ("namespace", "reason"),
    [
        (of(changed(QUEUE, LockDuration="PT10M")), "queue.1: The value of LockDuration"),
        (of(changed(QUEUE, LockDuration="one minute")), "'one minute' is not a duration"),
        (of(changed(QUEUE, MaxDeliveryCount="3")), 'MaxDeliveryCount of queue.1 cannot be "3"'),
        (of(changed(QUEUE, MaxDelivryCount=3)), "Properties of queue.1 has no MaxDelivryCount: use AutoDeleteOnIdle"),
        (of(changed(QUEUE, ForwardTo="nowhere")), "queue.1 forwards to nowhere, which is not in the file"),
        (of(changed(QUEUE, Status="Closed")), 'Status of queue.1 cannot be "Closed"'),
        (of(QUEUE, QUEUE), "queue.1 is in the file twice"),
        (of({"Properties": {}}), "a queue has no Name"),
        (of(QUEUE, Topic=[]), "sbemulatorns has no Topic: use Name, Queues, Topics"),
        ({"Name": "sbemulatorns", "Queues": {}, "Topics": "x"}, "Topics of sbemulatorns must be a list"),
        (of(topics=[with_rule(FilterType="Sql")]), "SqlFilter of the rule rule of topic.1/s must be a JSON object"),
        (of(topics=[with_rule(FilterType="Sql", SqlFilter={})]), "needs a SqlExpression"),
        (of(topics=[with_rule(FilterType="Sql", SqlFilter={"SqlExpression": "= 1"})]), "the rule rule of topic.1/s"),
        (of(topics=[with_rule(FilterType="Correlation", CorrelationFilter={})]), "at least one property"),
        (of(topics=[with_rule(FilterType="Correlation", CorrelationFilter={"Subject": "x"})]), "has no Subject"),
        (of(topics=[with_rule(FilterType="Correlation", CorrelationFilter={"Label": 1})]), "are texts"),
        (of(topics=[with_rule(FilterType="Correlation", CorrelationFilter={"Properties": {"a": []}})]), "numbers"),
        (of(topics=[with_rule(FilterType="SqlFilter")]), "use Sql or Correlation"),
        (of(topics=[with_rule(SqlFilter={"SqlExpression": "1=1"}, CorrelationFilter={"Label": "x"})]), "two filters"),
        (of(changed(QUEUE, DuplicateDetectionHistoryTimeWindow="PT4S")), "queue.1: DuplicateDetectionHistoryTime"),
    ],
)
def test_what_cannot_be_created_is_refused_with_its_place_and_reason(read, namespace, reason):
    with pytest.raises(ConfigError) as refused:
        read(namespace)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "contains no JSON"),
        ("[" * 100_000, "contains no JSON"),
        ("[]", "the file must be a JSON object"),
        ("{}", "UserConfig must be a JSON object"),
        ('{"UserConfig": {"Namespaces": []}}', "has no namespace"),
    ],
)
def test_a_file_without_a_namespace_is_refused(tmp_path, text, reason):
    path = tmp_path / "Config.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    assert reason in str(refused.value)


def test_a_file_that_is_missing_is_reported():
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(Path("missing.json"))
