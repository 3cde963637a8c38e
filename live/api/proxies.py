"""Proxy selection from the environment, by the rules of Go's ``golang.org/x/net/http/httpproxy``, which kubectl follows."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit


def from_environment(url: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the proxy for a URL; None for this machine, for hosts in ``NO_PROXY``, or without a proxy."""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    proxy = _either(environ, f"{parts.scheme.upper()}_PROXY")
    if not proxy or _is_here(host) or _passed_over(host, port, _either(environ, "NO_PROXY")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _passed_over(host: str, port: int, exceptions: str) -> bool:
    """Return True if an entry of ``NO_PROXY`` matches the host.

    Entries are ``*``, networks, addresses and domains, the last two optionally with a port. A leading dot matches subdomains only.
    """
    address = _address(host)
    for entry in (part.strip().lower() for part in exceptions.split(",")):
        if not entry:
            continue
        if entry == "*":
            return True
        if "/" in entry:
            if address is not None and _within(address, entry):
                return True
            continue
        name, wanted = _split_port(entry)
        if wanted is not None and wanted != port:
            continue
        if address is not None:
            if _address(name) == address:
                return True
            continue
        domain = name.removeprefix("*")
        if host.endswith(domain if domain.startswith(".") else f".{domain}") or host == domain:
            return True
    return False


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, int | None]:
    """Split an entry into name and port, without the brackets of IPv6 addresses."""
    if _address(entry) is not None:
        return entry, None
    name, colon, port = entry.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        return name.strip("[]"), int(port)
    return entry.strip("[]"), None
