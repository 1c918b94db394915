"""Which clients and brokers are too old for each other (KIP-896)."""

from __future__ import annotations

import pytest

from kproxy.base.faults import Fault
from kproxy.inspect.doctor.client_versions import ClientVersion, version_conflict
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import ClientIntent
from kproxy.protocol.wire.api import ApiKey
from tests.unit.inspect.doctor.examined import examination, good

# What Kafka 4.1, 3.9, 2.1 and 2.0 serve of Fetch.
NEW, USUAL, BASE, OLD = ({ApiKey.FETCH: versions} for versions in (range(4, 19), range(18), range(11), range(9)))


@pytest.mark.parametrize(
    ("client", "versions", "fault"),
    [
        ("java:2.0.1", NEW, Fault.CLIENT_TOO_OLD),
        ("java:2.1.0", NEW, None),
        ("java:4.1", NEW, None),
        ("java:4.0.0", OLD, Fault.BROKER_TOO_OLD),
        ("java:4.0.0", BASE, None),
        ("java:3.9.1", OLD, None),
        ("java:0.10", USUAL, None),
        ("librdkafka:1.6.1", NEW, Fault.CLIENT_TOO_OLD),
        ("librdkafka:v2.3.0", NEW, None),
        ("kafka-python:1.4.7", NEW, Fault.CLIENT_TOO_OLD),
        ("sarama:1.45.0-rc1", NEW, None),
        ("java:1.0", {}, None),
        ("java:1.0", {ApiKey.FETCH: range(0)}, None),
    ],
)
def test_clients_and_brokers(client: str, versions: dict[int, range], fault: Fault | None) -> None:
    found = version_conflict(ClientVersion.parse(client), versions)
    assert (found and found[0]) == fault


@pytest.mark.parametrize("text", ["", "java", "java:", "perl:1.0", "java:x", "java:1..2", "java:" + "9" * 5000])
def test_what_is_no_client(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: NAME:VERSION"):
        ClientVersion.parse(text)


def test_it_is_a_problem_for_the_client_in_use_and_else_a_note() -> None:
    server = good("kafka.example:9092", 1, versions=NEW)
    node = good("kafka-1.example:9092", 1, 1)
    (note,) = diagnose(examination(node, bootstrap=(server,)))
    assert (note.fault, note.is_error) == (Fault.CLIENT_TOO_OLD, False)
    old, new = (ClientIntent(client=ClientVersion.parse(client)) for client in ("java:1.1", "java:3.0"))
    (problem,) = diagnose(examination(node, bootstrap=(server,), intent=old))
    assert (problem.fault, problem.is_error) == (Fault.CLIENT_TOO_OLD, True)
    assert diagnose(examination(node, bootstrap=(server,), intent=new)) == []
