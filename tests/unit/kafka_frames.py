"""Frames for tests, and a conversation to say them in.

Messages are plain dicts by the field names of Kafka's definitions; a struct's unknown tagged fields stand under
`UNKNOWN` as `{tag: bytes}`. They are written here from the definitions and read back by kafka-python's own classes.
"""

from __future__ import annotations

import json
import re
import struct
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from kproxy.base.address import Address
from kproxy.protocol.rewrite import endpoints
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import Field, MessageDefinition
from kproxy.protocol.wire.primitives import uvarint
from kproxy.proxy.relay.calls import Call, Calls
from kproxy.proxy.relay.conversation import Conversation

with warnings.catch_warnings():
    # kafka-python reads its definitions by a function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer
    from kafka.protocol.api_message import ApiMessage

MAX_REQUEST = 100 * 1024 * 1024
UNKNOWN = "unknown tagged fields"
# Every host that a broker names in these tests has one of these in it, and nothing else has.
UPSTREAM_MARKS = (b"up.", b"fd00:dead")
# Every API and version whose responses carry endpoints.
CARRIERS = [(rule.api_key, version) for rule in endpoints.TABLE for version in rule.versions]
STREAMED = [(rule.api_key, version) for rule in endpoints.TABLE if rule.last for version in rule.versions]

_PACK = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}


def name_of(call: object) -> str:
    """A test's name for an API and version."""
    return f"{APIS[call[0]].name}-v{call[1]}" if isinstance(call, tuple) else str(call)


# Frames


def frame(*parts: bytes) -> bytes:
    """A size field and what it counts."""
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def string(text: str | None) -> bytes:
    """A nullable string of int16 length."""
    raw = (text or "").encode()
    return struct.pack(">h", -1 if text is None else len(raw)) + raw


def request(
    key: int,
    version: int,
    correlation_id: int = 7,
    body: bytes = b"",
    client_id: str | None = "me",
    tags: bytes = b"\x00",
) -> bytes:
    """A request with the header that its version has."""
    flexible = key in APIS and version >= APIS[key].flexible
    header = struct.pack(">hhi", key, version, correlation_id) + string(client_id)
    return frame(header, tags if flexible else b"", body)


def response(key: int, version: int, body: bytes, correlation_id: int = 7, tags: bytes = b"\x00") -> bytes:
    """A response with the header that its version has."""
    flexible = version >= APIS[key].flexible and key != ApiKey.API_VERSIONS
    return frame(struct.pack(">i", correlation_id), tags if flexible else b"", body)


def chunks(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The data in pieces of these sizes, over and over."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        yield data[at : at + size]
        at += size
        turn += 1


# Sizes for `chunks`: all at once, byte by byte, anything between.
CHUNKINGS = st.just([1 << 30]) | st.just([1]) | st.lists(st.integers(1, 50), min_size=1, max_size=6)


class Counted:
    """Counters that nobody reads."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, seconds: float, times: int = 1) -> None:
        assert seconds >= 0
        assert times >= 1


def waiting(conversation: Conversation) -> list[tuple[int, Call | None]]:
    """The requests without a response, in order: correlation id and call, no call for an answer of kproxy's own."""
    return [
        (one, None if run.call.is_local else run.call)
        for run in conversation._in_flight.runs
        for one in range(run.first, run.end_id)
    ]


class Talk:
    """A conversation between a client and a broker; each side's words are what kproxy passes on."""

    def __init__(
        self, localise: Callable[[Endpoints], Sequence[Address]] | None = None, max_request: int = MAX_REQUEST
    ) -> None:
        self.seen: list[Endpoints] = []
        self.rewritten: list[tuple[str, int]] = []
        self.calls = Calls(lambda code, name, version: Counted())
        self._localise = localise or (lambda found: [local(endpoint) for endpoint in found.nodes])
        self.turns = 0  # how often the conversation had more to do than may be done in one go
        self.conversation = Conversation(
            self.calls, self._note, max_request, lambda name, count: self.rewritten.append((name, count))
        )
        self.conversation.set_on_busy(self._be_busy)

    def _be_busy(self) -> None:
        self.turns += 1

    def _note(self, found: Endpoints) -> Sequence[Address]:
        self.seen.append(found)
        return self._localise(found)

    def client(self, *pieces: bytes) -> bytes:
        """What the broker gets of what the client says."""
        return b"".join(bytes(self.conversation.from_client(piece, 1.0)) for piece in pieces)

    def broker(self, *pieces: bytes) -> bytes:
        """What the client gets of what the broker says."""
        return b"".join(said for piece in pieces for said in self._from_broker(piece))

    def _from_broker(self, piece: bytes) -> Iterator[bytes]:
        turns = -1
        while turns != self.turns:
            turns = self.turns
            yield bytes(self.conversation.from_upstream(piece, 2.0))
            piece = b""

    def kproxy(self) -> bytes:
        """What the client gets of kproxy itself."""
        return bytes(self.conversation.take_answers())

    @property
    def held(self) -> int:
        """Bytes that the conversation keeps."""
        return self.conversation.buffered


def asked(key: int, version: int, localise: Callable[[Endpoints], Sequence[Address]] | None = None) -> Talk:
    """A conversation in which one request of this API and version waits for its response."""
    talk = Talk(localise)
    # Produce: no transactional id, acks -1
    body = (b"\x00" if version >= 9 else b"\xff\xff") + b"\xff\xff" if key == ApiKey.PRODUCE else b""
    said = request(key, version, body=body)
    assert talk.client(said) == said
    return talk


def identity(found: Endpoints) -> list[Address]:
    """Everything stays where it is."""
    return [endpoint.advertised for endpoint in found.nodes]


def local(endpoint: Endpoint, host: str = "127.0.0.1") -> Address:
    """The local address that these tests give to an endpoint."""
    return Address(host, 20000 + endpoint.node_id % 1000)


# Messages


def encode(message: MessageDefinition, version: int, values: dict[str, Any]) -> bytes:
    """A message's body."""
    return _encode_struct(message.fields, values, version, version in message.flexible)


def _encode_struct(fields: Iterable[Field], values: dict[str, Any], version: int, flexible: bool) -> bytes:
    plain, tagged = _split(fields, version)
    out = b"".join(_encode(field, values[field.name], version, flexible) for field in plain)
    if not flexible:
        return out
    tags = {field.tag: _encode(field, values[field.name], version, True) for field in tagged if field.name in values}
    tags |= values.get(UNKNOWN, {})
    return out + tag_section(tags)


def tag_section(tags: dict[Any, bytes]) -> bytes:
    """Tagged fields, in the order of their numbers."""
    return uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(tags[tag])) + tags[tag] for tag in sorted(tags))


def _split(fields: Iterable[Field], version: int) -> tuple[list[Field], list[Field]]:
    here = [field for field in fields if version in field.versions]
    tagged = [field for field in here if field.tag is not None and version in field.tagged]
    return [field for field in here if field not in tagged], tagged


def _encode(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    element = field.type.removeprefix("[]")
    if element != field.type:
        count = -1 if value is None else len(value)
        one = Field("", element, field.versions, range(0), None, range(0), field.fields)
        head = uvarint(count + 1) if flexible else struct.pack(">i", count)
        return head + b"".join(_encode(one, each, version, flexible) for each in value or ())
    if field.fields:
        maybe = version in field.nullable
        if value is None:
            return b"\xff"
        return (b"\x01" if maybe else b"") + _encode_struct(field.fields, value, version, flexible)
    if element == "uuid":
        return bytes(value)
    if element in _PACK:
        return struct.pack(">" + _PACK[element], value)
    raw = value.encode() if isinstance(value, str) else value
    length = -1 if raw is None else len(raw)
    width = "h" if element == "string" else "i"
    return (uvarint(length + 1) if flexible else struct.pack(f">{width}", length)) + (raw or b"")


def localised(values: Any, to: Callable[[Endpoint], Address] = local) -> Any:
    """The message as it ought to reach the client."""
    if isinstance(values, list):
        return [localised(value, to) for value in values]
    if not isinstance(values, dict):
        return values
    new = {name: localised(value, to) for name, value in values.items()}
    if values.get("Host"):
        node_id = values["NodeId"] if "NodeId" in values else values["BrokerId"]
        address = to(Endpoint(endpoints.NodeKind.BROKER, node_id, Address(values["Host"], values["Port"])))
        new["Host"], new["Port"] = address.host, address.port
    return new


# Random messages

_HOSTS = st.builds("up.{}".format, st.text("ab-.é東", max_size=8)) | st.sampled_from(
    ["fd00:dead::1", "up.münchen.東京"]
)
_TEXT = st.text("abc é東", max_size=6)
_BLOBS = st.sampled_from([b"", b"\x00", b"\x05hello", b"\xff" * 11, bytes(range(130, 255)), bytes(140)])
# Kafka's own end at 3; some of the others take two bytes, or are the highest that there can be.
_UNKNOWN = st.dictionaries(st.sampled_from([9, 63, 127, 128, 300, 0xFFFFFFFF]), _BLOBS, max_size=2)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.sampled_from([1, 2]),
    "int16": st.sampled_from([0, 6, -1]),
    "int32": st.sampled_from([0, 1, -1, 2147483647]),
    "int64": st.sampled_from([0, -1, 1 << 62]),
    "uint16": st.sampled_from([0, 9092]),
    "float64": st.sampled_from([0.0, -1.5]),
    "uuid": st.sampled_from([bytes(16), bytes(range(16))]),
    "bytes": _BLOBS,
    "records": _BLOBS,
}


@cache
def messages(name: str, version: int, *, deep: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Random messages of the definition `name`, with nulls and unknown tagged fields anywhere.

    Not `deep`: no unknown ones inside known tagged fields, where kafka-python refuses them.
    """
    message = definitions.load_message(name)
    return _structs(message.fields, version, version in message.flexible, deep)


def _structs(fields: Iterable[Field], version: int, unknown: bool, deep: bool) -> st.SearchStrategy[dict[str, Any]]:
    plain, tagged = _split(fields, version)
    needed = {field.name: _values(field, version, unknown, deep) for field in plain}
    optional = {field.name: _values(field, version, unknown and deep, deep) for field in tagged}
    if unknown:
        optional[UNKNOWN] = _UNKNOWN
    return st.fixed_dictionaries(needed, optional=optional)


def _values(field: Field, version: int, unknown: bool, deep: bool) -> st.SearchStrategy[Any]:
    element = field.type.removeprefix("[]")
    if field.fields:
        one: st.SearchStrategy[Any] = _structs(field.fields, version, unknown, deep)
    elif field.name == "Host":
        one = _HOSTS | st.just("")  # no address, as FindCoordinator's errors have it
    elif field.name == "Port":
        one = st.integers(1, 65535)
    elif field.name in ("NodeId", "BrokerId"):
        one = st.integers(0, 0x7FFFFFFF)
    else:
        one = _SCALARS.get(element, _TEXT)
    many = st.lists(one, max_size=3) if element != field.type else one
    return st.none() | many if version in field.nullable else many


# kafka-python as a reader


def _own_class(name: str) -> Any:
    """kafka-python's reader over one of the project's own definitions."""
    path = definitions._OWN / f"{name}.json"
    own = json.loads("\n".join(line for line in path.read_text().splitlines() if not line.startswith("//")))
    # A class loads the definition that its name says, and takes a patch to it.
    patch = classmethod(lambda cls, loaded: own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return types.new_class("FetchResponse", (ApiMessage,), {}, lambda body: body.update(json_patch=patch))


READERS: dict[int, Any] = {
    ApiKey.PRODUCE: producer.ProduceResponse,
    ApiKey.FETCH: consumer.FetchResponse,
    ApiKey.METADATA: metadata.MetadataResponse,
    ApiKey.FIND_COORDINATOR: metadata.FindCoordinatorResponse,
    ApiKey.API_VERSIONS: metadata.ApiVersionsResponse,
    ApiKey.DESCRIBE_CLUSTER: admin.DescribeClusterResponse,
    ApiKey.SHARE_FETCH: _own_class("ShareFetchResponse"),
    ApiKey.SHARE_ACKNOWLEDGE: _own_class("ShareAcknowledgeResponse"),
}


def read(key: int, version: int, data: bytes) -> dict[str, Any]:
    """What a client on kafka-python reads in a response, by kafka-python's names."""
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - 4, "the frame's size is wrong"
    message = READERS[key].decode(data, version=version, header=True, framed=True)
    return dict(message.to_dict(json=False))


def as_read(values: Any) -> Any:
    """The message as `read` gives it, apart from fields that were left out."""
    if isinstance(values, list):
        return [as_read(value) for value in values]
    if isinstance(values, dict):
        return {re.sub(r"(?<!^)(?=[A-Z])", "_", k).lower(): as_read(v) for k, v in values.items() if k != UNKNOWN}
    return values
