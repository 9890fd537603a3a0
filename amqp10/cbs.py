"""Tokens that a client puts on the `$cbs` node of a namespace, one after the other or many at once."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from amqp10 import events as e
from amqp10.client import ClientSession
from amqp10.requests import Request, request
from amqp10.types import ULong

NODE = "$cbs"
SAS_TOKEN, JSON_WEB_TOKEN = "servicebus.windows.net:sastoken", "jwt"
_CREDIT = 50
_SETTLED, _TAG = 1, b"\0"


class TokenAnswer(NamedTuple):
    """What the namespace answered to the token of this number: 200 and 202 accept it."""

    number: int
    status: int
    description: str

    @property
    def is_accepted(self) -> bool:
        """Whether links of the audience may be attached."""
        return self.status in (200, 202)


class TokenNode:
    """The links to `$cbs`, of which a connection has one pair. Give it each event of the connection."""

    def __init__(self, session: ClientSession, name: str = "cbs") -> None:
        self._reply_to = f"{name}-responses"
        self._requests = session.sender(f"{name}-requests", NODE, snd_settle_mode=_SETTLED)
        self._responses = session.receiver(self._reply_to, NODE, snd_settle_mode=_SETTLED)
        self._waiting: deque[bytes] = deque()
        self._asked = 0

    def put(self, token: str, audience: str, kind: str = SAS_TOKEN) -> int:
        """Put a token for an audience; returns its number, which the answer has, too."""
        self._asked += 1
        properties = {"operation": "put-token", "type": kind, "name": audience}
        self._waiting.append(request(ULong(self._asked), properties, token, self._reply_to))
        self._send()
        return self._asked

    def on(self, event: e.Event) -> TokenAnswer | None:
        """Continue after an event; returns the answer that came with it. Raises AmqpError if it makes no sense."""
        match event:
            case e.LinkOpened(link=self._responses):
                self._responses.renewed_credit = _CREDIT
                self._responses.grant(_CREDIT)
            case e.CreditGranted(link=self._requests) | e.WindowOpened(link=self._requests):
                self._send()
            case e.MessageReceived(link=self._responses):
                return _answer(Request(event.payload))
        return None

    def _send(self) -> None:
        link = self._requests
        while self._waiting and link.credit > 0 and link.session.has_room:
            link.deliver(self._waiting.popleft(), _TAG, settled=True)


def _answer(response: Request) -> TokenAnswer | None:
    number, status = response.correlation_id, response.properties.get("status-code")
    if not isinstance(number, int) or not isinstance(status, int):
        return None
    return TokenAnswer(number, status, str(response.properties.get("status-description", "")))
