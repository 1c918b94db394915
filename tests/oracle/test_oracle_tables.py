"""kproxy's tables and definitions against Kafka's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kproxy.protocol.wire.definitions as definitions_module
from kproxy.protocol.rewrite.endpoints import TABLE, rule_for
from kproxy.protocol.wire.api import APIS, NEVER, NOT_FOR_CLIENTS, ApiKey
from kproxy.protocol.wire.definitions import Field, load_message, read_definition
from kproxy.proxy.relay.errorcode import WITHOUT_DEFINITION
from tests.oracle.oracle_jvm import Oracle

pytestmark = pytest.mark.integration

OWN = sorted(Path(definitions_module.__file__).with_name("definitions").glob("*.json"))

# APIs of Kafka's that kproxy does not pass on at all.
LEFT_OUT = {
    4: "LeaderAndIsr: between brokers, of the ZooKeeper age",
    5: "StopReplica: the same",
    6: "UpdateMetadata: the same",
    7: "ControlledShutdown: the same",
    82: "UpdateRaftVoter: between controllers, its answer names the leader's address",
}
# Versions of Kafka's that kproxy does not pass on: (first left out, why).
ENDS_BEFORE = {
    52: (1, "Vote: between controllers, addresses from version 1 on (KIP-853)"),
    53: (1, "BeginQuorumEpoch: the same"),
    54: (1, "EndQuorumEpoch: the same"),
    59: (1, "FetchSnapshot: the same"),
}
# Responses with a host and a port that are not rewritten: (API, path) and why.
NOT_REWRITTEN = {
    ("DescribeQuorum", "nodes.listeners"): "controllers' listeners, for people to read",
    ("StreamsGroupHeartbeat", "partitions_by_user_endpoint.user_endpoint"): "of the applications, not of brokers",
    ("StreamsGroupDescribe", "groups.members.user_endpoint"): "of the applications, not of brokers",
}
# Fields that sound like an address without being host and port of a node.
HARMLESS = {
    ("DescribeAcls", "resources.acls.host"): "of an access rule",
    ("DeleteAcls", "filter_results.matching_acls.host"): "of an access rule",
    ("DescribeGroups", "groups.members.client_host"): "a client's, as the broker sees it",
    ("ConsumerGroupDescribe", "groups.members.client_host"): "the same",
    ("ShareGroupDescribe", "groups.members.client_host"): "the same",
    ("StreamsGroupDescribe", "groups.members.client_host"): "the same",
    ("StreamsGroupHeartbeat", "endpoint_information_epoch"): "a number",
    ("StreamsGroupHeartbeat", "partitions_by_user_endpoint"): "of the applications",
    ("DescribeCluster", "endpoint_type"): "says whether brokers or controllers are listed",
}

SOUNDING = {"host", "hosts", "address", "addresses", "endpoint", "endpoints", "listener", "listeners", "url", "uri"}


@pytest.fixture(scope="module")
def kafka(oracle: Oracle) -> dict[int, dict[str, Any]]:
    return {api["key"]: api for api in oracle.apis()}


def _served(kafka: dict[int, dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int, dict[str, Any]]]:
    for key, api in kafka.items():
        for version, facts in api["versions"].items():
            if key in APIS and APIS[key].serves(int(version)):
                yield api, int(version), facts


def test_apis_and_versions_are_kafkas(kafka: dict[int, dict[str, Any]]) -> None:
    assert set(kafka) - set(APIS) == set(LEFT_OUT) == NOT_FOR_CLIENTS
    assert set(APIS) <= set(kafka), "kproxy serves an API that Kafka does not know"
    for key, api in APIS.items():
        versions = [int(version) for version in kafka[key]["versions"]]
        # Kafka's class is AlterConfigsResponseData for an API called AlterConfigs, and so on: the names are one.
        assert api.name == kafka[key]["name"]
        newest = ENDS_BEFORE[key][0] - 1 if key in ENDS_BEFORE else versions[-1]
        assert api.newest == newest, f"{api.name}: Kafka's newest is {versions[-1]}"
        # Older versions than Kafka's classes know are served to old brokers; of the share APIs version 0 never was.
        assert api.oldest == (1 if key in (78, 79) else 0)
        assert api.oldest <= versions[0]


def test_header_versions_are_kafkas(kafka: dict[int, dict[str, Any]]) -> None:
    checked = 0
    for api, version, facts in _served(kafka):
        flexible = version >= APIS[api["key"]].flexible
        assert facts["request_header"] == (2 if flexible else 1), (api["name"], version)
        answer = 1 if flexible and api["key"] != ApiKey.API_VERSIONS else 0
        assert facts["response_header"] == answer, (api["name"], version)
        checked += 1
    assert checked > 200
    never = {key for key, api in APIS.items() if api.flexible == NEVER}
    assert never == {17, 47}


def _structs(
    fields: list[dict[str, Any]], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    yield path, fields
    for field in fields:
        yield from _structs(field.get("fields", []), (*path, field["name"]))


def _words(name: str) -> set[str]:
    return set(name.split("_"))


def test_no_response_with_host_and_port_is_overlooked(kafka: dict[int, dict[str, Any]]) -> None:
    """In Kafka's classes: a struct with a host and a port is in kproxy's table, or in the list of reasons."""
    rewritten, excused = set(), set()
    for api, version, facts in _served(kafka):
        for path, fields in _structs(facts["response"]):
            words = [_words(field["name"]) for field in fields]
            if not any("host" in w for w in words) or not any("port" in w for w in words):
                continue
            place = ".".join(path)
            if (api["name"], place) in NOT_REWRITTEN:
                excused.add((api["name"], place))
                continue
            rule = rule_for(api["key"], version)
            assert rule is not None, (
                f"{api['name']} v{version} has a host and a port in {place or 'the response itself'}"
            )
            assert place == ("" if rule.field is None else _snake(rule.field)), f"{api['name']} v{version}: {place}"
            rewritten.add((api["key"], version))
    assert excused == set(NOT_REWRITTEN), "an excuse for what is not there"
    assert rewritten == {(rule.api_key, version) for rule in TABLE for version in rule.versions}


def test_every_field_that_sounds_like_an_address_is_known(kafka: dict[int, dict[str, Any]]) -> None:
    harmless = set()
    for api, version, facts in _served(kafka):
        name, rule = api["name"], rule_for(api["key"], version)
        rewritten = None if rule is None else _snake(rule.field or "")
        for path, fields in _structs(facts["response"]):
            if ".".join(path) == rewritten or (name, ".".join(path)) in NOT_REWRITTEN:
                continue
            for field in fields:
                place = ".".join((*path, field["name"]))
                if not _words(field["name"]) & SOUNDING or place == rewritten or (name, place) in NOT_REWRITTEN:
                    continue
                assert (name, place) in HARMLESS, f"{name} v{version} has {place}"
                harmless.add((name, place))
    assert harmless == set(HARMLESS), "an excuse for what is not there"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


def _ours(fields: tuple[Field, ...], version: int, compact: bool) -> list[dict[str, Any]]:
    """A definition's fields in one version, as the oracle describes Kafka's: tagged fields last, by their numbers."""
    here = [field for field in fields if version in field.versions]
    tagged = sorted((f for f in here if f.tag is not None and version in f.tagged), key=lambda f: f.tag or 0)
    described = []
    for field in [*(f for f in here if f not in tagged), *tagged]:
        prefix, element = ("[]", field.type[2:]) if field.type.startswith("[]") else ("", field.type)
        one: dict[str, Any] = {
            "name": _snake(field.name),
            "nullable": version in field.nullable,
            "compact": compact and (bool(prefix) or element in ("string", "bytes", "records")),
            "type": prefix + ("struct" if field.fields else element),
        }
        if field.fields:
            one["fields"] = _ours(field.fields, version, compact)
        if field in tagged:
            one["tag"] = field.tag
        described.append(one)
    return described


@pytest.mark.parametrize("key", sorted(WITHOUT_DEFINITION), ids=lambda key: APIS[key].name)
def test_error_codes_that_are_read_without_a_definition(kafka: dict[int, dict[str, Any]], key: int) -> None:
    with pytest.raises(FileNotFoundError):
        load_message(f"{APIS[key].name}Response")
    for facts in kafka[key]["versions"].values():
        assert [(field["name"], field["type"]) for field in facts["response"][:2]] == [
            ("throttle_time_ms", "int32"),
            ("error_code", "int16"),
        ]
        assert facts["response_header"] == 1


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_the_projects_definitions_are_kafkas(kafka: dict[int, dict[str, Any]], path: Path) -> None:
    definition = read_definition(path)
    api = kafka[definition.api_key]
    kind = "request" if definition.name.endswith("Request") else "response"
    assert definition.name == f"{api['name']}{kind.title()}" == path.stem
    assert [str(version) for version in definition.versions] == list(api["versions"])
    for version, facts in api["versions"].items():
        compact = int(version) in definition.flexible
        assert _ours(definition.fields, int(version), compact) == facts[kind], f"version {version}"


@pytest.mark.parametrize("key", sorted({rule.api_key for rule in TABLE}), ids=lambda key: APIS[key].name)
def test_the_definitions_behind_the_table_are_kafkas(kafka: dict[int, dict[str, Any]], key: int) -> None:
    """kafka-python's definitions as well: in every version with endpoints that Kafka's classes know."""
    definition = load_message(f"{APIS[key].name}Response")
    for version, facts in kafka[key]["versions"].items():
        if rule_for(key, int(version)) is not None:
            compact = int(version) in definition.flexible
            assert _ours(definition.fields, int(version), compact) == facts["response"], f"version {version}"
