"""Sessions of random messages through a Conversation, and Kafka's verdict on what comes out.

A session's requests and responses are two streams of bytes that are cut into random chunks; responses follow
their requests at any distance, as with a client that pipelines.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pytest

from kproxy.base.address import Address
from kproxy.protocol.rewrite import response as rewrite_response
from kproxy.protocol.rewrite.endpoints import Endpoint, Endpoints, rule_for
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import plan_for
from kproxy.protocol.wire.api import ApiKey
from kproxy.proxy.relay.calls import Calls
from kproxy.proxy.relay.conversation import Conversation
from tests.oracle.oracle_jvm import Oracle, Result, Wanted

MAX_REQUEST = 100 * 1024 * 1024
# A frame's size and its correlation id: what kproxy needs of a response before it goes on.
RESPONSE_HEAD = 8

Localise = Callable[[Endpoint], Address]


class Count:
    """The counters of one call."""

    def __init__(self) -> None:
        self.count = 0
        self.answered = 0

    def add(self, seconds: float, times: int = 1) -> None:
        self.answered += times


@dataclass(slots=True)
class Exchange:
    """One request and its response, before and (`result`) after kproxy."""

    wanted: Wanted
    request: bytes
    response: bytes
    result: bytes = b""
    streamed: bool = False
    replaced: list[tuple[Endpoint, Address]] = field(default_factory=list)

    def as_result(self) -> Result:
        how = "v" if self.wanted.key == ApiKey.API_VERSIONS else "s" if self.streamed else "h"
        return Result(self.wanted.key, self.wanted.version, how, self.response, self.result, self.replaced)


def short(endpoint: Endpoint) -> Address:
    """A local address that is never longer than what it replaces."""
    return Address("l", 1024 + endpoint.node_id % 60_000)


def long(endpoint: Endpoint) -> Address:
    """A local address that is always longer than what it replaces, with letters of two bytes."""
    return Address("lökal-ü." * (1 + len(endpoint.advertised.host.encode()) // 8), 1024 + endpoint.node_id % 60_000)


def usual(endpoint: Endpoint) -> Address:
    return Address("127.0.0.1", 19092 + endpoint.node_id % 1000)


def similar(rng: random.Random) -> Localise:
    """Local addresses about as long as what they replace: on both sides of "it fits"."""

    def localise(endpoint: Endpoint) -> Address:
        length = len(endpoint.advertised.host.encode()) + rng.choice((-2, -1, 0, 0, 1))
        return Address("x" * max(1, length), rng.randrange(1, 65536))

    return localise


def _places(one: Exchange) -> list[Endpoint]:
    """The endpoint at each place of a response that names one. Kafka's classes judge whether these are all."""
    plan = plan_for(one.wanted.key, one.wanted.version)
    assert plan is not None
    walk = Walk(plan)
    walk.advance_all(one.response, 8, len(one.response))
    return [walk.endpoints[index] for index, _, _ in walk.locations]


def through_kproxy(
    oracle: Oracle, wanted: Sequence[Wanted], rng: random.Random, localise: Localise, most: int = 1 << 20
) -> list[Exchange]:
    """One session with these messages, in chunks of up to twice `most` bytes.

    Asserts what does not need Kafka's classes to be judged.
    """
    made = zip(wanted, oracle.generate(wanted), strict=True)
    exchanges = [Exchange(one, request, response) for one, (request, response) in made]
    answered = [one for one in exchanges if one.response]
    counted: dict[int, Count] = {}
    told: Counter[str] = Counter()

    def counters(code: int, _api: str, _version: int) -> Count:
        return counted.setdefault(code, Count())

    def bind(found: Endpoints) -> list[Address]:
        assert found.nodes, "localise was called for nothing"
        local = [localise(node) for node in found.nodes]
        # A response's time is counted when it begins, so this is the one that kproxy is at.
        one = answered[sum(count.answered for count in counted.values()) - 1]
        assert not one.replaced, "localise was called twice for a response"
        instead = dict(zip(found.nodes, local, strict=True))
        assert len(instead) == len(found.nodes), "an endpoint was looked up twice for a response"
        one.replaced = [(endpoint, instead[endpoint]) for endpoint in _places(one)]
        rule = rule_for(one.wanted.key, one.wanted.version)
        assert rule is not None
        assert found.complete == rule.complete
        return local

    def on_rewritten(api: str, endpoints: int) -> None:
        told[api] += endpoints

    conversation = Conversation(Calls(counters), bind, MAX_REQUEST, on_rewritten)
    turns: list[None] = []
    conversation.set_on_busy(lambda: turns.append(None))
    requests = b"".join(one.request for one in exchanges)
    responses = b"".join(one.response for one in answered)
    # How far each answered request's bytes reach, and each response's.
    request_ends = [
        end for one, end in zip(exchanges, accumulate(len(e.request) for e in exchanges), strict=True) if one.response
    ]
    response_ends = list(accumulate(len(one.response) for one in answered))
    sent = got = 0
    cuts = [0]

    to_broker: list[bytes] = []
    to_client: list[bytes] = []
    chunk_size = chunk_sizes(rng, len(requests) + len(responses), most)
    eager = rng.random()  # how much the client runs ahead of the broker
    while sent < len(requests) or got < len(responses):
        ready = bisect_left(request_ends, sent + 1)  # requests that are whole with the broker
        may_answer = response_ends[ready - 1] if ready else 0
        if sent < len(requests) and (got >= may_answer or rng.random() < eager):
            end = min(len(requests), sent + chunk_size())
            chunk, sent = requests[sent:end], end
            to_broker.append(bytes(conversation.from_client(chunk, 0.0)))
        else:
            end = min(may_answer, got + chunk_size())
            chunk, got = responses[got:end], end
            cuts.append(end)
            to_client.append(bytes(conversation.from_upstream(chunk, 1.0)))
            while turns:
                turns.clear()
                to_client.append(bytes(conversation.from_upstream(b"", 1.0)))
    assert b"".join(to_broker) == requests, "requests changed"
    assert conversation.take_answers() == b""
    assert conversation.is_idle, "something is left over at the end of the session"
    _share_out(answered, b"".join(to_client), response_ends, cuts)
    expected_counts = Counter(one.wanted.key << 16 | one.wanted.version for one in exchanges)
    assert {code: count.count for code, count in counted.items()} == expected_counts
    assert sum(count.answered for count in counted.values()) == len(answered)
    assert sum(told.values()) == sum(len(one.replaced) for one in answered)
    return exchanges


def _share_out(answered: Sequence[Exchange], results: bytes, response_ends: Sequence[int], cuts: Sequence[int]) -> None:
    """Give each exchange its result, and say whether its frame streamed: not if it is small or came in one chunk."""
    at = start = 0
    for one, end in zip(answered, response_ends, strict=True):
        size = 4 + int.from_bytes(results[at : at + 4])
        one.result = results[at : at + size]
        at += size
        rule = rule_for(one.wanted.key, one.wanted.version)
        if rule is not None and rule.last and len(one.response) - 4 > rewrite_response.HOLD_WHOLE:
            here = cuts[bisect_left(cuts, start + RESPONSE_HEAD)]  # what has come when the head is complete
            one.streamed = here < end
        start = end
    assert at == len(results), "kproxy sent more or less than whole responses"


def chunk_sizes(rng: random.Random, total: int, most: int) -> Callable[[], int]:
    """Sizes of chunks for a session of `total` bytes: byte by byte if it is small, seldom more than 6,000."""
    allowed = [size for size in (1, 7, 60, 500, 4_000, 65_536, 1 << 20) if total / size < 6_000 and size <= most]
    mean = rng.choice(allowed or [most])
    return lambda: 1 if mean == 1 else rng.randrange(1, 2 * mean)


class Tally:
    """What was judged, for the report at the end of the run."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.calls: set[tuple[int, int]] = set()
        self.requests = 0

    def add(self, exchanges: Sequence[Exchange], verdicts: Sequence[str]) -> None:
        self.requests += len(exchanges)
        self.calls.update((one.wanted.key, one.wanted.version) for one in exchanges)
        self.verdicts.update(verdicts)


def judge(oracle: Oracle, exchanges: Sequence[Exchange], tally: Tally) -> Counter[str]:
    """Kafka's verdicts on a session's responses, counted. Fails with the first message that is wrong.

    A response that nothing had to be done to must be byte-identical; `how` it went is part of the verdict.
    """
    rewritten = [
        one for one in exchanges if one.response and (rule_for(*_call(one)) or one.wanted.key == ApiKey.API_VERSIONS)
    ]
    untouched = [one for one in exchanges if one.response and one not in rewritten]
    for one in untouched:
        if one.result != one.response:
            pytest.fail(f"{one.wanted}: the response changed")
    good = {"replaced", "emptied", "capped"}
    verdicts = []
    for one, verdict in zip(rewritten, oracle.verdicts([one.as_result() for one in rewritten]), strict=True):
        if verdict not in good:
            frame = one.response.hex() if len(one.response) < 2000 else f"{len(one.response)} bytes"
            pytest.fail(f"{one.wanted}, {'streamed' if one.streamed else 'held'}: {verdict}\nthe response was {frame}")
        verdicts.append(f"{'streamed' if one.streamed else 'held'}: {verdict}" if rule_for(*_call(one)) else verdict)
    tally.add(exchanges, [*verdicts, *("untouched" for _ in untouched)])
    return Counter(verdicts)


def _call(one: Exchange) -> tuple[int, int]:
    return one.wanted.key, one.wanted.version
