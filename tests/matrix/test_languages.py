"""A client that cannot be had is skipped with the reason, and one that is built is not built again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.programs.javac import NotInstalled
from tests.matrix.client import Client
from tests.matrix.languages import Go, Node, Rust


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


CLIENTS = (
    (Go("franz-go", "1", program="franz"), "go", "Go is not on this machine (go was not found)"),
    (Rust("rdkafka", "1"), "cargo", "Rust is not on this machine (cargo was not found)"),
    (Node("kafkajs", "1", program="kafka_js.js"), "node", "Node.js is not on this machine (node was not found)"),
)


@pytest.mark.parametrize(("client", "tool", "reason"), CLIENTS)
def test_without_its_tools(tools: Path, client: Client, tool: str, reason: str) -> None:
    with pytest.raises(NotInstalled) as raised:
        client.command()
    assert str(raised.value) == reason


@pytest.mark.parametrize(("client", "tool", "reason"), CLIENTS)
def test_a_build_that_fails_is_tried_again_and_names_no_registry(
    tools: Path, client: Client, tool: str, reason: str
) -> None:
    runs = tools / "runs"
    for name in (tool, "npm"):
        program(tools / name, f"echo run >> {runs}; echo downloading >&2; echo 'error: no https://host/x' >&2; exit 1")
    for _ in range(2):
        with pytest.raises(NotInstalled) as raised:
            client.command()
        assert str(raised.value) == "it cannot be built: error: no …"
    assert runs.read_text() == "run\n" * 2


@pytest.mark.parametrize(("client", "tool", "reason"), CLIENTS)
def test_what_is_built_is_not_built_again(tools: Path, client: Client, tool: str, reason: str) -> None:
    runs = tools / "runs"
    for name in (tool, "npm"):
        program(tools / name, f"echo run >> {runs}")
    assert client.command() == client.command()
    assert runs.read_text() == "run\n"
