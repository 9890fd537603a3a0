"""The entities on which drills are allowed."""

from dashboard.drills.canary import CANARY, marked


def canary_of(pair: str) -> str | None:
    """The canary of PAIRS_FILE, or None."""
    config = marked(pair)
    return config.entity if config else None


def is_marked(path: str, named: str | None) -> bool:
    """Whether drills on an entity need no typed name: it is the marked canary, or one that drills create. Pure."""
    return path.lower() in {CANARY, (named or CANARY).lower()}
