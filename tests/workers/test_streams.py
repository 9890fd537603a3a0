"""A report leaves the stream once it is saved, and not before (docs/specification.md, section 11)."""

import threading

from workers.streams import GROUP, Reader


def test_what_came_before_the_first_reader_is_read(redis_client):
    redis_client.xadd("facts", {"fact": "early"})
    assert read_one(Reader(redis_client, "facts", "fact", "a"))[0][1] == "early"


def test_an_acknowledged_entry_leaves_the_stream(redis_client):
    reader = Reader(redis_client, "facts", "fact", "a")
    redis_client.xadd("facts", {"fact": "one"})
    reader.acknowledge(read_one(reader))
    assert redis_client.xlen("facts") == 0
    assert redis_client.xpending("facts", GROUP)["pending"] == 0


def test_what_a_dead_reader_held_is_read_by_another(redis_client):
    redis_client.xadd("facts", {"fact": "held by the dead"})
    (entry,) = read_one(Reader(redis_client, "facts", "fact", "dead"))
    redis_client.xclaim("facts", GROUP, "dead", 0, [entry[0]], idle=120_000)
    assert read_one(Reader(redis_client, "facts", "fact", "living")) == [entry]


def test_what_a_living_reader_holds_is_left_to_it(redis_client):
    redis_client.xadd("facts", {"fact": "held"})
    read_one(Reader(redis_client, "facts", "fact", "first"))
    redis_client.xadd("facts", {"fact": "free"})
    assert [text for _, text in read_one(Reader(redis_client, "facts", "fact", "second"))] == ["free"]


def test_a_reader_ends_when_it_is_asked_to(redis_client):
    stop = threading.Event()
    stop.set()
    assert list(Reader(redis_client, "facts", "fact", "a").batches(stop)) == []


def read_one(reader: Reader) -> list[tuple[str, str]]:
    return next(batch for batch in reader.batches(threading.Event()) if batch)
