"""What may move separately, and in which order: clients, groups and topics of made-up observations."""

from __future__ import annotations

import io
import random
from dataclasses import replace

from rich.console import Console

from kproxy.migrate.spec.migration import WaveSelection
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.replies import GROUPS, READS, TRANSACTIONS, WRITES, RecordedClient
from kproxy.migrate.usage.sourcestate import GroupUse, SourceChange, TransactionUse
from kproxy.migrate.usage.wavecuts import check_waves
from kproxy.migrate.usage.waves import Kind, Node, Wave, find_waves, waves_to_json
from kproxy.migrate.usage.wavetext import draw_waves


def client(client_id: str, *uses: tuple[str, str], user: str = "", **transactions: str) -> RecordedClient:
    return RecordedClient(
        "", user, "10.0.0.1", client_id, "java", 1.0, 2.0, dict.fromkeys(uses, 2.0),
        {(name, WRITES, topic): 2.0 for name, topic in transactions.items()},
    )  # fmt: skip


def usage(*clients: RecordedClient, source: SourceChange | None = None) -> ObservedUsage:
    return ObservedUsage(1.0, 2.0, clients, source=source)


def steps(wave: Wave) -> list[set[str]]:
    """The clients of each step."""
    return [{node.name for node in step.nodes if node.kind is Kind.CLIENT} for step in wave.steps]


PRODUCER = client("shop", (WRITES, "orders"))
READER = client("billing", (READS, "orders"), (GROUPS, "billing"))


def test_what_shares_nothing_moves_separately() -> None:
    waves = find_waves(usage(PRODUCER, client("logs", (WRITES, "logs"))))
    assert [wave.names(Kind.TOPIC) for wave in waves] == [["logs"], ["orders"]]


def test_readers_move_before_writers() -> None:
    (wave,) = find_waves(usage(PRODUCER, READER))
    assert steps(wave) == [{"billing"}, {"shop"}]


def test_clients_with_one_id_and_different_users_are_different_wherever_they_log_in() -> None:
    at_kproxy = client("app", (WRITES, "orders"), user="alice")
    at_broker = replace(client("app", (WRITES, "logs")), broker_user="bob")
    assert RecordedClient.read(at_broker.to_json()) == at_broker
    waves = waves_to_json(find_waves(usage(at_kproxy, at_broker)))
    assert sorted((wave["clients"][0]["user"], *wave["topics"]) for wave in waves) == [
        ("alice", "orders"),
        ("bob", "logs"),
    ]


def test_writers_of_a_topic_move_together() -> None:
    (wave,) = find_waves(usage(PRODUCER, client("app", (WRITES, "orders"))))
    assert steps(wave) == [{"app", "shop"}]
    assert wave.steps[0].why == "2 clients write topic orders"


def test_members_of_a_group_move_together() -> None:
    source = SourceChange(1.0, 2.0, {"billing": GroupUse(("orders",), ("a", "b"))})
    (wave,) = find_waves(usage(client("a", (READS, "orders")), client("b", (READS, "orders")), PRODUCER, source=source))
    assert steps(wave) == [{"a", "b"}, {"shop"}]


def test_a_chain_of_clients_has_as_many_steps() -> None:
    """A consumer that writes what another reads."""
    chain = [client(f"c{n}", (READS, f"t{n}"), (WRITES, f"t{n + 1}")) for n in range(5)]
    random.Random(5).shuffle(chain)
    (wave,) = find_waves(usage(*chain))
    assert steps(wave) == [{"c4"}, {"c3"}, {"c2"}, {"c1"}, {"c0"}]


def test_a_circle_moves_together() -> None:
    first, second = client("a", (READS, "x"), (WRITES, "y")), client("b", (READS, "y"), (WRITES, "x"))
    (wave,) = find_waves(usage(first, second, client("c", (READS, "y"))))
    assert steps(wave) == [{"c"}, {"a", "b"}]
    assert "circle" in wave.steps[1].why


def test_a_transaction_binds_its_topics_and_its_group() -> None:
    source = SourceChange(1.0, 2.0, transactions={"tx": TransactionUse(7, ("out",), ("billing",))})
    (wave,) = find_waves(
        usage(client("mover", (TRANSACTIONS, "tx"), tx="out"), client("billing", (GROUPS, "billing")), source=source)
    )
    assert steps(wave) == [{"billing", "mover"}]
    assert {(str(edge.second), edge.evidence) for edge in wave.edges if edge.first.kind is Kind.TRANSACTION} == {
        ("topic out", "both are in its transactions"),
        ("group billing", "its transactions have committed positions of the group"),
    }


def test_the_copier_of_kproxy_is_in_no_wave() -> None:
    source = SourceChange(1.0, 2.0, transactions={"kproxy-migration-x-orders-0": TransactionUse(7, ("orders",))})
    (wave,) = find_waves(usage(PRODUCER, source=source))
    assert wave.names(Kind.TRANSACTION) == []


def test_the_clients_of_a_streams_application_move_together() -> None:
    name = "app-6d8fe9f4-51c4-4f7f-9d6f-6a5a1f6c3c11-StreamThread-1"
    waves = find_waves(usage(client(f"{name}-consumer", (READS, "in")), client(f"{name}-producer", (WRITES, "out"))))
    assert len(waves) == 1
    assert len(steps(waves[0])) == 1
    assert Node(Kind.GROUP, "app") in waves[0].nodes


def test_users_with_one_client_id_are_two_clients() -> None:
    waves = find_waves(usage(client("x", (WRITES, "a"), user="u"), client("x", (WRITES, "b"), user="v")))
    assert len(waves) == 2


def test_many_clients_take_no_quadratic_time() -> None:
    """The number of steps of recursion and of comparisons does not grow with the square, or this would not end."""
    chain = [client(f"c{n}", (READS, f"t{n}"), (WRITES, f"t{(n + 1) % 20_000}")) for n in range(20_000)]
    (wave,) = find_waves(usage(*chain))
    assert len(wave.steps) == 1


def test_the_picture_and_the_json_have_all() -> None:
    waves = find_waves(usage(PRODUCER, READER, client("evil\x1b[31m", (WRITES, "logs"))))
    console = Console(file=io.StringIO(), width=100)
    console.print(draw_waves(waves))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("wave 2: 2 clients, 1 group, 1 topic", "client billing: reads orders; group billing", "step 2"):
        assert expected in text
    assert "\x1b[31m" not in text
    document = waves_to_json(waves)[1]
    assert (document["topics"], document["groups"]) == (["orders"], ["billing"])
    assert {edge["evidence"] for edge in document["edges"]} >= {"it reads the topic (seen at 10.0.0.1)"}


# What the file's waves cut


def test_waves_that_cut_nothing_have_no_findings() -> None:
    waves = {"one": WaveSelection(("shop", "billing"), ("billing",), ("orders",))}
    assert list(check_waves(waves, usage(PRODUCER, READER))) == []
    assert list(check_waves({}, None)) == []


def test_waves_name_each_edge_that_they_cut() -> None:
    waves = {"early": WaveSelection(("billing",), ("billing",)), "late": WaveSelection(("shop",), (), ("orders",))}
    (finding,) = check_waves(waves, usage(PRODUCER, READER))
    assert finding.subject == "wave early"
    assert "client billing is connected to topic orders, which is in wave late" in finding.text
    assert "may move before the writers" in finding.text
    (finding,) = check_waves({"only": WaveSelection(("shop",))}, usage(PRODUCER, READER))  # of `shop` and its topic
    assert "which is in no wave" in finding.text
    assert "cannot be separated" in finding.text


def test_a_client_in_two_waves_is_named() -> None:
    waves = {"a": WaveSelection(("shop",), (), ("orders",)), "b": WaveSelection(("sh*",))}
    assert "is in wave b too" in next(check_waves(waves, usage(PRODUCER))).text


def test_waves_without_an_observation_are_not_checked() -> None:
    (finding,) = check_waves({"a": WaveSelection(("x",))}, None)
    assert "are not checked" in finding.text
