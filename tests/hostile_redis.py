"""What a stranger may write into Redis: a value of every type under a key, and bytes that are no text of ours."""

from collections.abc import Callable, Iterable

import redis

BYTES = b"\xff\x00{[\xfe*"
Write = Callable[[redis.Redis, str], object]
POISONS: dict[str, Write] = {
    "string": lambda client, key: client.set(key, BYTES),
    "number": lambda client, key: client.set(key, b"9" * 300),
    "hash": lambda client, key: client.hset(key, mapping={BYTES: BYTES, b"contoso": b"[]", b"*": b"1e999"}),
    "list": lambda client, key: client.rpush(key, BYTES, b"{}", b'{"body": 1, "properties": [], "headers": null}'),
    "set": lambda client, key: client.sadd(key, BYTES, b"", b"a\x06\x16b\x06\x16c"),
    "zset": lambda client, key: client.zadd(key, {BYTES: float("inf"), b"orders": 1}),
    "stream": lambda client, key: client.xadd(key, {BYTES: BYTES}),
    "full stream": lambda client, key: client.xadd(key, {"x": "y"}, id=f"{2**64 - 1}-{2**64 - 1}"),
}
"""By the name of what is left behind."""


def poison(client: redis.Redis, keys: Iterable[str], kind: str) -> None:
    """Put a value of the kind in place of whatever was under the keys; it never ends by itself."""
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.delete(key)
            POISONS[kind](pipeline, key)
        pipeline.execute()


def fields_poisoned(client: redis.Redis, keys: Iterable[str]) -> None:
    """Leave types and names as they are, and put bytes that are no text of ours in place of every value."""
    for key in keys:
        match client.type(key):
            case "hash" | b"hash":
                client.hset(key, mapping=dict.fromkeys(client.hkeys(key), BYTES))
            case "string" | b"string":
                client.set(key, BYTES)
            case "list" | b"list":
                client.rpush(key, BYTES)
            case "stream" | b"stream":
                client.xadd(key, {"event": BYTES, "record": BYTES})


TYPES = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('TYPE', key)['ok']
end
return found
"""


def all_keys(client: redis.Redis) -> dict[str, str]:
    """Each key, with its type; in one step, because some last for less than a second."""
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in client.eval(TYPES, 0)]
    return dict(zip(texts[::2], texts[1::2], strict=True))
