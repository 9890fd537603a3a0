"""One message that makes no sense holds up no other (docs/specification.md, section 8)."""

from types import SimpleNamespace

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


def test_a_property_whose_name_is_no_text_sets_its_message_aside_and_no_other():
    odd, plain = (received(number, to_backlog(ServiceBusMessage("x"), "orders")) for number in (1, 2))
    odd.raw_amqp_message.application_properties[b"\xff\xfe"] = 1
    items, ((refused, fate, reason),) = sort([odd, plain], fetched=False, now=None)
    assert [item.number for item in items] == [2]
    assert (refused.number, fate) == (1, "set_aside")
    assert "cannot be restored" in reason


def test_a_property_whose_name_is_a_number_sets_its_message_aside():
    odd = received(1, to_backlog(ServiceBusMessage("x"), "orders"))
    odd.raw_amqp_message.application_properties[7] = 1
    assert [fate for _, fate, _ in sort([odd], fetched=False, now=None)[1]] == ["set_aside"]
