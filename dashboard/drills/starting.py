"""Which entity a drill may be carried out on."""

from dashboard.drills.canary import CANARY, marked


def canary_of(pair: str) -> str | None:
    """The one that PAIRS_FILE names; None where it names none."""
    config = marked(pair)
    return config.entity if config else None


def is_marked(path: str, named: str | None) -> bool:
    """Whether an entity may be drilled on without its name typed: the marked one, or the one drills make. Pure."""
    return path.lower() in {CANARY, (named or CANARY).lower()}
