"""What the claims of a provider mean here. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.access.rights import GROUPS

_USUAL = re.compile(r"[^\w.@+-]+", re.ASCII)


def groups_of(claims: Mapping[str, Any], claim: str, lets_in: Mapping[str, Sequence[str]]) -> list[str]:
    """Our groups (viewer, operator, administrator) that the claim's values open; empty: no access.

    The claim is a list of texts, or one text with words between spaces or commas. Whatever else it is opens nothing.
    """
    given = set(_texts(claims.get(claim)))
    return [group for group in GROUPS if given & set(lets_in.get(group, ()))]


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value, *re.split(r"[\s,]+", value)]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def username_of(claims: Mapping[str, Any], claim: str) -> str:
    """A name for people to read, of the characters that names have here; the subject's digest where there is none."""
    told = claims.get(claim) or claims.get("email") or ""
    name = _USUAL.sub("-", told if isinstance(told, str) else "").strip("-")[:100]
    return name or f"person-{digest(str(claims.get('sub', '')))}"


def digest(subject: str) -> str:
    """Some letters that tell two people of one name apart."""
    return hashlib.sha256(subject.encode()).hexdigest()[:8]
