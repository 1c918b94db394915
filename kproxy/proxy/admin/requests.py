"""One request and the reply to it, as pages see them. Pure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

MAX_QUERY_FIELDS = 64
"""Of one request; no page knows more than a few."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: names of `headers` are in lower case.

    `body` is the JSON value that came with it, None where the route takes none. It may be a secret, as headers may, so
    neither is in the text of this object. `peer` is the IP address of who asks, "" where there is none. `withheld` says
    to whom alone the page may tell what names brokers, if that is not this one: "only with the token".
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: object = field(default=None, repr=False)
    peer: str = ""
    withheld: str = ""

    @classmethod
    def from_target(cls, method: str, target: str, headers: Mapping[str, str], peer: str = "") -> Request:
        """From the target of the request line. Raises ValueError if its query has too many fields."""
        path, _, query = target.partition("?")
        fields = parse_qs(query, max_num_fields=MAX_QUERY_FIELDS) if query else {}
        return cls(method, path, fields, headers, peer=peer)

    @property
    def host(self) -> str:
        return self.headers.get("host", "")

    @property
    def has_body(self) -> bool:
        """Whether one was announced (RFC 9112 §6.3)."""
        return "transfer-encoding" in self.headers or self.content_length > 0

    @property
    def content_length(self) -> int:
        """As it was announced; 0 where nothing was. The HTTP parser has judged that it is a number."""
        return int(self.headers.get("content-length", "0"))


@dataclass(frozen=True, slots=True)
class Reply:
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None
    """What follows the body, until it ends or the peer is gone."""


class RequestRefused(Exception):
    """The request ends with this reply: no page is asked."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__(reply.status.phrase)


def text_reply(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply of one line of text."""
    return Reply(status, f"{text}\n".encode(), headers=headers or {})
