"""A migration whose clusters cannot be reached: no command begins, and each says so in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.cli import invoke
from kproxy.migrate.clusters import endpoints
from tests.harness.process import free_window
from tests.harness.servers.peers import refused


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    first = free_window(20)
    with refused() as source, refused() as target:
        path = tmp_path / "move.yaml"
        path.write_text(
            f"name: shop\n"
            f"source: {{bootstrap-servers: '{source}', listen: '127.0.0.1:{first}', node-ports: '{first + 1}-{first + 9}'}}\n"
            f"target: {{bootstrap-servers: '{target}', listen: '127.0.0.1:{first + 10}',"
            f" node-ports: '{first + 11}-{first + 19}'}}\n"
            "topics: {include: ['*']}\nswitch: {kproxies: 127.0.0.1:1, target-upstream: green}\n"
        )
        yield path


@pytest.mark.parametrize(
    "words",
    [
        *(("plan",), ("prepare",), ("prepare", "--dry-run"), ("undo",), ("offsets",), ("status",), ("pause",)),
        *(("switch",), ("switch", "--resume"), ("rollback",), ("finish",)),
    ],
    ids=" ".join,
)
def test_no_command_begins(
    words: tuple[str, ...], file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endpoints, "_READY_TIMEOUT", 0.5)
    command, *options = words
    assert invoke(["migrate", command, str(file), *options]) == 2
    problem = capfd.readouterr().err.splitlines()[-1]
    assert problem.startswith("kproxy: ")
    assert "kproxy is not ready after 0.5 s" in problem
