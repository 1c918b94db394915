"""`kproxy migrate schemas` between two registries: there, and back before a rollback."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.commands.group import migrate
from tests.harness.servers.schema_registry import SchemaRegistry

FIRST, SECOND = '"int"', '"long"'


def run(file: Path, *words: str) -> int:
    return int(migrate.main(["schemas", str(file), *words], prog_name="x", standalone_mode=False) or 0)


def move_file(directory: Path, schemas: str) -> Path:
    file = directory / "move.yaml"
    file.write_text(
        f"source: {{bootstrap-servers: 'a:1'}}\ntarget: {{bootstrap-servers: 'b:1'}}\nschemas: {{{schemas}}}\n"
    )
    return file


def test_what_clients_register_at_the_target_is_copied_back(tmp_path: Path) -> None:
    with SchemaRegistry(40).serving() as source, SchemaRegistry().serving() as target:
        file = move_file(tmp_path, f"source: '{source.url}', target: '{target.url}'")
        source.register("orders-value", FIRST)
        assert run(file) == 0
        target.register("orders-value", SECOND)
        assert run(file, "--reverse", "--dry-run") == 1
        assert run(file, "--reverse") == 0
        ids = [version.id for version in target.subjects["orders-value"].versions.values()]
        assert [version.id for version in source.subjects["orders-value"].versions.values()] == ids
        assert source.register("orders-value", '"string"') not in ids
        assert run(file) == 0


def test_a_context_of_the_target_cannot_be_copied_back(tmp_path: Path) -> None:
    file = move_file(tmp_path, "source: 'http://127.0.0.1:1', target: 'http://127.0.0.1:2', context: blue")
    with pytest.raises(ConfigError, match="in the context blue of the target, whose ids mean nothing at the source"):
        run(file, "--reverse")
