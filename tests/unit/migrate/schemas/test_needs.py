"""What a plan and a preflight say of sampled records, against two registries."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Severity
from kproxy.migrate.schemas import needs
from kproxy.migrate.schemas.recordids import TopicSample
from kproxy.migrate.schemas.sampling import ClusterSample
from kproxy.migrate.spec.schemas_section import RegistrySection, SchemasSection
from kproxy.protocol.records.decoding import Record
from tests.harness.servers.schema_registry import SchemaRegistry, guid_of

INT, LONG = '"int"', '"long"'


def framed(*ids: int, header: UUID | None = None) -> TopicSample:
    sample = TopicSample()
    sample.add(Record(0, 0, None, struct.pack(">bi", 0, id) + b"x", ()) for id in ids)
    if header is not None:
        sample.add([Record(0, 0, None, b"x", ((b"__value_schema_id", b"\1" + header.bytes),))])
    return sample


class Registries:
    """The registries of both sides, and what is said of samples."""

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry) -> None:
        self.source, self.target = source, target

    def check(
        self, sample: TopicSample, *, direction: Any = needs._PLAN, context: str = "", topic: str = "orders"
    ) -> list[tuple[Severity, str]]:
        section = SchemasSection(RegistrySection(self.source.url), RegistrySection(self.target.url), context=context)
        topics = dict.fromkeys([topic], sample)
        return [(each.severity, str(each)) for each in needs._check(section, ClusterSample(topics), direction)]


@pytest.fixture
def registries() -> Iterator[Registries]:
    with SchemaRegistry(7).serving() as source, SchemaRegistry(7).serving() as target:
        yield Registries(source, target)


def test_ids_that_both_registries_know(registries: Registries) -> None:
    for registry in (registries.source, registries.target):
        registry.register("orders-value", INT)
    assert registries.check(framed(7)) == [
        (NOTE, "topic orders: values have schema ids (7); both registries have the same schemas for them")
    ]


@pytest.mark.parametrize(("direction", "severity"), [(needs._PLAN, WARNING), (needs._SWITCH, ERROR)])
def test_ids_that_the_target_does_not_know(registries: Registries, direction: Any, severity: Severity) -> None:
    registries.source.register("orders-value", INT)
    registries.source.register("orders-value", LONG)
    registries.target.register("orders-value", INT)
    text = "values have schema ids that the target's registry does not have: 8; run kproxy migrate schemas FILE"
    assert registries.check(framed(7, 8), direction=direction) == [(severity, f"topic orders: {text}")]


def test_ids_of_the_target_that_the_source_does_not_know_before_a_rollback(registries: Registries) -> None:
    """`registries.source` is that of the cluster that clients leave. Nothing about schemas stops a rollback."""
    registries.source.register("orders-value", INT)
    registries.source.register("orders-value", LONG)
    registries.target.register("bills-value", LONG)
    text = (
        "values have schema ids that the source's registry does not have: 8; run kproxy migrate schemas FILE --reverse"
    )
    other = "values have schema ids that mean something else at the source: 7"
    assert registries.check(framed(7, 8), direction=needs._ROLLBACK) == [
        (WARNING, f"topic orders: {text}"),
        (WARNING, f"topic orders: {other}"),
    ]


def test_ids_that_mean_something_else_at_the_target(registries: Registries) -> None:
    registries.source.register("orders-value", INT)
    registries.target.register("bills-value", LONG)
    assert registries.check(framed(7)) == [
        (ERROR, "topic orders: values have schema ids that mean something else at the target: 7")
    ]


def test_ids_in_a_context_of_the_target(registries: Registries) -> None:
    registries.source.register("orders-value", INT)
    registries.target.register("bills-value", LONG)
    registries.target.register(":.blue:orders-value", INT)
    ((severity, _),) = registries.check(framed(7), context="blue")
    assert severity is NOTE


def test_values_that_only_look_like_ids(registries: Registries) -> None:
    registries.source.register("orders-value", INT)
    assert registries.check(framed(99, 100), direction=needs._SWITCH) == [
        (
            WARNING,
            "topic orders: values look as if they had schema ids in front (2 of 2 sampled records): 99, 100, and the"
            " source's registry knows none of them: perhaps they are no ids, or those of another registry or context",
        )
    ]
    registries.target.register("orders-value", INT)
    ((severity, text),) = registries.check(framed(7, 99), direction=needs._SWITCH)
    assert (severity, text) == (
        WARNING,
        "topic orders: values have schema ids that the source's registry does not know: 99",
    )


def test_guids(registries: Registries) -> None:
    registries.source.register("orders-value", INT)
    guid = UUID(guid_of({"schema": INT}))
    ((severity, text),) = registries.check(framed(header=guid), direction=needs._SWITCH)
    assert severity is ERROR
    assert str(guid) in text
    registries.target.register("other-value", LONG)
    registries.target.register("orders-value", INT)  # under another id, which a GUID does not need
    assert [severity for severity, _ in registries.check(framed(header=guid))] == [NOTE]


def test_a_registry_that_cannot_be_asked(registries: Registries) -> None:
    registries.target.faults.append(lambda handler: bool(handler.reply(401, {})) or True)
    ((severity, text),) = registries.check(framed(7))
    assert severity is ERROR
    assert "schemas in use cannot be compared: the target's registry" in text
    assert [severity for severity, _ in registries.check(framed(7), direction=needs._ROLLBACK)] == [WARNING]


def test_without_registries_in_the_file() -> None:
    sample = ClusterSample({"orders": framed(7), "texts": TopicSample()}, {"bills": "no leader"})
    assert [str(each) for each in needs._check(None, sample, WARNING)] == [
        "topic bills: was not sampled for schema ids: no leader",
        "topic orders: values look as if they had schema ids in front (1 of 1 sampled record): 7: their readers need a"
        " schema registry that knows these ids. If the target has another one, name both in the file (schemas: {source:"
        " URL, target: URL})",
    ]


def test_the_topic_of_a_registry(registries: Registries) -> None:
    sample = TopicSample()
    sample.add([Record(0, 0, b'{"keytype":"NOOP","magic":0}', None, ())])
    ((severity, text),) = registries.check(sample, topic="_schemas")
    assert severity is WARNING
    assert "Allowed: topics.exclude: [_schemas], and kproxy migrate schemas FILE" in text
