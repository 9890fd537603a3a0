"""The address that a request comes from."""

from ipaddress import IPv6Address, ip_address, ip_network


def whereabouts(address: str) -> str:
    """The part of an address that one host cannot change: the IPv4 address, or the /64 network of an IPv6 address.
    Pure.
    """
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    return str(known.ipv4_mapped or ip_network((known, 64), strict=False))
