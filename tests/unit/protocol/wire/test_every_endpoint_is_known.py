"""Fails as soon as a definition at hand names a host and a port that `rewrite.endpoints` does not cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kproxy.protocol.rewrite.endpoints import TABLE, rule_for
from kproxy.protocol.wire import definitions
from kproxy.protocol.wire.api import APIS
from kproxy.protocol.wire.definitions import Field, MessageDefinition

# Hosts and ports that no client connects to: (API key, field): why they stay as they are.
DISPLAY_ONLY = {
    (55, "Nodes"): "DescribeQuorum v2: controllers' listeners, printed by kafka-metadata-quorum",
    (88, "PartitionsByUserEndpoint"): "StreamsGroupHeartbeat: applications' own servers, not brokers",
    (89, "Groups"): "StreamsGroupDescribe: applications' own servers, not brokers",
}
# Of an API with a rule, versions which carry endpoints and which no client is offered: why.
NOT_OFFERED = {
    (78, 0): "ShareFetch v0 was early access (Kafka 4.0)",
    (79, 0): "ShareAcknowledge v0 was early access (Kafka 4.0)",
}
# As Kafka's definitions call the two: UpdateMetadata has V0Host, LeaderAndIsr HostName.
HOSTS = ("Host", "HostName", "V0Host")
PORTS = ("Port", "V0Port")


def carries(fields: Iterable[Field], version: int) -> bool:
    """Whether a struct has a host and a port side by side, at any depth."""
    here = [field for field in fields if version in field.versions]
    names = {field.name for field in here}
    if names.intersection(HOSTS) and names.intersection(PORTS):
        return True
    return any(carries(field.fields, version) for field in here)


def uncovered(message: MessageDefinition) -> Iterator[tuple[str, int, str]]:
    """The endpoints of a response that are neither rewritten, nor display only, nor kept from clients."""
    oldest = 0  # "validVersions" leaves out what a broker of today has dropped; an older one may still send it
    for version in range(oldest, message.versions.stop):
        rule = rule_for(message.api_key, version)
        top = [field for field in message.fields if version in field.versions]
        names = {field.name for field in top}
        places = [field.name for field in top if carries(field.fields, version)]
        if names.intersection(HOSTS) and names.intersection(PORTS):
            places.append("")
        for place in places:
            covered = rule is not None and (rule.field or "") == place
            if (
                not covered
                and (message.api_key, place) not in DISPLAY_ONLY
                and (message.api_key, version) not in NOT_OFFERED
            ):
                yield message.name, version, place


RESPONSES = list(definitions.load_responses())


@pytest.mark.parametrize("message", RESPONSES, ids=lambda message: message.name)
def test_every_endpoint_has_a_rule(message: MessageDefinition) -> None:
    assert list(uncovered(message)) == [], "a response carries addresses that rewrite.endpoints.TABLE does not know"


@pytest.mark.parametrize("message", RESPONSES, ids=lambda message: message.name)
def test_no_version_is_newer_than_the_table_of_apis(message: MessageDefinition) -> None:
    """A newer one is capped, so nothing leaks; but it is time to look at it, and to let clients have it."""
    if message.api_key in APIS:
        assert message.versions.stop - 1 <= APIS[message.api_key].newest, f"raise {message.name} in wire.api"


def test_every_rule_covers_all_that_clients_may_use() -> None:
    for rule in TABLE:
        offered = APIS[rule.api_key]
        assert offered.serves(rule.versions[0])
        assert offered.serves(rule.versions[-1])
        newest = max(r.versions[-1] for r in TABLE if r.api_key == rule.api_key)
        assert newest == offered.newest, f"{offered.name} v{offered.newest} has no rule"
    for key, version in NOT_OFFERED:
        assert not APIS[key].serves(version)


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: f"{APIS[rule.api_key].name}-{rule.field}")
def test_every_rule_is_needed(rule: object) -> None:
    """Without it, its versions would be found: the search above can find something."""
    missing = next(r for r in TABLE if r is rule)
    message = definitions.load_message(f"{APIS[missing.api_key].name}Response")
    for version in missing.versions:
        fields = [f for f in message.fields if version in f.versions]
        assert carries(fields, version)


def test_a_newer_message_with_an_endpoint_would_be_found() -> None:
    def field(name: str, kind: str, *fields: Field) -> Field:
        return Field(name, kind, range(20, 99), range(0), None, range(0), fields)

    nested = field("New", "[]Thing", field("Deep", "Deeper", field("Host", "string"), field("Port", "uint16")))
    grown = MessageDefinition("MetadataResponse", 3, range(0, 21), range(9, 99), (nested,))
    assert list(uncovered(grown)) == [("MetadataResponse", 20, "New")]
    flat = MessageDefinition(
        "NewResponse", 99, range(20, 21), range(0), (field("Host", "string"), field("Port", "int32"))
    )
    assert list(uncovered(flat)) == [("NewResponse", 20, "")]
