"""IP addresses and networks, parsed as by Go's net/netip.

Sources: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/ip.go
and cidr.go in the same folder.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from kubestow.models.cel import values
from kubestow.models.cel.condition import CelFault, accepts, no_overload

_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}\Z")


def _address(text: object) -> IPv4Address | IPv6Address:
    if not isinstance(text, str):
        raise no_overload()
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelFault(f"{text[:60]!r} is not an IP address") from None
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise CelFault(f"{text[:60]!r}: zones and IPv4-mapped addresses are not allowed")
    return address


def _network(text: object) -> tuple[IPv4Address | IPv6Address, int]:
    if not isinstance(text, str):
        raise no_overload()
    host, _, bits = text.rpartition("/")
    address = _address(host)
    if not _PREFIX.match(bits) or int(bits) > address.max_prefixlen:
        raise CelFault(f"{text[:60]!r} is not a network address")
    return address, int(bits)


def _ip(value: object) -> IPv4Address | IPv6Address:
    return _address(values.text_of(value, values.IP))


def _cidr(value: object) -> tuple[IPv4Address | IPv6Address, int]:
    return _network(values.text_of(value, values.CIDR))


def _to_ip(value: object) -> object:
    if values.kind_of(value) == values.CIDR:
        return values.opaque(values.IP, str(_cidr(value)[0]))
    return values.opaque(values.IP, str(_address(value)))


def _to_cidr(text: object) -> object:
    address, bits = _network(text)
    return values.opaque(values.CIDR, f"{address}/{bits}")


def _high_bits(address: IPv4Address | IPv6Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _contains_ip(network: object, other: object) -> bool:
    (address, bits), ip = _cidr(network), _address(other) if isinstance(other, str) else _ip(other)
    return address.version == ip.version and _high_bits(address, bits) == _high_bits(ip, bits)


def _contains_cidr(network: object, other: object) -> bool:
    (address, bits), (inner, inner_bits) = _cidr(network), _network(other) if isinstance(other, str) else _cidr(other)
    return address.version == inner.version and bits <= inner_bits and _high_bits(address, bits) == _high_bits(inner, bits)


def _masked(network: object) -> object:
    address, bits = _cidr(network)
    masked = type(address)(_high_bits(address, bits) << (address.max_prefixlen - bits))
    return values.opaque(values.CIDR, f"{masked}/{bits}")


def _is_global_unicast(value: object) -> bool:
    ip = _ip(value)
    broadcast = isinstance(ip, IPv4Address) and int(ip) == 2**32 - 1
    return not (ip.is_unspecified or broadcast or ip.is_loopback or ip.is_multicast or ip.is_link_local)


def _is_link_local_multicast(value: object) -> bool:
    ip = _ip(value)
    if isinstance(ip, IPv4Address):
        return ip in ipaddress.IPv4Network("224.0.0.0/24")
    return ip.packed[0] == 0xFF and ip.packed[1] & 0x0F == 0x02


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ip": _to_ip,
    "isIP": partial(accepts, _address),
    "ip.isCanonical": lambda text: str(_address(text)) == text,
    "family": lambda value: _ip(value).version,
    "isUnspecified": lambda value: _ip(value).is_unspecified,
    "isLoopback": lambda value: _ip(value).is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda value: _ip(value).is_link_local,
    "isGlobalUnicast": _is_global_unicast,
    "cidr": _to_cidr,
    "isCIDR": partial(accepts, _network),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _cidr(value)[1],
    "masked": _masked,
}
