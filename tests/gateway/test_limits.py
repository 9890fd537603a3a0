"""What a gateway keeps of a client that has proved nothing yet, and what it reads of its own configuration."""

from unittest.mock import Mock

import pytest

from amqp10 import performatives as p
from amqp10.frame_fields import FrameFields
from amqp10.types import AmqpError
from gateway.namespace import Namespace
from gateway.pairs import read_pair
from gateway.relay import MOST_HELD, Relay
from gateway.side import Phase
from gateway.tokens import MAX_REQUEST, TokenRequests
from gateway.web import WebConversation
from tests.gateway.running import PAIRS, WITHOUT_KEY


@pytest.mark.parametrize(("count", "tag"), [(200, b""), (100, bytes(MAX_REQUEST // 90))], ids=["parts", "size"])
def test_a_request_to_cbs_that_does_not_end_is_refused(count, tag):
    requests, part = TokenRequests(Mock(), Mock()), FrameFields(p.encode_performative(p.Transfer(0, 0, tag, more=True)))
    with pytest.raises(AmqpError, match="too large"):
        assert not [list(requests.transfer(part, 65536)) for _ in range(count)]


async def test_a_client_is_read_again_once_nothing_stands_against_it():
    connection, primary = Mock(), Namespace("h", "h", "127.0.0.1", 1, None)
    relay = Relay(Mock(primary=primary, client=None, read_buffer=bytearray(1)), connection)
    relay.upstream.send(0, bytes(MOST_HELD))
    relay.flush()
    relay.upstream.phase = Phase.FRAMES
    relay.upstream.pause_writing()
    relay.flush()
    relay.front.phase = Phase.OUTCOME  # the primary has not judged its key
    relay.upstream.resume_writing()
    assert [call[0] for call in connection.method_calls] == ["pause_reading"]
    relay.front.phase = Phase.AMQP_HEADER
    relay.flush()
    assert [call[0] for call in connection.method_calls] == ["pause_reading", "resume_reading"]
    relay.upstream.end()


def test_a_port_of_clients_keeps_no_place_for_http():
    assert [WebConversation(Mock(), pages).is_open for pages in ({}, {"/healthz": Mock()})] == [False, True]


def test_a_connection_string_may_end_with_a_line(tmp_path):
    (tmp_path / "pairs.toml").write_text(PAIRS.replace("SECONDARY_END", WITHOUT_KEY))
    text = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=k"
    assert read_pair(tmp_path / "pairs.toml", "contoso", {"PRIMARY": f"{text}\n"}).primary.connection_string == text
