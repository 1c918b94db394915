"""Clients of Kafka 4.4 in an undone switch, in a switch, and on the way back, by a real kproxy.

They name the cluster and the node that they expect (KIP-1242) if they may bootstrap again (KIP-1102). Brokers of
Kafka 3.9 have no such check: kproxy answers for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pytest
from confluent_kafka import Producer

from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster
from tests.harness.clients.going import Going, java
from tests.harness.clusters.twosides import QUICK, TwoSides
from tests.harness.migration.carried import apart, carry, lowest_epoch, offsets_in_log
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import BLUE, GREEN
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.languages import Go
from tests.soak.switchjudged import Epoch, Logs, read, the_same, written

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(600)]

PARTITIONS = 2
_PAUSE_MS = "20"
# A broker that is restarted waits for the end of its session. A group forgets a member that was cut soon, and then its
# positions may be written.
_QUICK = QUICK | {
    "broker.session.timeout.ms": "20000",
    "group.consumer.min.session.timeout.ms": "6000", "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.heartbeat.interval.ms": "1000",
}  # fmt: skip
_GROUPS_END_S = 120.0


@pytest.fixture(
    scope="module", params=[(DEFAULT_VERSION, DEFAULT_VERSION), ("3.9.2", DEFAULT_VERSION)], ids=" to ".join
)  # fmt: skip
def sides(request: pytest.FixtureRequest) -> Iterator[TwoSides]:
    with ExitStack() as held:
        clusters = [held.enter_context(DevCluster(1, version=version, properties=_QUICK)) for version in request.param]
        made = TwoSides(clusters[0].direct_bootstrap, clusters[1].direct_bootstrap, clusters)
        apart(made)
        for bootstrap in (made.source, made.target):  # the brokers make the topic of transactions
            Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("first")}).init_transactions(60)
        yield made


@dataclass(frozen=True, slots=True)
class Reader:
    """A member of a group of its own."""

    topic: str
    group: str
    client: Going
    epochs: list[Epoch] = field(default_factory=list)

    def numbers(self) -> list[int]:
        return [int(line[2]) for line in self.client.said("got")]


def start(led: Led, library: str, *words: str, **more: str) -> Going:
    """Start a client of the newest version."""
    named = {"bootstrap.servers": led.kproxy.bootstrap, **{name.replace("_", "."): text for name, text in more.items()}}
    log = led.logs / f"{unique(library)}.log"
    if library == "java":
        return led.start(java(led.sides.clusters[1].programs, words, named, log))
    command = Go(library, "", program="going_franz").command()
    return led.start(Going([*command, *words, *(f"{name}={text}" for name, text in named.items())], log))


def start_reader(led: Led, library: str, topic: str, **more: str) -> Reader:
    group = unique(f"{topic}-readers")
    if library == "java":
        more |= {"auto_offset_reset": "earliest", "auto_commit_interval_ms": "200"}
        more |= {} if "group_protocol" in more else {"session_timeout_ms": "6000"}
    return Reader(topic, group, start(led, library, "consume", topic, group_id=group, **more))


def move(led: Led, readers: list[Reader], switch: str, to: str) -> None:
    """Hold, copy, translate positions and flip; note where each group was."""
    for reader in readers:
        wait_until(
            partial(led.may_be_carried, reader.group, PARTITIONS), f"{reader.group} may be carried", _GROUPS_END_S
        )
        carry(led.sides, reader.topic)
    led.kproxy.hold(switch, to)
    if not switch.startswith("undone"):
        led.end_transactions()
    for reader in readers:
        began = carry(led.sides, reader.topic, reader.group)[reader.group]
        if not switch.startswith("undone"):
            former = BLUE if to == GREEN else GREEN
            reader.epochs.append(Epoch(former, to, began, len(reader.client.lines)))
    led.kproxy.must("flip", switch)


def flow(producers: dict[str, Going], readers: list[Reader]) -> None:
    """Wait until each producer has written, and each reader has read what was written since."""
    for producer in producers.values():
        producer.wait_more("acked", 100)
    for reader in readers:
        newest = max(int(line[0]) for line in producers[reader.topic].said("acked"))
        reader.client.wait(
            lambda reader=reader, newest=newest: max(reader.numbers(), default=0) >= newest - PARTITIONS,
            f"{reader.group} reads on",
        )


def test_an_undone_switch_a_switch_and_the_way_back(led: Led, sides: TwoSides) -> None:
    newest = sides.clusters[0].programs.version == DEFAULT_VERSION
    recovers, none, transactions, franz = names = [
        f"{unique('anew')}-{what}" for what in ("recovers", "none", "transactions", "franz")
    ]
    for bootstrap in (sides.source, sides.target):
        topics(bootstrap, dict.fromkeys(names, PARTITIONS), 1)
    sides.clusters[0].restart(1)  # a client must take green's leaders, whose epochs are lower
    wait_until(lambda: lowest_epoch(sides.source, franz) > lowest_epoch(sides.target, franz), "it leads again")
    produce = (str(PARTITIONS), _PAUSE_MS)
    idempotent = {"enable_idempotence": "true", "linger_ms": "5"}
    without = {"metadata_recovery_strategy": "none"}
    producers = {
        recovers: start(led, "java", "produce", recovers, *produce, **idempotent),
        none: start(led, "java", "produce", none, *produce, **idempotent, **without),
        franz: start(led, "franz-go", "produce", franz, *produce, always_retry_eof="true"),
        transactions: start(led, "java", "transact", transactions, *produce, "10", transactional_id=unique("tx")),
    }
    readers = [
        start_reader(led, "java", recovers),
        start_reader(led, "java", none, **without),
        start_reader(led, "java", transactions, isolation_level="read_committed"),
        start_reader(led, "franz-go", franz, always_retry_eof="true"),
    ]
    if newest:
        readers += [
            start_reader(led, "java", recovers, group_protocol="consumer"),
            start_reader(led, "java", none, group_protocol="consumer", **without),
        ]
    flow(producers, readers)

    def misrouted() -> float:
        return led.kproxy.metric("kproxy_refused_total", reason="misrouted")

    # Undone
    move(led, readers, "undone", GREEN)
    wait_until(lambda: misrouted() > 0, "clients that expect blue are answered")
    answered = misrouted()
    led.kproxy.must("undo", "undone")
    flow(producers, readers)
    # To green
    move(led, readers, "there", GREEN)
    back = led.release("there")
    flow(producers, readers)
    assert misrouted() > answered
    answered = misrouted()
    # And back. A transactional producer may not write on both sides (docs/flip.md): another one follows.
    first = producers[transactions]
    first.end()
    begins = max(int(line[0]) for line in first.said("acked")) + 1
    move(back, readers, "back", BLUE)
    back.release("back")
    producers[transactions] = start(
        led, "java", "transact", transactions, *produce, "10", transactional_id=unique("tx"), first_number=str(begins)
    )
    flow(producers, readers)
    assert misrouted() > answered

    problems: dict[str, list[str]] = {}
    logs: dict[str, Logs] = {}
    for topic, producer in producers.items():
        producer.end()
        clients = [first, producer] if topic == transactions else [producer]
        lines = [line for each in clients for line in each.lines]
        sides_of = {BLUE: sides.source, GREEN: sides.target}
        logs[topic] = {name: offsets_in_log(bootstrap, topic, PARTITIONS) for name, bootstrap in sides_of.items()}
        problems[topic] = [line for line in lines if line.startswith("died")]
        problems[topic] += [*the_same(logs[topic], BLUE), *written(lines, logs[topic][BLUE], exact=True)]
        if topic != transactions:
            problems[topic] += [line for line in lines if line.startswith("failed")]
    assert not any(problems.values()), problems
    for reader in readers:
        wanted = {number for log in logs[reader.topic][BLUE] for _, number in log}
        wait_until(lambda reader=reader, wanted=wanted: wanted <= {*reader.numbers()}, f"{reader.group} reads all")
        reader.client.end()
        lines = reader.client.lines
        problems[reader.group] = [line for line in lines if line.startswith("died")]
        problems[reader.group] += read(lines, logs[reader.topic], BLUE, reader.epochs)
    assert not any(problems.values()), problems
