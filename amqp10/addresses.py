"""Addresses of links and tokens: the entities and nodes that they are about."""

from __future__ import annotations

from amqp10 import performatives as p
from amqp10.cbs import NODE
from amqp10.codec import decode

MANAGEMENT = "/$management"


def path_of(address: str | None) -> str:
    """The entity or node of an address of a link or a token."""
    address = address or ""
    return (address.partition("://")[2].partition("/")[2] if "://" in address else address).strip("/")


def is_token_node(address: str | None) -> bool:
    """Whether this is the address of `$cbs`."""
    return address is not None and address.strip("/").casefold() == NODE


def is_node(path: str) -> bool:
    """Whether this is the path of a node that answers requests."""
    return is_token_node(path) or path.casefold().endswith(MANAGEMENT)


def address_of(terminus: bytes) -> str | None:
    """The address of an encoded source or target; None for one without, such as a coordinator."""
    found = p.terminus(decode(terminus)[0])
    return None if found is None or found.code == p.COORDINATOR else found.address
