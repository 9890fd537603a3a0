"""Requests out of bytes, in whatever pieces these arrive."""

import pytest

from emulator import http
from emulator.http import HttpError, RequestReader

CHUNKED = b"PUT /orders HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
HELLO = CHUNKED + b"5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n"


@pytest.fixture
def counted(monkeypatch):
    """A function that counts from now on how often another one of the module is called."""

    def count(name):
        calls, original = [], getattr(http, name)
        monkeypatch.setattr(http, name, lambda data: calls.append(data) or original(data))
        return calls

    return count


@pytest.mark.parametrize("piece", [1, 7, len(HELLO)])
def test_a_chunked_request_is_read_in_pieces_of_any_size(piece):
    reader, data = RequestReader(), HELLO + HELLO
    requests = [request for start in range(0, len(data), piece) for request in reader.feed(data[start : start + piece])]
    assert [(request.target, request.body) for request in requests] == [("/orders", b"hello!")] * 2
    assert reader.take_rest() == b""


@pytest.mark.parametrize("size", [b"-6", b"-1", b"+5", b"0x5", b"1_0", b"", b";a", b"x", b"\xb2"])
def test_the_size_of_a_chunk_is_hexadecimal_digits_only(size):
    with pytest.raises(HttpError, match="size") as refused:
        RequestReader().feed(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")
    assert refused.value.status == 400


def test_a_chunk_is_read_once_however_many_follow(counted):
    sizes, reader = counted("_chunk_size"), RequestReader()
    reader.feed(CHUNKED)
    for _ in range(500):
        assert reader.feed(b"1\r\na\r\n" * 4) == []
    assert len(sizes) == 2000


def test_a_head_is_read_once_however_slowly_its_body_comes(counted):
    heads, reader = counted("_head"), RequestReader()
    reader.feed(b"PUT /orders HTTP/1.1\r\nContent-Length: 300\r\n\r\n")
    received = [request for _ in range(300) for request in reader.feed(b"a")]
    assert [request.body for request in received] == [b"a" * 300]
    assert len(heads) == 1


def test_a_body_beyond_the_limit_is_refused_before_it_arrives():
    with pytest.raises(HttpError) as refused:
        RequestReader().feed(CHUNKED + b"%x\r\n" % (http.MAX_BODY + 1))
    assert refused.value.status == 413
