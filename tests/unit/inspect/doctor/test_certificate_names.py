"""Which name to expect of all brokers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kproxy.base.address import Address
from kproxy.inspect.doctor.command_trials import pairs_by_certificate, server_names
from kproxy.inspect.doctor.evidence import Certificate, Contact
from tests.unit.inspect.doctor.examined import bad, examination, good, identity, key


def certificate(*names: str) -> Certificate:
    return Certificate(names, "CN=ca", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("certificates", "names"),
    [
        ([("kafka-1.example",), ("kafka-2.example",)], ["*"]),
        ([("kafka-1.example", "kafka.example"), ("kafka-2.example", "KAFKA.example")], ["kafka.example", "*"]),
        ([("kafka-1.example",), ("*.example",)], ["kafka-1.example", "*"]),
        ([("*.example",), ("*.example",)], ["broker.example", "*"]),
        ([("*.example",), ("a.b.example",)], ["*"]),
        ([("a", "b", "c"), ("c", "b", "a")], ["a", "b", "*"]),
        ([("-x;rm", "c d"), ("-x;rm", "c d")], ["*"]),
        ([(), ()], ["*"]),
    ],
)
def test_a_name_that_all_certificates_have(certificates: list[tuple[str, ...]], names: list[str]) -> None:
    servers = tuple(
        bad(f"localhost:{port}", "tls-name", certificate=certificate(*one)) for port, one in enumerate(certificates, 1)
    )
    assert server_names(examination(bootstrap=servers, tls=True)) == names
    assert server_names(examination(bootstrap=servers, tls=False)) == []
    assert server_names(examination(bootstrap=(bad("localhost:1", "tls-untrusted"),), tls=True)) == []


NODES = [bad(f"kafka-{node}.example:9093", "resolve", node) for node in (1, 2)]
FORWARDS = [Address("localhost", 29001), Address("localhost", 29002)]
PAIRED = dict(zip([node.address for node in NODES], FORWARDS, strict=True))


def forward(number: int, *names: str, is_node: int | None = None) -> Contact:
    return good(f"localhost:2900{number}", 1, identity=identity(is_node), certificate=certificate(*names))


@pytest.mark.parametrize(
    ("servers", "elsewhere", "pairs"),
    [
        ([forward(1, "kafka-1.example"), forward(2, "KAFKA-2.example", "x")], {}, PAIRED),
        ([forward(1, "kafka-2.example"), forward(2, "kafka-1.example")], {},
         dict(zip(PAIRED, reversed(FORWARDS), strict=True))),
        # The names of both: the broker's answer decides, if it tells.
        ([forward(1, "*.example", is_node=1), forward(2, "*.example", is_node=2)], {}, PAIRED),
        ([forward(1, "*.example"), forward(2, "*.example")], {}, {}),
        # Another forward, at which the certificate was checked.
        ([forward(1, "kafka-1.example")], {2: FORWARDS[1]}, PAIRED),
        # A certificate for other names is not one for the broker that answers there.
        ([forward(1, "gate.example", is_node=1)], {1: FORWARDS[0], 2: FORWARDS[1]}, {}),
        ([forward(1, "kafka-1.example")], {}, {}),
        ([bad("localhost:29001", "tls-name"), forward(2, "kafka-2.example")], {}, {}),
    ],
)  # fmt: skip
def test_forwards_are_paired_by_certificate(
    servers: list[Contact], elsewhere: dict[int, Address], pairs: dict[Address, Address]
) -> None:
    working = {key(node): address for node, address in elsewhere.items()}
    examined = examination(*NODES, bootstrap=tuple(servers), tls=True, working_addresses=working)
    assert pairs_by_certificate(examined) == pairs
