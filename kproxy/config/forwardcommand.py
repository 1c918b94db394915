"""One `--forward-command`: a command that forwards a local port to a node, with placeholders. It runs without a shell.

Placeholders are replaced within words, after the text was split into words. So what a broker advertises never becomes
another word. It may still be misleading within its own word: only hosts of letters, digits, `.`, `_` and `-` that begin
with a letter, a digit or `_`, and IPv6 addresses, go into a command.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kproxy.base.address import Address
from kproxy.base.printable import one_line
from kproxy.config.values import MAX_PORT, quote

NODE, HOST, SHORT_HOST, REMOTE_PORT, PORT = "node", "host", "short-host", "remote-port", "port"
_NAMES = (NODE, HOST, SHORT_HOST, REMOTE_PORT, PORT)
_PLACEHOLDER = re.compile(r"\{([a-z][a-z_-]*)\}")
# RFC 1035 §2.3.4: a name has at most 253 characters. Container names may have an underscore.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}", re.ASCII)
ALLOWED = "a program and its arguments, with {port} and, where needed, {node}, {host}, {short-host}, {remote-port}"


@dataclass(frozen=True, slots=True)
class ForwardCommand:
    """A command, split into words."""

    text: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ForwardCommand:
        """Read a command as a shell would split it. Raises ValueError with the mistake and what is allowed."""
        try:
            words = tuple(shlex.split(text))
        except ValueError:
            raise ValueError(
                f"{quote(text)} cannot be split into words: check its quotes; allowed: {ALLOWED}"
            ) from None
        names = [name for word in words for name in _PLACEHOLDER.findall(word)]
        unknown = next((name for name in names if name not in _NAMES), None)
        if unknown is not None:
            raise ValueError(f"{{{unknown}}} is no placeholder; allowed: {', '.join(f'{{{name}}}' for name in _NAMES)}")
        if not words or not words[0] or "\0" in text or _PLACEHOLDER.search(words[0]):
            raise ValueError(f"{quote(text)} does not begin with a program; allowed: {ALLOWED}")
        if PORT not in names:
            raise ValueError(f"{quote(text)} does not say on which port to listen; allowed: {ALLOWED}")
        return cls(text.strip(), words)

    def fits(self, label: str) -> bool:
        """Return True if it can forward to the node with this label, or, for "", to a bootstrap server.

        A bootstrap server has no node id.
        """
        return bool(label) or not any(NODE in _PLACEHOLDER.findall(word) for word in self.words)

    def arguments(self, label: str, advertised: Address, port: int) -> tuple[str, ...]:
        """Return the words for one node, or, for "", a bootstrap server, and the local `port`.

        Raises ValueError if the address cannot be put into a command.
        """
        values: Mapping[str, Callable[[], str]] = {
            NODE: lambda: label,
            HOST: lambda: _host(advertised.host),
            SHORT_HOST: lambda: _short(advertised.host),
            REMOTE_PORT: lambda: _port(advertised.port),
            PORT: lambda: str(port),
        }
        return tuple(_PLACEHOLDER.sub(lambda match: values[match[1]](), word) for word in self.words)

    def __str__(self) -> str:
        return self.text


def _host(host: str) -> str:
    """Return a host as it stands in a command; an IPv6 address in brackets, as before a port."""
    if _HOST.fullmatch(host):
        return host
    try:
        return f"[{ipaddress.IPv6Address(host).compressed}]" if "%" not in host else _refuse(host)
    except ValueError:
        return _refuse(host)


def _refuse(host: str) -> str:
    shown = one_line(host, 60)
    raise ValueError(f"the advertised host '{shown}' is no host name, and kproxy puts it into no command")


def _short(host: str) -> str:
    """Return a name up to its first dot; an IP address as it is."""
    checked = _host(host)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return checked.partition(".")[0]
    return checked


def _port(port: int) -> str:
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"the advertised port {port} is no port, and kproxy puts it into no command")
    return str(port)
