"""The addresses to which messages may be sent: public ones, and those of ALERT_ALLOWED_NETWORKS. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
NOBODYS = [ip_network(text) for text in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")]
"""Globally routable by definition, but served by the host of a virtual machine, a relay, or unassigned."""
TRANSLATED = ip_network("64:ff9b::/96")
EMBEDDING = [
    ip_network(text) for text in ("64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10", "3fff::/20")
]
"""IPv6 networks that can embed an IPv4 address, or are unassigned."""


def is_allowed(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether messages may be sent there. An IPv4 address embedded in an IPv6 one is judged as IPv4."""
    real = unwrapped(address)
    if any(real in network for network in allowed if network.version == real.version):
        return True
    if isinstance(real, IPv6Address) and any(real in network for network in EMBEDDING):
        return False
    if any(real in network for network in NOBODYS):
        return False
    return real.is_global and not real.is_multicast and not real.is_reserved


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address maps or translates; otherwise the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def address_of(text: str) -> Address:
    """An address as the resolver writes it. Raises ValueError."""
    return ip_address(text.partition("%")[0])
