"""Which sections make a message, and in which order."""

import pytest

from amqp10 import sections
from amqp10.types import DecodeError
from emulator.broker.message import parse


def section(code: int, value: bytes = b"\x45") -> bytes:
    return b"\x00\x53" + bytes((code,)) + value


HEADER, PROPERTIES = section(sections.HEADER), section(sections.PROPERTIES)
DELIVERY = section(sections.DELIVERY_ANNOTATIONS, b"\xc1\x01\x00")
BODY, FOOTER = section(sections.DATA, b"\xa0\x01x"), section(sections.FOOTER, b"\xc1\x01\x00")


@pytest.mark.parametrize("encoded", [BODY + FOOTER + DELIVERY, BODY + DELIVERY, PROPERTIES + BODY + BODY + DELIVERY])
def test_delivery_annotations_behind_the_body_stay_with_the_message(encoded):
    assert parse(HEADER + encoded).bare == encoded


def test_delivery_annotations_in_front_are_for_the_broker_alone():
    assert parse(HEADER + DELIVERY + BODY).bare == BODY


def test_a_message_keeps_its_late_annotations_when_its_properties_change():
    message = parse(BODY + FOOTER + DELIVERY).with_application_properties({"key": "value"})
    assert message.application_properties == {"key": "value"}
    assert message.bare.endswith(BODY + FOOTER + DELIVERY)
    assert message.with_properties(subject="s").bare.endswith(BODY + FOOTER + DELIVERY)


@pytest.mark.parametrize(
    "encoded",
    [
        BODY + DELIVERY + FOOTER,
        BODY + DELIVERY + BODY,
        BODY + DELIVERY + DELIVERY,
        PROPERTIES + DELIVERY + BODY,
        BODY + PROPERTIES,
        FOOTER + BODY,
        PROPERTIES + PROPERTIES + BODY,
    ],
)
def test_sections_in_any_other_order_are_no_message(encoded):
    with pytest.raises(DecodeError):
        sections.split(encoded)
