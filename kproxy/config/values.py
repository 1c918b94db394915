"""The values of options that are more than a word or a number, and their text.

Each `parse` raises ValueError with one line for the user; `str()` returns text that `parse` reads back.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from kproxy.base.address import Address
from kproxy.base.printable import escaped

MAX_PORT = 65535
# Enough for every cluster whose node ids count from 0 or 1, and a window that people remember.
NODE_PORT_COUNT = 200
ADMIN_TOKEN = "16 to 4096 characters of ASCII without spaces"
_NO_PORT = -1  # never the port of parsed text


def quote(text: str) -> str:
    """Return text in quotes for an error message: shortened, control characters escaped."""
    short = text if len(text) <= 60 else text[:57] + "..."
    return f"'{escaped(short)}'"


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports `first` to `last`, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Read `FIRST-LAST`, or `FIRST` for the 200 ports from there."""
        allowed = f"allowed: FIRST-LAST with 1 <= FIRST <= LAST <= {MAX_PORT}, or FIRST"
        match = re.fullmatch(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?", text.strip(), re.ASCII)
        if match is None:
            raise ValueError(f"{quote(text)} is not a range of ports; {allowed}")
        first = int(match[1])
        last = int(match[2]) if match[2] else min(first + NODE_PORT_COUNT - 1, MAX_PORT)
        if not 1 <= first <= MAX_PORT or last > MAX_PORT:
            raise ValueError(f"{quote(text)} is outside the ports 1 to {MAX_PORT}; {allowed}")
        if first > last:
            raise ValueError(f"{quote(text)} ends before it begins; {allowed}")
        return cls(first, last)

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1

    def overlaps(self, other: PortRange) -> bool:
        """Return True if a port is in both ranges."""
        return self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Advertise:
    """The host that clients receive in place of the listener's, and the first node port."""

    host: str
    first_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Advertise:
        """Read `HOST[:FIRST_PORT]`; a wildcard is refused, since no client can connect to one."""
        address = Address.parse(text, default_port=_NO_PORT)
        if address.is_wildcard or address.host == "*":
            raise ValueError(f"{quote(text)} means every interface; allowed: a host that clients can reach")
        if address.port == 0:
            raise ValueError(f"{quote(text)} has port 0; allowed: HOST or HOST:FIRST_PORT with 1 to {MAX_PORT}")
        return cls(address.host, None if address.port == _NO_PORT else address.port)

    def __str__(self) -> str:
        return _host_port(self.host, self.first_port)


@dataclass(frozen=True, slots=True)
class Map:
    """One route `ADVERTISED=DIAL`: the advertised addresses that it matches, and the address to dial for them.

    `pattern` is a glob for the advertised host (case does not matter), `port` the advertised port or None for any. If
    `node` is set, only that counts: a node's label, `2` or `controller-3000`. `dial_port` None keeps the advertised
    port.
    """

    pattern: str
    port: int | None
    node: str | None
    dial_host: str
    dial_port: int | None

    @classmethod
    def parse(cls, text: str) -> Map:
        """Read `HOST[:PORT]=DIAL`, `GLOB[:PORT]=DIAL`, `node:ID=DIAL` or `node:controller-ID=DIAL`.

        DIAL is `HOST[:PORT]`, or `HOST:{port}`, which keeps the advertised port.
        """
        left, equals, right = (part.strip() for part in text.partition("="))
        if not equals or not left or not right or "=" in right:
            raise ValueError(f"{quote(text)} is not a map; allowed: HOST[:PORT]=DIAL, GLOB=DIAL, node:ID=DIAL")
        dial = Address.parse(right.removesuffix(":{port}"), default_port=_NO_PORT)
        if dial.port == 0 or re.search(r"[*?{}\[\]]", dial.host):
            raise ValueError(f"{quote(right)} cannot be dialled; allowed: HOST, HOST:PORT or HOST:{{port}}")
        dial_port = None if dial.port == _NO_PORT else dial.port
        if left.startswith("node:"):
            label = re.fullmatch(r"(controller-)?(\d{1,10})", left.removeprefix("node:"), re.ASCII)
            if label is None or int(label[2]) > 2**31 - 1:
                allowed = f"0 to {2**31 - 1}, or controller-ID"
                raise ValueError(f"{quote(left.removeprefix('node:'))} is not a node id; allowed: {allowed}")
            return cls("*", None, f"{label[1] or ''}{int(label[2])}", dial.host, dial_port)
        advertised = Address.parse(left, default_port=_NO_PORT)
        if advertised.port == 0:
            raise ValueError(f"{quote(left)} has port 0; allowed: 1 to {MAX_PORT}, or no port for any")
        port = None if advertised.port == _NO_PORT else advertised.port
        return cls(advertised.host, port, None, dial.host, dial_port)

    def matches(self, advertised: Address, node: str) -> bool:
        """Return True if this map matches the advertised address of the node with the label `node`."""
        if self.node is not None:
            return self.node == node
        if self.port is not None and self.port != advertised.port:
            return False
        return fnmatchcase(advertised.host.lower(), self.pattern.lower())

    def dial(self, advertised: Address) -> Address:
        """Return the dial address for an advertised address that matches."""
        return Address(self.dial_host, advertised.port if self.dial_port is None else self.dial_port)

    def __str__(self) -> str:
        left = f"node:{self.node}" if self.node is not None else _host_port(self.pattern, self.port)
        return f"{left}={_host_port(self.dial_host, self.dial_port)}"


@dataclass(frozen=True, slots=True)
class Sni:
    """A host name for each node, such as `b{node}.kafka.example`: the node's label replaces `{node}`."""

    before: str
    after: str

    @classmethod
    def parse(cls, text: str) -> Sni:
        """Read a host name that has `{node}` once, in its first part."""
        allowed = "allowed: a host name with {node} once, before the first dot, such as b{node}.kafka.example"
        match = re.fullmatch(
            r"([a-z0-9-]*)\{node\}((?:-?[a-z0-9]+)*(?:\.[a-z0-9_-]+)+)", text.strip().lower(), re.ASCII
        )
        if match is None or len(text) > 200 or match[1].startswith("-"):
            raise ValueError(f"{quote(text)} is no name for nodes; {allowed}")
        return cls(match[1], match[2])

    def name(self, label: str) -> str:
        """Return the host name of the node with this label."""
        return f"{self.before}{label}{self.after}"

    def label(self, name: str) -> str | None:
        """Return the label of the node with this host name; None if no node has it."""
        name = name.lower()
        if not name.startswith(self.before) or not name.endswith(self.after):
            return None
        label = name[len(self.before) : len(name) - len(self.after)]
        match = re.fullmatch(r"(?:controller-)?(\d{1,10})", label, re.ASCII)
        return None if match is None or int(match[1]) > 2**31 - 1 else label

    def __str__(self) -> str:
        return self.name("{node}")


@dataclass(frozen=True, slots=True)
class Forward:
    """A local port `[HOST:]PORT=TO` whose connections go to another address unchanged.

    `host` None is the host of the cluster's listen address; port 0 is any free port.
    """

    host: str | None
    port: int
    to: Address

    @classmethod
    def parse(cls, text: str) -> Forward:
        """Read `PORT=HOST:PORT` or `HOST:PORT=HOST:PORT`."""
        left, equals, right = (part.strip() for part in text.partition("="))
        if not equals or not left or not right:
            raise ValueError(f"{quote(text)} is not a forward; allowed: [HOST:]PORT=HOST:PORT")
        host, port = None, left
        if not re.fullmatch(r"\d{1,5}", left, re.ASCII):
            listen = Address.parse(left)
            host, port = listen.host, str(listen.port)
        if int(port) > MAX_PORT:
            raise ValueError(f"{quote(left)} has no such port; allowed: 0 to {MAX_PORT}")
        to = Address.parse(right)
        if to.port == 0 or re.search(r"[*?{}\[\]/]", to.host):
            raise ValueError(f"{quote(right)} cannot be connected to; allowed: HOST:PORT")
        return cls(host, int(port), to)

    def listen(self, beside: Address) -> Address:
        """Return the local address, for a cluster that listens at `beside`."""
        return Address(beside.host if self.host is None else self.host, self.port)

    def __str__(self) -> str:
        left = str(self.port) if self.host is None else str(Address(self.host, self.port))
        return f"{left}={self.to}"


def admin_token(text: str) -> str:
    """Check the token for the admin endpoint, which is sent in a header (RFC 6750), and return it.

    Raises ValueError, which does not repeat the token.
    """
    if not re.fullmatch(r"[!-~]{16,4096}", text):
        raise ValueError(f"has no token; allowed: {ADMIN_TOKEN}, and nothing else")
    return text


def _host_port(host: str, port: int | None) -> str:
    if port is not None:
        return str(Address(host, port))
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class ExitWith:
    """Something that kproxy ends with: a `process` by its id, a `url`, or a `file`."""

    kind: Literal["process", "url", "file"]
    text: str

    @classmethod
    def parse(cls, text: str) -> ExitWith:
        """Read a process id, an `http(s)://` URL, or else a path."""
        text = text.strip()
        if re.fullmatch(r"\d+", text, re.ASCII):
            if not 0 < int(text[:11]) < 2**31:
                raise ValueError(f"{quote(text)} is not a process id; allowed: a positive number, or ./NAME for a file")
            return cls("process", str(int(text)))
        if re.match(r"\w+://", text, re.ASCII):
            allowed = "allowed: http://HOST[:PORT]/PATH or https://, no user or password"
            match = re.fullmatch(r"https?://([^\s/?#@]+)(/[!-~]*)?", text)
            if match is None:
                raise ValueError(f"not a URL that kproxy can request; {allowed}")  # it may have a password
            Address.parse(match[1], default_port=80)
            return cls("url", text)
        if not text or "\0" in text:
            raise ValueError(f"{quote(text)} is not a path; allowed: PATH, a process id, or a URL")
        return cls("file", os.path.expanduser(text))

    def __str__(self) -> str:
        return self.text
