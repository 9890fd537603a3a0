"""One message that makes no sense holds up no other (docs/specification.md, section 8)."""

from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusMessage

from pairing.drain.sorting import sort
from pairing.messages.rewriting import to_backlog


def received(number: int, message: ServiceBusMessage) -> SimpleNamespace:
    raw = message.raw_amqp_message
    raw.application_properties = {
        key.encode() if isinstance(key, str) else key: value.encode() if isinstance(value, str) else value
        for key, value in raw.application_properties.items()
    }
    return SimpleNamespace(raw_amqp_message=raw, sequence_number=number)


@pytest.mark.parametrize("name", [b"\xff\xfe", 7], ids=["no text", "a number"])
def test_a_property_with_such_a_name_sets_its_message_aside_and_no_other(name):
    odd, plain = (received(number, to_backlog(ServiceBusMessage("x"), "orders")) for number in (1, 2))
    odd.raw_amqp_message.application_properties[name] = 1
    items, ((refused, fate, reason),) = sort([odd, plain], fetched=False, now=None)
    assert [item.number for item in items] == [2]
    assert (refused.number, fate) == (1, "set_aside")
    assert "cannot be restored" in reason
