"""Which proxy leads to a server, by the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go reads them, since that
is what kubectl does. Pure but for the environment it is given.

What a kubeconfig says of a proxy comes first, and is `kubeconfig`'s.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(host: str, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL; None where there is none, or none for this host. `host`: `https://10.0.0.1:6443`."""
    url = urlsplit(host)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = _set(name, environ)
    if not proxy or _is_direct(url.hostname or "", url.port or (443 if url.scheme == "https" else 80), environ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _set(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""


def _is_direct(host: str, port: int, environ: Mapping[str, str]) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), host, port, address) for entry in _set("NO_PROXY", environ).split(","))


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """One entry: `*`, an address, a network, a domain with what is below it, `.domain` only below; with port or not."""
    if not entry:
        return False
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None:
        name, colon, only = entry.rpartition(":")
        if colon and only.isdecimal():
            if int(only) != port:
                return False
            entry = name
    entry = entry.strip("[]")
    if (found := _address(entry)) is not None or address is not None:
        return found == address
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
