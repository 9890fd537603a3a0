"""Where the messages of a session must go, and what the session is called."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ruling:
    """Where a message of a session must go."""

    queue: str
    """The backlog queue that the session's messages go to; empty: there is no barrier."""
    wait_s: float = 0.0
    """Ask again after so long: not every process knows of the gate yet, or the syphon holds the sends back."""
    is_new: bool = False
    """Whether nothing but this send is behind the barrier, so that it may still take another queue."""
    others: str = ""
    """Another send of the session that may be under way, by its token; empty where there is none."""


def session_key(entity: str, session: str) -> str:
    """What a session is called in Redis; an entity's name has no blank."""
    return f"{entity.lower()} {session}"


def entity_of(key: str) -> str:
    """The entity, in lower case, of a session's key."""
    return key.partition(" ")[0]
