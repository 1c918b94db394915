"""One request and the reply to it, as handlers see them, and which Host names are accepted. Pure.

A page of any site can make a browser request `/status` from a name of that site, if that name resolves to this machine
for a moment (DNS rebinding). The Host header of the browser is then that name, which kproxy does not know.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
MARK = "Kproxy-Admin"
"""A header of each reply. No other server sends it, and a client takes only a reply that has it for one of kproxy."""

ACCEPT_CLUSTER = "accept-cluster"
"""The field in the query of /reload that names a cluster."""
MAX_QUERY_FIELDS = 64
"""The most fields of one query; no page reads more than a few."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request; names of `headers` are in lower case."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They may have a secret, so they are not in the text of this object."""
    body: object = field(default=None, repr=False)
    """The JSON value of the body; None if the route takes none. It may be a secret, too."""
    peer: str = ""
    """The IP address of the client, "" if unknown."""
    withheld: str = ""
    """The requests to which names of brokers are shown, if not to this one: "only to requests with its token"."""

    @classmethod
    def from_target(cls, method: str, target: str, headers: Mapping[str, str], peer: str = "") -> Request:
        """Make a request from the target of the request line. Raises ValueError if its query has too many fields."""
        path, _, query = target.partition("?")
        fields = parse_qs(query, max_num_fields=MAX_QUERY_FIELDS) if query else {}
        return cls(method, path, fields, headers, peer=peer)

    @property
    def host(self) -> str:
        return self.headers.get("host", "")

    @property
    def has_body(self) -> bool:
        """True if a body was announced (RFC 9112 §6.3)."""
        return "transfer-encoding" in self.headers or self.content_length > 0

    @property
    def content_length(self) -> int:
        """The announced length; 0 if none was. The HTTP parser has checked that it is a number."""
        return int(self.headers.get("content-length", "0"))


@dataclass(frozen=True, slots=True)
class Reply:
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None
    """The stream that follows the body, until it ends or the peer has gone."""


class RequestRefused(Exception):
    """The request ends with this reply: no handler is called."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__(reply.status.phrase)


def text_reply(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply with one line of text."""
    return Reply(status, f"{text}\n".encode(), headers=headers or {})


ANY = "*"


def is_accepted(host: str, names: Collection[str]) -> bool:
    """Return True if kproxy accepts a request with this Host header ("": none); `names` are accepted, ANY accepts all.

    These are always accepted: no Host (HTTP/1.0 and programs; browsers always send one); an IP address (no name can
    take its place); and a name without a dot (localhost, services in Docker and Kubernetes; no site has one).
    """
    name = _without_port(host.strip().lower())
    if not name or ANY in names or name in {accepted.lower() for accepted in names}:
        return True
    if "." not in name and ":" not in name:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if colon and (port.isdecimal() or not port) and (":" not in name or name.endswith("]")):
        return name
    return host
