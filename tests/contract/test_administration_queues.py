"""What the administration promises about queues, seen through the SDK's own client (docs/wire.md, section 10)."""

import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import AccessRights, ApiVersion, AuthorizationRule, EntityStatus

pytestmark = pytest.mark.contract

FOREVER = timedelta(days=10675199)


@pytest.fixture
def name(administration) -> Iterator[str]:
    """The name of a queue nobody else uses; what a test created under it is deleted."""
    name = f"contract/{uuid4().hex}"
    yield name
    for queue in administration.list_queues():
        if queue.name.startswith(name):
            administration.delete_queue(queue.name)


def test_a_new_queue_has_the_defaults_of_the_service(administration, name):
    queue = administration.create_queue(name)

    assert (queue.name, queue.max_size_in_megabytes, queue.max_delivery_count) == (name, 1024, 10)
    assert queue.lock_duration == timedelta(minutes=1)
    assert min(queue.default_message_time_to_live, queue.auto_delete_on_idle) >= FOREVER
    assert queue.duplicate_detection_history_time_window == timedelta(minutes=10)
    off = ("requires_session", "requires_duplicate_detection", "dead_lettering_on_message_expiration")
    for switch in (*off, "enable_partitioning", "enable_express"):
        assert queue[switch] is False, switch
    assert queue.enable_batched_operations is True
    assert (queue.status, queue.availability_status) == (EntityStatus.ACTIVE, "Available")
    assert (queue.forward_to, queue.forward_dead_lettered_messages_to, queue.user_metadata) == (None, None, None)
    assert not queue.authorization_rules


def test_every_property_given_at_creation_is_read_back(administration, name):
    given = {
        "lock_duration": timedelta(seconds=13),
        "max_size_in_megabytes": 3072,
        "requires_session": True,
        "default_message_time_to_live": timedelta(minutes=11, milliseconds=250),
        "dead_lettering_on_message_expiration": True,
        "duplicate_detection_history_time_window": timedelta(minutes=12),
        "max_delivery_count": 2**31 - 1,
        "enable_batched_operations": False,
        "auto_delete_on_idle": timedelta(days=1, hours=2, minutes=3, seconds=4),
        "enable_partitioning": True,
        "enable_express": True,
        "user_metadata": "<owner> & co,\n\tpayments",
    }
    administration.create_queue(name, **given)

    queue = administration.get_queue(name)

    assert {key: queue[key] for key in given} == given


def test_authorization_rules_are_kept(administration, name):
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=[AccessRights.SEND, AccessRights.LISTEN],
        key_name="reader",
        primary_key="cHJpbWFyeSBrZXkgb2YgdGhlIHJlYWRlciwgMzIgYi4=",
        secondary_key="c2Vjb25kYXJ5IGtleSBvZiBhIHJlYWRlciwgMzIgYi4=",
    )
    administration.create_queue(name, authorization_rules=[rule])

    [kept] = administration.get_queue(name).authorization_rules

    assert (kept.key_name, kept.rights) == ("reader", ["Send", "Listen"])
    assert (kept.primary_key, kept.secondary_key) == (rule.primary_key, rule.secondary_key)
    assert kept.created_at_utc is not None


def test_a_name_may_hold_slashes_and_is_compared_without_case(administration, name):
    administration.create_queue(f"{name}/x-servicebus-transfer/0")

    assert administration.get_queue(f"{name}/x-servicebus-transfer/0".upper())
    assert f"{name}/x-servicebus-transfer/0" in [queue.name for queue in administration.list_queues()]
    with pytest.raises(ResourceExistsError):
        administration.create_queue(f"{name}/X-SERVICEBUS-TRANSFER/0")


def test_forwarding_names_an_entity_of_the_namespace(administration, name):
    administration.create_queue(f"{name}.target")
    administration.create_queue(name, forward_to=f"{name}.target", forward_dead_lettered_messages_to=f"{name}.target")

    queue = administration.get_queue(name)
    assert queue.forward_to.endswith(f"/{name}.target")
    assert queue.forward_to.startswith("sb://")
    assert queue.forward_dead_lettered_messages_to.endswith(f"/{name}.target")

    administration.update_queue(queue, forward_to=None, forward_dead_lettered_messages_to=None)
    queue = administration.get_queue(name)
    assert queue.forward_to is None
    assert queue.forward_dead_lettered_messages_to is None


def test_an_update_changes_what_may_change_and_nothing_else(administration, name):
    created = dict(administration.create_queue(name))
    queue, before = administration.get_queue(name), administration.get_queue_runtime_properties(name)
    administration.update_queue(queue)
    assert dict(administration.get_queue(name)) == created

    changed = {"lock_duration": timedelta(minutes=2), "max_delivery_count": 14}
    changed |= {"status": EntityStatus.SEND_DISABLED, "user_metadata": "changed"}
    for key, value in changed.items():
        setattr(queue, key, value)
    administration.update_queue(queue)

    assert dict(administration.get_queue(name)) == created | changed
    after = administration.get_queue_runtime_properties(name)
    assert after.created_at_utc == before.created_at_utc
    assert after.updated_at_utc >= before.updated_at_utc
    queue.name = f"{name}.unknown"
    with pytest.raises(ResourceNotFoundError):
        administration.update_queue(queue)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"requires_session": True}, id="sessions cannot be required later"),
        pytest.param({"requires_duplicate_detection": True}, id="nor can duplicate detection"),
        pytest.param({"lock_duration": timedelta(days=25)}, id="a lock lasts at most five minutes"),
        pytest.param({"lock_duration": timedelta(0)}, id="a lock lasts"),
        pytest.param({"max_delivery_count": 0}, id="a message is delivered at least once"),
        pytest.param({"default_message_time_to_live": timedelta(0)}, id="a message lives"),
        pytest.param({"auto_delete_on_idle": timedelta(minutes=4)}, id="idle means five minutes"),
        pytest.param({"max_size_in_megabytes": 1000}, id="a size is a multiple of a gigabyte"),
        pytest.param({"max_size_in_megabytes": 10240}, id="a size ends at five gigabytes"),
        pytest.param({"duplicate_detection_history_time_window": timedelta(days=25)}, id="history ends at a week"),
        pytest.param({"duplicate_detection_history_time_window": timedelta(seconds=1)}, id="history is 20 s at least"),
        pytest.param({"user_metadata": "x" * 1025}, id="metadata is at most 1024 characters"),
        pytest.param({"max_message_size_in_kilobytes": 1024}, id="large messages are for premium namespaces"),
    ],
)
def test_what_a_queue_cannot_be_is_refused_and_changes_nothing(administration, name, change):
    queue = administration.create_queue(name)

    with pytest.raises(HttpResponseError) as refused:
        administration.update_queue(queue, **change)

    assert refused.value.status_code == 400
    assert administration.get_queue(name) == queue


@pytest.mark.parametrize(
    ("properties", "named"),
    [({"enable_express": True, "requires_duplicate_detection": True}, "."), ({"forward_to": "nowhere"}, "ForwardTo")],
    ids=["express with duplicate detection", "forwarding to nowhere"],
)
def test_properties_that_exclude_each_other_or_name_nothing_are_refused(administration, name, properties, named):
    with pytest.raises(HttpResponseError, match=named) as refused:
        administration.create_queue(name, **properties)
    assert refused.value.status_code == 400


@pytest.mark.parametrize("name_of_queue", ["a?b", "a b", "/a", "a//b", "-a", "a#b", "a" * 261, "queue%41", "schön"])
def test_names_the_service_does_not_know_are_refused(administration, name_of_queue):
    with pytest.raises(HttpResponseError) as refused:
        administration.create_queue(name_of_queue)
    assert refused.value.status_code == 400


def test_a_deleted_queue_is_not_found_and_its_name_is_free(administration, name):
    administration.create_queue(name, max_delivery_count=3)
    administration.delete_queue(name)
    for call in (administration.get_queue, administration.get_queue_runtime_properties, administration.delete_queue):
        with pytest.raises(ResourceNotFoundError):
            call(name)
    assert administration.create_queue(name).max_delivery_count == 10


def test_an_empty_queue_counts_nothing(administration, name):
    administration.create_queue(name)

    [runtime] = [each for each in administration.list_queues_runtime_properties() if each.name == name]

    assert (runtime.size_in_bytes, runtime.total_message_count) == (0, 0)
    assert runtime.active_message_count == runtime.dead_letter_message_count == 0
    assert runtime.scheduled_message_count == runtime.transfer_message_count == 0
    assert runtime.transfer_dead_letter_message_count == 0
    assert None not in (runtime.created_at_utc, runtime.updated_at_utc, runtime.accessed_at_utc)


@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_lists_give_every_queue_once_whatever_the_page(administration, name, page_size):
    names = [f"{name}.{number}" for number in range(5)]
    for each in names:
        administration.create_queue(each)

    listed = [queue.name for queue in administration.list_queues(max_page_size=page_size)]

    assert sorted(each for each in listed if each.startswith(name)) == names
    assert len(listed) == len(set(listed))


def test_the_oldest_version_knows_no_message_size(administration_with: Callable[..., object], name):
    client = administration_with(api_version=ApiVersion.V2017_04)

    assert client.create_queue(name).max_message_size_in_kilobytes is None
    with pytest.raises(HttpResponseError) as refused:
        client.create_queue(f"{name}.large", max_message_size_in_kilobytes=256)
    assert refused.value.status_code == 400


def test_the_namespace_shows_its_name_and_tier(administration):
    properties = administration.get_namespace_properties()

    assert (properties.messaging_sku, properties.namespace_type) == ("Standard", "Messaging")
    assert properties.name
    assert not math.isnan(properties.created_at_utc.timestamp())


def test_a_signature_opens_it_without_the_key(administration_with: Callable[..., object], name):
    assert administration_with(signed=True).create_queue(name).name == name
