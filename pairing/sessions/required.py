"""Which queues of the primary require sessions, so that a message without one is refused during an outage, too.

The primary would refuse it. In the backlog it would only be found out when the primary is back, and the caller, who
could have added the session, has gone. See docs/design/session-order.md, "A forgotten session id".
"""

from collections.abc import Iterable

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

NOT_ALLOWED = "amqp:not-allowed"
"""The condition with which a queue refuses a message without session, among other things."""


class RequiredSessions:
    """What one client knows of it; it asks for the queues that senders saw a reason to ask for."""

    def __init__(self) -> None:
        self.required: set[str] = set()
        """The queues that are known to require sessions, in lower case."""
        self._asked: set[str] = set()
        self.unknown: dict[str, None] = {}
        """The entities to ask for."""

    def ask(self, path: str) -> None:
        """There is a reason to ask: a message with a session was sent, or something was refused as not allowed."""
        if path.lower() not in self._asked:
            self._asked.add(path.lower())
            self.unknown[path] = None

    def learn(self, path: str, *, is_required: bool) -> None:
        """The answer of the primary's administration."""
        self.unknown.pop(path, None)
        if is_required:
            self.required.add(path.lower())

    def refusal(self, path: str, messages: Iterable[ServiceBusMessage]) -> ServiceBusError | None:
        """The error of the primary, where it would refuse one of the messages for its missing session."""
        if path.lower() not in self.required or all(message.session_id is not None for message in messages):
            return None
        return ServiceBusError(
            message=f"{path} requires sessions: a message without a session id cannot be sent to it.",
            condition=NOT_ALLOWED.encode(),
            shutdown_handler=False,
        )
