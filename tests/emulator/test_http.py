"""Requests over HTTP: one after the other, each of limited size, and none of a page of another host."""

import time
import types

import pytest

from emulator.administration import Administration
from emulator.broker.descriptions import QueueDescription
from emulator.web.conversation import MAX_BODY, MAX_HEAD, WebConversation

HOST = b"Host: localhost\r\n"
ASKING = b"GET /$emulator/stats HTTP/1.1\r\n" + HOST + b"\r\n"
PUTTING = b"POST /$emulator/faults HTTP/1.1\r\n" + HOST


class Visitor:
    """A connection that speaks HTTP, at the same time its socket."""

    def __init__(self, server, calls):
        self.calls, self.answers, self.turns = calls, [], []
        self.is_read, self.is_closed = True, False
        self.conversation = WebConversation(server, self)

    def ask(self, data):
        self.conversation.receive(data)
        while self.calls:
            before = len(self.answers)
            self.calls.pop(0)()
            self.turns.append(len(self.answers) - before)

    def write(self, data):
        self.answers.append(data)

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def close(self):
        self.is_closed = True


@pytest.fixture
def visitor(namespace, host, calls):
    """A client of a namespace with so many queues that its statistics take about 80 KB."""
    for number in range(400):
        namespace.create_queue(f"queue-{number}", QueueDescription(f"queue-{number}"), time.time())
    server = types.SimpleNamespace(host=host, requires_key=False)
    server.administration = Administration(namespace, host.keys, time.time())
    return Visitor(server, calls)


def test_requests_that_come_at_once_are_answered_in_one_turn_each(visitor):
    visitor.ask(ASKING * 60)
    assert (len(visitor.answers), max(visitor.turns)) == (60, 1)


def test_a_visitor_that_does_not_read_is_answered_when_it_reads_again(visitor):
    visitor.write = lambda data: (visitor.answers.append(data), visitor.conversation.pause())
    visitor.ask(ASKING * 60)
    assert len(visitor.answers) == 1
    del visitor.write
    visitor.conversation.resume()
    visitor.ask(b"")
    assert len(visitor.answers) == 60


def test_no_more_is_read_while_a_request_is_answered(visitor):
    visitor.conversation.receive(ASKING)
    visitor.conversation.receive(ASKING)
    assert not visitor.is_read
    visitor.ask(b"")
    assert (visitor.is_read, len(visitor.answers)) == (True, 2)


def test_nothing_is_answered_after_a_request_that_ends_the_connection(visitor):
    visitor.ask(b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n" + ASKING)
    visitor.ask(ASKING)
    assert (visitor.is_closed, len(visitor.answers)) == (True, 1)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_arrives_in_pieces_of_any_size(visitor, size):
    data = PUTTING + b"Transfer-Encoding: chunked\r\n\r\n3\r\n{}[\r\n0\r\n\r\n"
    for start in range(0, len(data), size):
        visitor.ask(data[start : start + size])
    (answer,) = visitor.answers
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b'{"error": "The body is not valid JSON."}')


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/9\r\n" + HOST + b"\r\n", 400),
        (b"GET /" + b"x" * MAX_HEAD, 431),
        (PUTTING + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1) + b"x" * (MAX_BODY + 1), 413),
        (PUTTING + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY + 1) + b"x" * (MAX_BODY + 1), 413),
        (PUTTING + b"Transfer-Encoding: chunked\r\n\r\n-6\r\n", 400),
        (ASKING.replace(b"localhost", b"attacker.example"), 403),
        (ASKING.replace(HOST, HOST + b"Origin: http://attacker.example\r\n"), 403),
    ],
)
def test_a_request_that_is_refused_ends_the_connection(visitor, data, status):
    visitor.ask(data)
    (answer,) = visitor.answers
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert visitor.is_closed
