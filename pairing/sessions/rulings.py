"""The queue for the messages of a session, and the name of a session."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about the queue for a message of a session."""

    queue: str
    """The backlog queue that the session's messages go to; empty: there is no barrier."""
    wait_s: float = 0.0
    """Retry after this time: not every process knows the gate yet, or the syphon holds sends back."""
    is_new: bool = False
    """Whether this send is the only one behind the barrier, so that it may still use another queue."""
    others: str = ""
    """The token of another send of the session that may be in progress; empty if there is none."""


def session_key(entity: str, session: str) -> str:
    """The name of a session in Redis; the name of an entity contains no blank."""
    return f"{entity.lower()} {session}"


def entity_of(key: str) -> str:
    """The entity, in lower case, of a session's key."""
    return key.partition(" ")[0]
