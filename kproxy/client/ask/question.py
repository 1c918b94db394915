"""One question to a broker: a request, and the function that reads its response."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kproxy.base.errors import UpstreamError, WireError
from kproxy.base.messages.reachability import CLOSED_WITHOUT_ANSWER
from kproxy.client.ask.channel import Channel, NotAResponse
from kproxy.net.tls import faults
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.messages import SHORT, encode_fields, encode_request, read_response
from kproxy.protocol.wire.primitives import Underflow, malformed

T = TypeVar("T")


class UnreadableResponse(WireError):
    """The broker has responded, and its response cannot be read."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A request to a broker, and the function that reads its response.

    It can be asked any number of times. A response that may take long is read in a coroutine, which yields to others.
    `frame` is the whole request, with the API key as its correlation id. Unless the caller has another one, its client
    id is kproxy's.
    """

    key: int
    version: int
    body: bytes
    read: Callable[[bytes], T | Awaitable[T]]
    frame: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not self.frame:
            object.__setattr__(self, "frame", encode_request(self.key, self.version, self.key, self.body))

    def send(self, channel: Channel) -> None:
        """Queue the request; it leaves at the latest when this answer, or an earlier one, is received."""
        channel.send(self.frame)

    async def read_answer(self, channel: Channel) -> T:
        """Receive the response and return the answer.

        Raises UpstreamError with the reason "closed" if the broker closes the connection, UnreadableResponse, and
        another WireError if the received bytes are not a response to this request.
        """
        try:
            frame = await channel.receive()
        except (ConnectionError, EOFError):
            raise UpstreamError(*CLOSED_WITHOUT_ANSWER.with_reason()) from None
        except TimeoutError:
            raise UpstreamError("timeout", "no answer") from None
        except NotAResponse as error:
            raise error.for_request(self.key) from None
        except ssl.SSLError as error:
            # A broker checks the client's certificate after the handshake (RFC 8446 §4.4.2.4).
            raise UpstreamError(*faults.explain_broker_error(error)) from None
        except OSError as error:
            raise UpstreamError("other", error.strerror or str(error)) from None
        if len(frame) < 4 or frame[:4] != self.frame[8:12]:
            raise malformed("the server at this address is not a Kafka broker")
        try:
            answer = self.read(frame[4:])
            return await answer if hasattr(answer, "__await__") else answer  # `isinstance` takes longer
        except (Underflow, struct.error):
            raise UnreadableResponse("malformed", "a response to kproxy ends early") from None
        except WireError as error:
            raise UnreadableResponse(error.reason, str(error)) from None

    async def ask(self, channel: Channel) -> T:
        """Send the request and return the answer; see `read_answer` for what it raises."""
        self.send(channel)
        return await self.read_answer(channel)


def ask_for(
    key: int,
    version: int,
    fields: Mapping[str, Any],
    read: Callable[[dict[str, Any]], T],
    longest: int = SHORT,
) -> Question[T]:
    """Return a question with these fields, and the function that reads the fields of the response.

    `longest`: the most bytes of a response.
    """
    request = encode_fields(f"{APIS[key].name}Request", version, fields)
    return Question(key, version, request, lambda body: read(read_response(key, version, body, longest=longest)))
