"""Questions of `kproxy doctor` only: the features of a cluster, a group's coordinator, the mechanisms of a listener.

All are read-only. None makes a broker create something, provided that a coordinator is asked for only where the topic
of the groups exists.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.client.ask.questions import Question, Versions
from kproxy.protocol.wire import api
from kproxy.protocol.wire.primitives import string
from kproxy.protocol.wire.reader import ResponseReader

GROUPS_TOPIC = "__consumer_offsets"

_UNSUPPORTED_MECHANISM = 33
_MAX_MECHANISMS = 20
_FINALIZED = 2  # the tag of the finalized features in ApiVersions v3
# A mechanism that no broker has: the response lists those that it has, and no login is made.
_UNUSED_MECHANISM = "KPROXY-ASKS"


def features_question(versions: Versions) -> Question[Mapping[str, int]] | None:
    """Return the question for the finalized features of the cluster, name to level (KIP-584).

    Return None before Kafka 2.4.
    """
    if 3 not in versions.get(api.API_VERSIONS, ()):
        return None
    # v3: the client's software name and version, tags
    body = string(b"kproxy", compact=True) + string(b"doctor", compact=True) + b"\0"
    return Question(api.API_VERSIONS, 3, body, _read_features)


def _read_features(body: bytes) -> Mapping[str, int]:
    """Decode an ApiVersions response, v3, whose header has no tags.

    Layout: error, ranges[key, lowest, highest, tags], throttle time, tags.
    """
    reader = ResponseReader(body, compact=True)
    reader.int16()

    def versions() -> None:
        reader.int16(), reader.int16(), reader.int16()
        reader.tags()

    def feature() -> tuple[str, int]:
        name, highest = reader.text(), reader.int16()
        reader.int16()
        reader.tags()
        return name, highest

    reader.array(versions)
    reader.int32()
    levels: Mapping[str, int] = {}
    for tag, value in reader.tagged():
        if tag == _FINALIZED:
            reader = ResponseReader(value, compact=True)
            levels = dict(reader.array(feature))
    return levels


def coordinator_question(versions: Versions, group: str) -> Question[tuple[int, int]] | None:
    """Return the question for the group's coordinator: the answer is Kafka's error code, and the node id.

    Ask only where GROUPS_TOPIC exists: a broker would create it.
    """
    if 0 not in versions.get(api.FIND_COORDINATOR, ()):
        return None
    return Question(api.FIND_COORDINATOR, 0, string(group.encode(), compact=False), _read_coordinator)


def _read_coordinator(body: bytes) -> tuple[int, int]:
    """Decode a FindCoordinator response, v0: error, node id, host, port."""
    reader = ResponseReader(body)
    return reader.int16(), reader.int32()


def mechanisms_question(versions: Versions) -> Question[tuple[str, ...] | None] | None:
    """Return the question for the SASL mechanisms that this listener has enabled, None if it has no SASL.

    This makes no login; the broker closes the connection afterwards.
    """
    if not versions.get(api.SASL_HANDSHAKE):
        return None
    version = min(1, versions[api.SASL_HANDSHAKE][-1])
    return Question(api.SASL_HANDSHAKE, version, string(_UNUSED_MECHANISM.encode(), compact=False), _read_mechanisms)


def _read_mechanisms(body: bytes) -> tuple[str, ...] | None:
    """Decode a SaslHandshake response, v0 or v1: error, mechanisms[]."""
    reader = ResponseReader(body)
    if reader.int16() != _UNSUPPORTED_MECHANISM:
        return None
    return tuple(reader.text() for _ in range(min(reader.count(), _MAX_MECHANISMS)))
