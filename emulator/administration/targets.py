"""What the address of a request names: an entity, or a list of entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

from emulator.broker.descriptions import DescriptionError

PAGE_SIZE = 100
MAX_SKIP = 10_000_000


@dataclass(frozen=True, slots=True)
class Entity:
    """A queue or topic; the address does not distinguish them."""

    path: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription of a topic."""

    topic: str
    name: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a subscription."""

    topic: str
    subscription: str
    name: str


@dataclass(frozen=True, slots=True)
class Queues:
    """The list of all queues."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The list of all topics."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The list of a topic's subscriptions."""

    topic: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The list of a subscription's rules."""

    topic: str
    subscription: str


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """The namespace itself."""


Target = Entity | Subscription | Rule | Queues | Topics | Subscriptions | Rules | NamespaceInfo


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list."""

    skip: int = 0
    top: int = PAGE_SIZE


def read_target(address: str) -> Target:
    """Return what `/path?query` names.

    A slash written as `%2F` belongs to a name; a plain one may, but `/subscriptions/` and `/rules/` separate.
    """
    parts = [unquote(part) for part in _raw_path(address).split("/")]
    lowered = [part.casefold() for part in parts]
    match lowered:
        case ["$resources", "queues"]:
            return Queues()
        case ["$resources", "topics"]:
            return Topics()
        case ["$namespaceinfo"]:
            return NamespaceInfo()
        case [_, *_, "subscriptions", _, "rules"]:
            return Rules("/".join(parts[:-3]), parts[-2])
        case [_, *_, "subscriptions", _, "rules", _]:
            return Rule("/".join(parts[:-4]), parts[-3], parts[-1])
        case [_, *_, "subscriptions"]:
            return Subscriptions("/".join(parts[:-1]))
        case [_, *_, "subscriptions", _]:
            return Subscription("/".join(parts[:-2]), parts[-1])
        case _:
            return Entity("/".join(parts))


def read_path(address: str) -> str:
    """The decoded path of an address, without slashes around it."""
    return unquote(_raw_path(address))


def _raw_path(address: str) -> str:
    path = address.partition("?")[0]
    return path.partition("://")[2].partition("/")[2].strip("/") if "://" in path else path.strip("/")


def read_query(address: str) -> Mapping[str, str]:
    """The query of an address; a name given twice has its first value."""
    return {name: values[0] for name, values in parse_qs(address.partition("?")[2], keep_blank_values=True).items()}


def read_page(query: Mapping[str, str]) -> Page:
    """Return the page requested with `$skip` and `$top`, at most 100 entries. Raises DescriptionError."""
    skip, top = _count(query, "$skip", 0), _count(query, "$top", PAGE_SIZE)
    if top == 0:
        raise DescriptionError("The value of $top must be at least 1.")
    return Page(min(skip, MAX_SKIP), min(top, PAGE_SIZE))


def _count(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise DescriptionError(f"The value of {name} must be a whole number, zero or above.")
    return int(text)
