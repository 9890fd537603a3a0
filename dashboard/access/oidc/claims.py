"""Groups and user name from the claims of a provider. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.access.rights import GROUPS

_USUAL = re.compile(r"[^\w.@+-]+", re.ASCII)


def groups_of(claims: Mapping[str, Any], claim: str, lets_in: Mapping[str, Sequence[str]]) -> list[str]:
    """Our groups (viewer, operator, administrator) that the values of the claim map to; empty: no access.

    The claim is a list of texts, or one text with words separated by spaces or commas. Any other type maps to no group.
    """
    given = set(_texts(claims.get(claim)))
    return [group for group in GROUPS if given & set(lets_in.get(group, ()))]


def teams_of(claims: Mapping[str, Any], claim: str, teams: Mapping[str, Sequence[str]]) -> list[str]:
    """The groups of pairs that the values of the claim map to. They give no role, and so no access by themselves."""
    given = set(_texts(claims.get(claim)))
    return [group for group, values in teams.items() if given & set(values)]


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value, *re.split(r"[\s,]+", value)]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def username_of(claims: Mapping[str, Any]) -> str:
    """A readable name of the characters that Django allows; without any, from the digest of the subject."""
    given = claims.get("preferred_username") or claims.get("email") or ""
    name = _USUAL.sub("-", given if isinstance(given, str) else "").strip("-")[:100]
    return name or f"person-{digest(str(claims.get('sub', '')))}"


def digest(subject: str) -> str:
    """A short suffix that distinguishes two people with the same name."""
    return hashlib.sha256(subject.encode()).hexdigest()[:8]
