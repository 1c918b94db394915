"""Copying a registry to another one: ids, references, deletion, modes, contexts, and what stops it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kproxy.base.diagnostic import ERROR, WARNING
from kproxy.migrate.schemas.registry import RegistryClient, RegistryError
from kproxy.migrate.schemas.transfer import SchemaTransfer, TransferResult, TransferStopped
from kproxy.migrate.spec.schemas_section import RegistrySection, SchemasSection
from tests.harness.servers.schema_registry import SchemaRegistry

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
ORDER_2 = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'
LINE = '{"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}'


class Pair:
    """Two registries, the second of which gets what the first has."""

    def __init__(self, stack: ExitStack, target: SchemaRegistry) -> None:
        self.source = stack.enter_context(SchemaRegistry(40).serving())
        self.target = stack.enter_context(target.serving())
        self._stack = stack
        self.lines: list[str] = []

    def transfer(self, **options: Any) -> SchemaTransfer:
        section = SchemasSection(RegistrySection(self.source.url), RegistrySection(self.target.url), **options)
        source = self._stack.enter_context(RegistryClient("source", section.source))
        target = self._stack.enter_context(RegistryClient("target", section.target))
        return SchemaTransfer(section, source, target, self.lines.append)

    def copy(self, **options: Any) -> TransferResult:
        return self.transfer(**options).run_round()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, SchemaRegistry())


def errors(result: TransferResult) -> list[str]:
    return [str(finding) for finding in result.findings if finding.severity is ERROR]


def content(registry: SchemaRegistry) -> dict[str, Any]:
    return {
        name: (subject.versions, subject.config, subject.mode)
        for name, subject in registry.subjects.items()
        if subject.versions
    }


def test_all_is_copied_with_the_same_ids_and_a_second_round_changes_nothing(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.register("a-line-value", LINE, references=[{"name": "Order", "subject": "orders-value", "version": 1}])
    pair.source.register("orders-value", ORDER_2)
    pair.source.register("by hand/ü", 'syntax = "proto3"; message A {}', schemaType="PROTOBUF")
    pair.source.answer("DELETE", "/subjects/orders-value/versions/2", b"", "")
    pair.source.answer("PUT", "/config/orders-value", b'{"compatibility": "FULL"}', "")
    pair.source.answer("PUT", "/config", b'{"compatibility": "NONE"}', "")
    pair.source.answer("PUT", "/config/a-line-value", b'{"compatibility": "BACKWARD"}', "")
    pair.source.answer("PUT", "/mode/a-line-value", b'{"mode": "READONLY"}', "")
    transfer = pair.transfer()
    result = transfer.run_round()
    assert (result.findings, result.subjects, result.versions, result.ids) == ((), 3, 4, 4)
    assert content(pair.target) == content(pair.source)
    assert pair.target.config == pair.source.config
    writes = [request for request in pair.target.requests if not request.startswith("GET")]
    again = transfer.run_round()
    assert again.is_verified
    assert not again.changes
    assert writes == [request for request in pair.target.requests if not request.startswith("GET")]
    new = pair.source.register("orders-value", '"int"')
    assert transfer.run_round().changes == (f"register orders-value version 3 (id {new})",)
    assert content(pair.target) == content(pair.source)


def test_the_target_gives_new_ids_beyond_those_that_were_copied(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    assert pair.copy().is_verified
    assert pair.target.register("another-value", '"long"') == 41


def test_an_id_that_means_two_things_stops_it_before_any_change(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.target.first_id = 40
    pair.target.register("bills-value", '"int"')
    result = pair.copy()
    assert errors(result) == [
        "schema id 40: is orders-value version 1 at the source, and another schema at the target: bills-value version 1"
    ]
    assert not [request for request in pair.target.requests if not request.startswith("GET")]


def test_a_version_that_is_another_one_stops_it(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.target.register("orders-value", ORDER_2)
    assert errors(pair.copy()) == [
        "subject orders-value: version 1 at the target is id 1, and id 40 at the source",
    ]


def test_a_context_keeps_the_ids_of_both_apart(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.register("a-line-value", LINE, references=[{"name": "Order", "subject": "orders-value", "version": 1}])
    pair.target.first_id = 40
    pair.target.register("bills-value", '"int"')
    result = pair.copy(context="blue")
    assert not errors(result)
    assert pair.target.subjects[":.blue:orders-value"].versions[1].id == 40
    assert pair.target.subjects[":.blue:a-line-value"].versions[1].schema["references"] == [
        {"name": "Order", "subject": ":.blue:orders-value", "version": 1}
    ]
    assert pair.target.subjects["bills-value"].versions[1].schema == {"schema": '"int"'}
    assert not pair.copy(context="blue").changes


def test_contexts_of_the_source_are_copied(pair: Pair) -> None:
    pair.source.register(":.red:orders-value", ORDER)
    pair.source.register("orders-value", ORDER_2)
    assert pair.copy().is_verified
    assert content(pair.target) == content(pair.source)


def test_a_registry_that_gives_its_own_ids_is_noticed() -> None:
    with ExitStack() as stack:
        pair = Pair(stack, SchemaRegistry(ignores_ids=True))
        pair.source.register("orders-value", ORDER)
        with pytest.raises(
            TransferStopped, match=r"has given id 1 to orders-value version 1, which has id 40 at the so"
        ):
            pair.copy()
        assert pair.target.subjects["orders-value"].mode is None


def test_a_target_without_modes_is_noticed_before_anything_is_registered(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)

    def confirm(handler: Any) -> bool:  # as Apicurio Registry 3.0 does
        if handler.path.startswith("/mode"):
            handler.reply(200 if handler.command == "PUT" else 404, {})
            return True
        return False

    pair.target.faults.append(confirm)
    with pytest.raises(TransferStopped, match="does not keep the mode IMPORT"):
        pair.copy()
    assert "orders-value" not in content(pair.target)


def test_modes_are_set_back_if_the_copy_breaks_off_and_the_next_one_finishes_it(pair: Pair) -> None:
    for number in range(5):
        pair.source.register(f"orders-{number}", ORDER.replace("Order", f"Order{number}"))

    def refuse(handler: Any) -> bool:
        if handler.command == "POST" and "orders-3" in handler.path:
            handler.reply(500, {"error_code": 50001, "message": "Error in the backend data store"})
            return True
        return False

    pair.target.faults.append(refuse)
    with pytest.raises(RegistryError, match="Error in the backend data store"):
        pair.copy()
    assert {subject.mode for subject in pair.target.subjects.values()} == {None}
    pair.target.faults.clear()
    pair.target.subjects["orders-1"].mode = "IMPORT"  # as a copy that was killed leaves it
    assert pair.copy().is_verified
    assert content(pair.target) == content(pair.source)


def test_what_the_registry_says_and_does_not_do_is_found_at_the_end(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.register("lost-value", '"int"')

    def swallow(handler: Any) -> bool:
        if handler.command == "POST" and "lost" in handler.path:
            handler.reply(200, {"id": 41})
            return True
        return False

    pair.target.faults.append(swallow)
    result = pair.copy()
    assert errors(result) == [
        "subject lost-value: version 1 (id 41) is not at the target",
        "schema id 41: of lost-value version 1 is not known at the target, though it has the version",
    ]


def test_selected_subjects_and_references_beyond_them(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.register("a-line-value", LINE, references=[{"name": "Order", "subject": "orders-value", "version": 1}])
    result = pair.copy(include=("a-*",))
    assert errors(result) == [
        "subject a-line-value: version 1 refers to orders-value version 1, which is not at the target; allowed:"
        " schemas.include with that subject"
    ]
    assert pair.copy(exclude=("a-*",)).is_verified
    assert pair.copy(include=("a-*",)).is_verified


def test_a_deleted_version_is_deleted_at_the_target_too(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.register("a-line-value", LINE, references=[{"name": "Order", "subject": "orders-value", "version": 1}])
    transfer = pair.transfer()
    assert transfer.run_round().is_verified
    for subject in ("a-line-value", "orders-value"):
        pair.source.answer("DELETE", f"/subjects/{subject}/versions/1", b"", "")
    assert transfer.run_round().is_verified
    assert content(pair.target) == content(pair.source)


def test_the_settings_of_a_subject_that_is_read_only_are_copied(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    assert pair.copy().is_verified
    for registry in (pair.source, pair.target):
        registry.subjects["orders-value"].mode = "READONLY"
    pair.source.subjects["orders-value"].config = {"compatibilityLevel": "FULL"}
    assert pair.copy().is_verified
    assert content(pair.target) == content(pair.source)


def test_the_settings_of_a_target_with_subjects_of_its_own_stay(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    pair.source.config = {"compatibilityLevel": "FULL"}
    pair.target.register("bills-value", '"int"')
    result = pair.copy()
    assert [(finding.severity, finding.text) for finding in result.findings] == [
        (
            WARNING,
            "has compatibility FULL at the source and compatibility BACKWARD at the target for subjects without their"
            " own; not changed, as the target has other subjects (bills-value)",
        )
    ]
    assert pair.target.config == {"compatibilityLevel": "BACKWARD"}


def test_a_dry_run_changes_nothing(pair: Pair) -> None:
    pair.source.register("orders-value", ORDER)
    result = pair.transfer().run_round(dry_run=True)
    assert result.changes == ("register orders-value version 1 (id 40)",)
    assert errors(result) == ["subject orders-value: version 1 (id 40) is not at the target"]
    assert not content(pair.target)


def test_a_circle_of_references_is_an_error_and_no_endless_loop(pair: Pair) -> None:
    pair.source.register("a", '"int"')
    pair.source.register("b", '"long"')
    for name, other in (("a", "b"), ("b", "a")):
        pair.source.subjects[name].versions[1].schema["references"] = [{"name": "x", "subject": other, "version": 1}]
    assert any("which refers to it, too" in text for text in errors(pair.copy()))
