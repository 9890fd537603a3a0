"""Settles many messages of a backlog queue: one by one with the public API, or overlapped if the SDK allows it.

Both do the same and pass the same tests. The overlapped way sends one disposition for each run of neighbouring
deliveries and waits for all answers together, so that network latency does not limit the rate. It uses unpublished
parts of the SDK, and only if ``fits`` finds all of them.
"""

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError, MessageNotFoundError

from pairing.drain.backlog_queue import Settled, Verb
from pairing.drive import Operation, call

How = tuple[Verb, list[Any], str, str]
"""How messages are settled: verb, messages, and for dead letters reason and description."""
_LOST = (MessageLockLostError, MessageNotFoundError)
_ECHO = {"complete": "accepted", "abandon": "modified", "defer": "modified", "dead_letter": "rejected"}
_REQUESTED = {"complete": "completed", "abandon": "abandoned"}
_LOCK_LOST = b"com.microsoft:message-lock-lost"


Settlement = Callable[[Any, How, list[Settled], float], Operation[None]]
"""A way to settle. Each outcome is noted as soon as it is known, in the place of its message."""


def choose(receiver: Any) -> Settlement:
    """The fastest way that the SDK of this receiver, blocking or asyncio, supports."""
    return overlapped if fits(receiver) else one_by_one


def one_by_one(receiver: Any, how: How, outcomes: list[Settled], timeout_s: float) -> Operation[None]:
    """The public way, one round trip per message."""
    verb, messages, reason, description = how
    settle = settler(receiver, verb, reason, description)
    for at, message in enumerate(messages):
        outcomes[at] = yield from _settled(settle, message)


def _settled(settle: Callable[[Any], Any], message: Any) -> Operation[Settled]:
    try:
        yield from call(settle, message)
    except _LOST:
        return "lost"
    except MessageAlreadySettled:
        return "done"
    return "done"


def fits(receiver: Any) -> bool:
    """Whether this SDK has everything that the overlapped way needs, whatever its version."""
    try:
        link = receiver._handler._link
        takes = inspect.signature(link._outgoing_disposition).parameters
        return (
            set(takes) == {"first", "last", "delivery_tag", "settled", "state", "batchable"}
            and isinstance(link._pending_dispositions, dict)
            and isinstance(link._received_delivery_tags, set)
            and callable(link._session._connection.listen)
            and _state("complete", "", "") is not None
        )
    except (AttributeError, ImportError, TypeError, ValueError):
        return False


def overlapped(receiver: Any, how: How, outcomes: list[Settled], timeout_s: float) -> Operation[None]:
    """All dispositions at once, then one wait for all answers, or for those that come in time; the public way for
    messages of another link.
    """
    verb, messages, reason, description = how
    link = receiver._handler._link
    direct = [message for message in messages if message._delivery_tag in link._received_delivery_tags]
    known = yield from _settle_overlapped(link, direct, _state(verb, reason, description), _ECHO[verb], timeout_s)
    others = [message for message in messages if id(message) not in known]
    fetched = [message for message in others if getattr(message, "_is_deferred_message", False)]
    if verb in _REQUESTED and fetched and (yield from _settled_by_request(receiver, verb, fetched)):
        known |= {id(message): "done" for message in fetched}
    outcomes[:] = [known.get(id(message)) or "unknown" for message in messages]
    settle = settler(receiver, verb, reason, description)
    for at, message in enumerate(messages):
        if id(message) not in known and None not in known.values():  # otherwise the link broke
            outcomes[at] = yield from _settled(settle, message)


def _settled_by_request(receiver: Any, verb: Verb, messages: list[Any]) -> Operation[bool]:
    """Whether one request settled all of these; if one lock is lost, the service refuses them all."""
    settle = receiver._settle_message_via_mgmt_link
    try:
        yield from call(settle, _REQUESTED[verb], [message.lock_token for message in messages])
    except _LOST:
        return False
    for message in messages:
        message._settled = True
    return True


def _settle_overlapped(
    link: Any, messages: list[Any], state: Any, echo: str, timeout_s: float
) -> Operation[dict[int, Settled | None]]:
    """The outcome of each message by its id(); None without an answer."""
    pending = link._pending_dispositions
    answers = {message._delivery_id: {"settled": False, "outcome": None} for message in messages}
    pending.update(answers)
    try:
        for run in _runs(messages):
            first, last = run[0], run[-1]
            dispose = partial(link._outgoing_disposition, first._delivery_id, last._delivery_id, first._delivery_tag)
            yield from call(dispose, False, state, None)
            link._received_delivery_tags.difference_update(message._delivery_tag for message in run)
        until = time.monotonic() + timeout_s
        while not all(answer["settled"] for answer in answers.values()) and time.monotonic() < until:
            yield from call(link._session._connection.listen, wait=False)
            if link.state.value in (0, 6):  # detached, error
                break
    finally:
        for delivery_id in answers:
            pending.pop(delivery_id, None)
    outcomes = {}
    for message in messages:
        outcomes[id(message)] = outcome = _outcome(answers[message._delivery_id], echo)
        message._settled = outcome == "done"
    return outcomes


def _runs(messages: list[Any]) -> Iterator[list[Any]]:
    """The messages grouped into runs of neighbouring deliveries."""
    run: list[Any] = []
    for message in sorted(messages, key=lambda message: message._delivery_id):
        if run and message._delivery_id != run[-1]._delivery_id + 1:
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def _outcome(answer: dict[str, Any], echo: str) -> Settled | None:
    if not answer["settled"]:
        return None
    outcome = answer["outcome"] or {}
    if outcome.get("rejected"):
        with contextlib.suppress(LookupError, TypeError):
            if outcome["rejected"][0]:  # an error: the settlement was refused
                return "lost" if outcome["rejected"][0][0] == _LOCK_LOST else "unknown"
    return "done" if echo in outcome else "unknown"


def _state(verb: Verb, reason: str, description: str) -> Any:
    """The delivery state of a verb, as the SDK sends it."""
    from azure.servicebus._pyamqp.error import AMQPError
    from azure.servicebus._pyamqp.outcomes import Accepted, Modified, Rejected

    match verb:
        case "complete":
            return Accepted()
        case "abandon" | "defer":
            return Modified(delivery_failed=True, undeliverable_here=verb == "defer", message_annotations=None)
        case "dead_letter":
            properties = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
            return Rejected(error=AMQPError(b"com.microsoft:dead-letter", description, properties))


def settler(receiver: Any, verb: Verb, reason: str, description: str) -> Callable[[Any], Any]:
    """The public method of a receiver, blocking or asyncio, that settles one message so."""
    if verb == "dead_letter":
        return partial(receiver.dead_letter_message, reason=reason, error_description=description)
    method: Callable[[Any], Any] = getattr(receiver, f"{verb}_message")
    return method
