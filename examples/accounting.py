"""The demo's proof of delivery: messages have a number and a checksum, and both ends record them in Redis.

Per queue: bitmaps `accepted` and `received` (message n sets bit n), counters `refused`, `duplicates` and `damaged`.
A message is missing that was accepted and is neither received nor still in one of the namespaces.
"""

import hashlib
import json
import os

import redis


class Accounts:
    """The counters in the Redis of REDIS_URL. Calls raise redis errors, because without counters there is no proof."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    @classmethod
    def from_environment(cls) -> "Accounts":
        """The counters in the Redis of REDIS_URL."""
        return cls(redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5, socket_connect_timeout=5))

    def next_number(self, queue: str) -> int:
        """A number that no message of this queue has had, including other senders and earlier runs."""
        return int(self._redis.incr(_key(queue, "numbers"))) - 1

    def accepted(self, queue: str, number: int) -> None:
        """The send returned: from now on the message must not be lost."""
        self._redis.setbit(_key(queue, "accepted"), number, 1)

    def refused(self, queue: str) -> None:
        """The send raised an error: the application knows about it and still holds the message."""
        self._redis.incr(_key(queue, "refused"))

    def received(self, queue: str, number: int) -> None:
        """The message was received; a second time it is a duplicate."""
        if self._redis.setbit(_key(queue, "received"), number, 1):
            self._redis.incr(_key(queue, "duplicates"))

    def damaged(self, queue: str) -> None:
        """A received message differs from the one that was sent."""
        self._redis.incr(_key(queue, "damaged"))


def _key(queue: str, book: str) -> str:
    return f"demo:{{{queue}}}:{book}"


def letter(queue: str, number: int) -> str:
    """The body of message `number`, which differs from all others and shows damage."""
    content = f"{queue} {number}"
    return json.dumps({"queue": queue, "number": number, "sha256": hashlib.sha256(content.encode()).hexdigest()})


def number_of(queue: str, body: str) -> int:
    """The number of a message received from `queue`; ValueError where it is not what was sent there."""
    try:
        number = int(json.loads(body)["number"])
    except (TypeError, KeyError) as error:
        raise ValueError("no letter of ours") from error
    if body != letter(queue, number):
        raise ValueError("not as it was sent")
    return number
