"""docs/admin.md describes every field of `/status`, and every word in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kproxy.net.dial.routes import RouteKind
from kproxy.proxy.cluster.reachability import Proof
from kproxy.proxy.status import asjson
from kproxy.proxy.status.model import AccessStatus, ClusterStatus, NodeStatus, Status, SwitchStatus, UpstreamStatus

DOCUMENT = (Path(__file__).parents[4] / "docs" / "admin.md").read_text()
TYPES = {
    "str": "string",
    "int": "number",
    "bool": "boolean",
    "str | None": "string or null",
    "tuple[str, ...]": "list of strings",
    "float": "number",
    "float | None": "number or null",
    "SwitchStatus | None": "object or null",
    "AccessStatus | None": "object or null",
}


def rows(heading: str) -> dict[str, list[str]]:
    """The table behind this text: the first cell of each row, without its quotes, and the others."""
    table = DOCUMENT.partition(heading)[2].partition("|")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]
    return {first.strip("`"): rest for first, *rest in cells}


@pytest.mark.parametrize(
    ("heading", "shown"),
    [
        ("\nThe process:\n", Status),
        ("\nEach object of `clusters`:\n", ClusterStatus),
        ("\nThe object `switch`:\n", SwitchStatus),
        ("\nThe object `access`:\n", AccessStatus),
        ("\nEach object of `upstreams`:\n", UpstreamStatus),
        ("\nEach object of `nodes`:\n", NodeStatus),
    ],
)
def test_each_field_has_its_row_in_order(heading: str, shown: type) -> None:
    described = rows(heading)
    fields = {name: str(kind) for name, kind in shown.__annotations__.items()}
    assert list(described) == list(fields)
    for name, kind in fields.items():
        assert described[name][0] == TYPES.get(kind, "list of objects"), name


def test_each_word_is_explained() -> None:
    routes = DOCUMENT.partition("| `route` | kproxy dials the address |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", routes, re.MULTILINE)) == {kind.value for kind in RouteKind}
    proofs = DOCUMENT.partition("| `proof` | `checked` | Meaning |")[2].partition("\n\n")[0]
    found = re.findall(r"^\| `([^`]+)` \| (true|false) \|", proofs, re.MULTILINE)
    assert dict(found) == {proof.value: str(proof.checked).lower() for proof in Proof}


def test_the_example_is_a_status() -> None:
    example = DOCUMENT.partition("```json\n")[2].partition("```")[0]
    assert json.loads(asjson.write(asjson.read(example.encode()))) == json.loads(example)
