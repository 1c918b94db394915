"""What stops a wave: connections that it would cut, in both directions, beside other waves."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Severity
from kproxy.migrate.spec.migration import Migration, WaveSelection
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import GROUPS, READS, WRITES, RecordedClient
from kproxy.migrate.usage.sourcestate import GroupUse, SourceChange, TransactionUse
from kproxy.migrate.usage.waveboundary import WaveBoundary, WaveMembers, check_boundary, check_shared_topics
from kproxy.proxy.switching.parts import Part


def client(client_id: str, *uses: tuple[str, str]) -> RecordedClient:
    return RecordedClient("", "", "10.0.0.1", client_id, "java", 1.0, 2.0, dict.fromkeys(uses, 2.0))


def wave(name: str, clients: Collection[str], groups: Collection[str], topics: Collection[str]) -> WaveMembers:
    return WaveMembers(name, Part(f"wave-{name}", tuple(clients)), groups, WaveSelection(topics=tuple(topics)))


SHOP = wave("shop", ("shop-*",), ("billing",), ("orders*",))
OTHER = wave("logs", ("logger",), (), ("logs",))
CLOSED = [
    client("shop-1", (WRITES, "orders")),
    client("shop-2", (READS, "orders"), (GROUPS, "billing")),
    client("logger", (WRITES, "logs")),
]


def judge(*more: RecordedClient, source: SourceChange | None = None, **boundary: object) -> list[tuple[Severity, str]]:
    usage = ObservedUsage(1.0, 2.0, (*CLOSED, *more), source=source)
    sides = WaveBoundary(SHOP, **boundary)  # type: ignore[arg-type]
    return [(finding.severity, finding.text) for finding in check_boundary(sides, usage)]


def test_a_closed_wave_moves() -> None:
    assert judge() == []
    assert judge(to_target=False) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (client("x", (WRITES, "orders.eu")), "client x stays on the source, and is connected to topic orders.eu"),
        (client("x", (READS, "orders")), "client x stays on the source, and is connected to topic orders: it reads"),
        (client("x", (GROUPS, "billing")), "client x stays on the source, and is connected to group billing"),
        (client("shop-9", (WRITES, "logs")), "topic logs stays on the source, and client shop-9 is connected to it"),
        (client("shop-9", (READS, "logs")), "topic logs stays on the source, and client shop-9 is connected to it"),
        (client("shop-9", (GROUPS, "g")), "group g stays on the source, and client shop-9 is connected to it"),
    ],
)
def test_what_needs_both_sides_stops_it(other: RecordedClient, words: str) -> None:
    ((severity, text),) = judge(other)
    assert severity == ERROR
    assert text.startswith(words)
    assert "seen at 10.0.0.1" in text, "its evidence"


def test_only_readers_may_be_split() -> None:
    reader, writer = client("x", (READS, "orders")), client("y", (WRITES, "orders"))
    assert sorted(severity for severity, _ in judge(reader, writer, allow_split_readers=True)) == [ERROR, NOTE]
    assert "--allow-split-readers" in judge(reader)[0][1]


def test_what_is_on_the_target_already_is_together_with_it() -> None:
    assert judge(client("shop-9", (READS, "logs")), others=(OTHER,)) == []
    ((severity, text),) = judge(client("shop-9", (WRITES, "logs")), others=(OTHER,), to_target=False)
    assert (severity, text[:28]) == (ERROR, "topic logs stays on the targ")
    assert judge(client("shop-9", (READS, "logs")), others=(OTHER,), to_target=False)[0][0] == WARNING


def test_a_group_without_members_may_be_of_the_past() -> None:
    for members, expected in (((), WARNING), (("m",), ERROR)):
        source = SourceChange(1.0, 2.0, {"old": GroupUse(("orders",), members)})
        severities = [severity for severity, text in judge(source=source) if text.startswith("group old stays")]
        assert severities == [expected]


def test_a_group_that_is_gone_is_no_connection() -> None:
    used = client("shop-9", (GROUPS, "console-1"))
    assert judge(used, source=SourceChange(1.0, 2.0)) == []
    assert len(judge(used, source=SourceChange(1.0, 2.0, {"console-1": GroupUse((), ("m",))}))) == 1


def test_what_was_not_observed_is_named() -> None:
    ((severity, text),) = judge(source=SourceChange(1.0, 2.0, unreadable=("groups: no right",)))
    assert (severity, text) == (WARNING, "could not be read: groups: no right")


def test_a_transaction_has_one_side() -> None:
    def transaction(*topics: str) -> list[tuple[Severity, str]]:
        return judge(source=SourceChange(1.0, 2.0, transactions={"tx": TransactionUse(7, topics)}))

    assert transaction("orders", "orders.eu") == []
    assert transaction("logs") == []
    ((severity, text),) = transaction("orders", "logs")
    assert severity == ERROR
    assert text.startswith("transactional id tx has topic logs, which would stay on the source, with topic orders")


def test_client_ids_are_compared_as_kproxies_show_them() -> None:
    name = "shop-" + "x" * 200
    assert judge(client(name, (WRITES, "orders"))) == []
    assert len(judge(client("evil\x1b[31m", (WRITES, "orders")))) == 1


def test_without_an_observation() -> None:
    for to_target, expected in ((True, ERROR), (False, WARNING)):
        (finding,) = check_boundary(WaveBoundary(SHOP, to_target=to_target), None)
        assert (finding.severity, finding.subject) == (expected, "wave shop")
        assert "kproxy migrate observe FILE" in finding.text


def test_a_topic_in_two_waves() -> None:
    waves = {"a": WaveSelection(topics=("orders*",)), "b": WaveSelection(topics=("*.eu",))}
    migration = Migration({}, {}, waves=waves)
    (finding,) = check_shared_topics(migration, "a", ["orders", "orders.eu", "logs.eu"])
    assert (finding.severity, finding.subject) == (ERROR, "wave a")
    assert finding.text.startswith("orders.eu: topics are in wave b too")
