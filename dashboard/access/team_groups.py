"""OIDC_PAIR_GROUPS: which values of the provider's claim make people members of which groups of pairs. Pure."""

from collections.abc import Iterable, Mapping, Sequence

ROLES = ("viewer", "operator", "administrator")
LONGEST = 150
"""The longest name of a group in the database."""


def team_groups(words: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The values of the claim for each group: `GROUP=VALUE`, or `GROUP` for a value of the same name."""
    found: dict[str, list[str]] = {}
    for word in words:
        group, _, value = word.partition("=")
        found.setdefault(group.strip(), []).append(value.strip() or group.strip())
    return found


def problem_of(words: Sequence[str]) -> str:
    """One sentence with what is wrong with the setting; empty if nothing is."""
    for word in words:
        group, sign, value = (part.strip() for part in word.partition("="))
        if not group or (sign and not value) or not word.isprintable():
            return f"OIDC_PAIR_GROUPS has {word[:60]!r}: give GROUP or GROUP=VALUE, separated by commas."
        if group in ROLES:
            return (
                f"OIDC_PAIR_GROUPS has {group}, which is a role: give other groups, and the roles as OIDC_VIEWERS does."
            )
        if len(group) > LONGEST:
            return f"OIDC_PAIR_GROUPS has a group of {len(group)} characters: give at most {LONGEST}."
    return ""
