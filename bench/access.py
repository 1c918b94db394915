"""Access rules: for how long one request at their limits holds the event loop.

    python -m bench.access [API…]

For each API that rules may refuse, and each array in its requests, it makes requests with as many elements as kproxy
judges, in the oldest and the newest version, and prints the most CPU time between two turns of the loop, in
milliseconds, the slowest API first. Of each request the fastest of a few runs counts, as other programs disturb.
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from kproxy.base.errors import WireError
from kproxy.config.access import AccessRule, AccessRules
from kproxy.protocol.wire.api import APIS, ApiKey
from kproxy.protocol.wire.definitions import Field, load_message, split_fields
from kproxy.protocol.wire.messages import encode_request
from kproxy.proxy.access.apis import CHANGES
from kproxy.proxy.access.authorizer import SessionAuthorizer
from kproxy.proxy.access.autocreate import MOST_TOPICS
from kproxy.proxy.access.names import LONGEST_DECODED
from kproxy.proxy.access.produce import MOST_PARTITIONS
from kproxy.proxy.access.refusals import MOST_ELEMENTS, MOST_NAMED
from kproxy.proxy.access.sessionrules import SessionRules
from kproxy.proxy.relay.calls import Calls, SessionCalls
from kproxy.proxy.relay.conversation import Conversation
from tests.unit.kafka_frames import Counted, local

_RUNS = 3
_FAMILIES = ("topic", "group", "produce", "transaction")
RULES = {
    "read-only": AccessRules(read_only=True),
    "some names": AccessRules(
        rules=tuple(
            AccessRule.parse(text)
            for family in _FAMILIES
            for text in (f"allow {family} dev-* team-* test-?-*", f"deny {family} *")
        )
    ),
}
Path = tuple[str, ...]


def arrays(fields: Sequence[Field], version: int, above: Path = ()) -> Iterator[Path]:
    """Yield the path of each array in a message."""
    for field in split_fields(tuple(fields), version)[0]:
        if field.type.startswith("[]"):
            path = (*above, field.name)
            yield path
            yield from arrays(field.fields, version, path)


def filled(
    fields: Sequence[Field], version: int, path: Path, counts: Sequence[int], names: Iterator[int]
) -> dict[str, Any]:
    """Return the values of a message in which the arrays of a path have so many elements, and all others none."""
    values: dict[str, Any] = {}
    for field in split_fields(tuple(fields), version)[0]:
        if path and field.name == path[0]:
            elements = range(counts[0])
            if field.fields:
                values[field.name] = [filled(field.fields, version, path[1:], counts[1:], names) for _ in elements]
            else:
                values[field.name] = [str(next(names)) if field.type == "[]string" else number for number in elements]
        elif field.type == "string":
            values[field.name] = str(next(names))
        elif field.name == "Acks":
            values[field.name] = -1
        elif field.name == "ResourceType":
            values[field.name] = 2
    return values


def requests(key: int) -> Iterator[bytes]:
    """Yield requests of an API that are as large as kproxy answers them: one with many elements in each array."""
    api = APIS[key]
    for version in sorted({api.oldest, api.newest}):
        try:
            fields = load_message(f"{api.name}Request").fields
        except FileNotFoundError:
            return  # its answer has nothing of the request
        for path in arrays(fields, version):
            for level in range(len(path)):

                def make(elements: int) -> bytes:
                    counts = [elements if level == number else 1 for number in range(len(path))]  # noqa: B023  # called at once
                    return encode_request(key, version, 1, filled(fields, version, path, counts, count(100)))  # noqa: B023  # likewise

                few, more = len(make(1)), len(make(101))
                room = (LONGEST_DECODED - few) * 100 // (more - few) * 9 // 10  # later names have another digit
                if key == ApiKey.METADATA:
                    yield make(MOST_TOPICS)
                elif key == ApiKey.PRODUCE:
                    yield make(MOST_PARTITIONS // (len(path) - level) - 1)
                else:
                    yield from map(make, sorted({min(most, room) for most in (MOST_NAMED, MOST_ELEMENTS, room)}))


def longest_hold(rules: AccessRules, frame: bytes) -> float | None:
    """Return the most CPU seconds between two turns of the loop; None if the request ends the connection."""
    resumed: list[None] = []
    authorizer = SessionAuthorizer(SessionRules(rules), lambda _: None, lambda: resumed.append(None))
    calls = SessionCalls(Calls(lambda *_: Counted()))
    conversation = Conversation(calls, lambda found: [local(each) for each in found.nodes], 1 << 27)
    conversation.authorize(authorizer)
    longest, now = 0.0, 1.0
    try:
        began = time.thread_time()
        conversation.from_client(frame, now)
        longest = time.thread_time() - began
        while resumed:
            resumed.clear()
            now += 1.0
            began = time.thread_time()
            conversation.release(now)
            longest = max(longest, time.thread_time() - began)
    except WireError:
        return None
    return longest


def main() -> None:
    names = sys.argv[1:]
    for title, rules in RULES.items():
        slowest: list[tuple[float, str, int]] = []
        for key in sorted({*CHANGES, ApiKey.METADATA}):
            if names and APIS[key].name not in names:
                continue
            times = []
            for frame in requests(key):
                holds = [longest_hold(rules, frame) for _ in range(_RUNS)]
                times += [(min(hold for hold in holds if hold is not None), len(frame))] if None not in holds else []
            if times:
                slowest.append((max(times)[0], APIS[key].name, max(times)[1]))
        print(f"{title}:")
        for seconds, name, size in sorted(slowest, reverse=True)[:12]:
            print(f"  {name:30} {size:9,} bytes {seconds * 1000:6.1f} ms")


if __name__ == "__main__":
    main()
