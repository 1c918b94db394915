"""A host and a port, as users write them and as Kafka's protocol carries them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from kproxy.base.printable import one_line

# A name has at most 253 characters (RFC 1035 §2.3.4, without the last dot); a peer may claim a longer one.
_LONGEST_HOST = 255


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host (a name, or an IP address without brackets) and a port.

    A port that was read from Kafka's protocol may be any int32; a port that was parsed from text is 0 to 65535.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> Address:
        """Read `host:port`, `[v6]:port` or, with a default port, `host`.

        Raises ValueError with a message that says what is allowed.
        """
        text = text.strip()
        if text.startswith("["):
            host, bracket, suffix = text[1:].partition("]")
            if not bracket or (suffix and not suffix.startswith(":")):
                raise ValueError(f"'{text}' is not an address: write [IPV6]:PORT")
            try:
                ipaddress.IPv6Address(host.partition("%")[0])
            except ValueError:
                raise ValueError(f"'{host}' is not an IPv6 address") from None
            port_text = suffix[1:]
        elif text.count(":") > 1:
            raise ValueError(f"'{text}' is ambiguous: write an IPv6 address as [IPV6]:PORT")
        else:
            host, _, port_text = text.partition(":")
        if not host or any(c.isspace() or c in "/@,\x00" for c in host):
            raise ValueError(f"'{text}' is not an address: write HOST:PORT")
        if not port_text:
            if default_port is None:
                if host.isdigit():
                    raise ValueError(f"'{text}' has no host: write HOST:PORT, for example 127.0.0.1:{text}")
                raise ValueError(f"'{text}' has no port: write HOST:PORT")
            return cls(host, default_port)
        if not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
            raise ValueError(f"'{port_text}' is not a port: allowed are 0 to 65535")
        return cls(host, int(port_text))

    @property
    def is_wildcard(self) -> bool:
        """True if binding to this address means every interface; such an address must never be advertised."""
        return _is_wildcard(self.host)

    def __str__(self) -> str:
        """Return the address for display: special characters of the host are escaped, and a long host is cut."""
        host = one_line(self.host, _LONGEST_HOST)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@lru_cache(maxsize=64)  # asked for each connection, of the few addresses that kproxy listens on
def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
