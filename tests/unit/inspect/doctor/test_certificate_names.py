"""Which name to expect of all brokers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kproxy.inspect.doctor.command_trials import server_names
from kproxy.inspect.doctor.evidence import Certificate
from tests.unit.inspect.doctor.examined import bad, examination


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
