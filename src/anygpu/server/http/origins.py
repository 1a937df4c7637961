"""Parse and compare the names in Host and Origin headers. Both come from anyone who can connect."""

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple


class Host(NamedTuple):
    """The name and port in a Host header."""

    name: str
    port: int | None


class Origin(NamedTuple):
    """Scheme, host name and port of a web page. Pages with equal origins belong to the same site."""

    scheme: str
    name: str
    port: int


DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65535
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]\\]+)(?::([0-9]{1,5}))?")


def parse_host(text: str) -> Host | None:
    """Return the name and port of a Host header, or None if it is not valid."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    name, port = match.group(1).rstrip(".").lower(), match.group(2)
    if port is not None and int(port) > MAX_PORT:
        return None
    return Host(name, None if port is None else int(port))


def parse_origin(text: str) -> Origin | None:
    """Return the origin in an Origin header or of a URL without a path; None if it is not valid."""
    scheme, separator, rest = text.partition("://")
    host = parse_host(rest)
    scheme = scheme.lower()
    if not separator or host is None or scheme not in DEFAULT_PORTS:
        return None
    return Origin(scheme, host.name, DEFAULT_PORTS[scheme] if host.port is None else host.port)


def accepted_hosts(names: Iterable[str], origins: Iterable[Origin]) -> frozenset[str]:
    """Return the host names that the server accepts: `names`, the hosts of `origins`, and localhost."""
    own = ("localhost", *names, *(origin.name for origin in origins))
    return frozenset(name.lower() for name in own if name)


def is_address(name: str) -> bool:
    """Return whether a host name is an IP address. IPv6 addresses are in brackets."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
