"""Kinds of clients that live through a switch by a real kproxy: franz-go, share groups, Kafka Streams, Kafka Connect.

What they see stands in docs/flip.md.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DEFAULT_VERSION
from tests.harness.clients.going import Going, java
from tests.harness.clusters.twosides import TwoSides, until
from tests.harness.migration.carried import lowest_epoch, positions
from tests.harness.migration.led import Led
from tests.harness.migration.moving import topics
from tests.harness.migration.switched import BLUE
from tests.harness.process import wait_until
from tests.harness.topics import unique
from tests.matrix.connecting import ask, connect, file_connectors
from tests.matrix.frameworks import Java
from tests.matrix.languages import Go

pytestmark = [pytest.mark.integration, pytest.mark.matrix, pytest.mark.timeout(600)]

PARTITIONS = 3


@pytest.fixture
def topic(sides: TwoSides) -> str:
    """On blue; the copy makes it on green."""
    name = unique("kinds")
    topics(sides.source, {name: PARTITIONS}, 1)
    return name


def franz(led: Led, *words: str, **properties: str) -> Going:
    named = {"bootstrap.servers": led.kproxy.bootstrap} | {
        name.replace("_", "."): value for name, value in properties.items()
    }
    pairs = (f"{name}={value}" for name, value in named.items())
    command = Go("franz-go", "", program="going_franz").command()
    return led.start(Going([*command, *words, *pairs], led.logs / f"{unique('franz')}.log"))


def write(bootstrap: str, topic: str, first: int, upto: int) -> None:
    """Records numbered so, to each partition in its turn."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, upto):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert not producer.flush(60)


def committed(bootstrap: str, group: str) -> int:
    """Of all partitions together."""
    return sum(max(0, one.offset) for one in positions(bootstrap, group))


def ends(bootstrap: str, topic: str) -> int:
    """The sum of what stands behind the last record of each partition."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("ends")})
    try:
        return sum(reader.get_watermark_offsets(TopicPartition(topic, at), 60)[1] for at in range(PARTITIONS))
    finally:
        reader.close()


def numbers(records: list[list[str]]) -> list[list[int]]:
    return [[int(value) for value in partition] for partition in records]


# franz-go, which reads metadata each second here


@pytest.fixture(params=["same", "lower", "higher"])
def led_to_epochs(request: pytest.FixtureRequest, led: Led, topic: str) -> None:
    """How the epochs of green's leaders are, compared to those of blue: franz-go takes metadata with a lower one for
    stale, until it has read the like often enough."""
    led.copy(topic)
    old, new = led.sides.clusters if request.param == "higher" else reversed(led.sides.clusters)
    if request.param != "same":
        new.restart(1)
        wait_until(
            lambda: lowest_epoch(old.direct_bootstrap, topic) < lowest_epoch(new.direct_bootstrap, topic),
            "it leads again",
        )


def read_again(client: Going) -> None:
    """Wait until it has read metadata more often than it takes for it to believe them."""
    client.wait_more("metadata", 8)


@pytest.mark.usefixtures("led_to_epochs")
def test_franz_go_loses_and_doubles_nothing(led: Led, topic: str) -> None:
    client = franz(led, "produce", topic, str(PARTITIONS), "1")
    client.wait_more("acked", 300)
    led.switch(topic)
    read_again(client)
    client.wait_more("acked", 300)
    client.end()
    acked = sorted(int(number) for number, *_ in client.said("acked"))
    assert not client.said("failed") + client.said("died")
    assert numbers(led.on_green(topic, PARTITIONS)) == [
        [number for number in acked if number % PARTITIONS == partition] for partition in range(PARTITIONS)
    ]


@pytest.mark.usefixtures("led_to_epochs")
def test_franz_go_aborts_the_transaction_of_the_former_cluster(led: Led, topic: str) -> None:
    name = unique("tx")
    client = franz(led, "transact", topic, str(PARTITIONS), "20", "50", transactional_id=name)
    client.wait_more("committed", 2)
    client.wait_more("acked", 5)  # the next one has begun, most likely
    led.switch(topic)
    read_again(client)
    client.wait_more("committed", 3)
    client.end()
    assert not client.said("died")
    assert client.said("aborted") or name not in led.ended
    kept = [number for first, last in client.said("committed") for number in range(int(first), int(last) + 1)]
    found = numbers(led.on_green(topic, PARTITIONS))
    assert sorted(number for partition in found for number in partition) == kept
    assert all(partition == sorted(partition) for partition in found)


@pytest.mark.usefixtures("led_to_epochs")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_franz_go_goes_on_where_the_group_is(led: Led, topic: str, protocol: str) -> None:
    """One that wants KIP-848 uses the classic protocol: kproxy does not offer it what has ids."""
    group = f"{topic}-readers"
    write(led.sides.source, topic, 0, 300)
    client = franz(led, "consume", topic, group_id=group, group_protocol=protocol)
    client.wait(lambda: len(client.said("got")) == 300, "all records of blue")
    client.wait(lambda: committed(led.sides.source, group) == 300, "it has committed")
    admin = AdminClient({"bootstrap.servers": led.sides.source})
    assert admin.describe_consumer_groups([group])[group].result(30).type.name == "CLASSIC"
    led.switch(topic)
    read_again(client)
    write(led.kproxy.bootstrap, topic, 300, 600)
    client.wait(lambda: len(client.said("got")) >= 600, "it goes on")
    client.wait(lambda: committed(led.sides.target, group) == ends(led.sides.target, topic), "it commits on green")
    client.end()
    assert sorted(int(line[2]) for line in client.said("got")) == list(range(600)), client.said("error")
    assert not client.said("died")


def test_what_franz_go_transforms_is_there_exactly_once(led: Led, topic: str) -> None:
    """Each transaction has the group's positions. Records come all the time. The session says that the transaction of
    blue has failed, and the application goes on all the same."""
    to = f"{topic}-transformed"
    topics(led.sides.source, {to: PARTITIONS}, 1)
    writer = franz(led, "produce", topic, str(PARTITIONS), "2")
    client = franz(led, "transform", topic, to, group_id=f"{topic}-readers", transactional_id=unique("tx"))
    client.wait_more("committed", 20)
    led.switch(topic)
    read_again(client)
    client.wait_more("committed", 20)
    writer.end()
    sent = len(writer.said("acked"))
    wait_until(lambda: sum(map(len, led.on_green(to, PARTITIONS))) >= sent, "all is transformed")
    client.end()
    assert not client.said("died")
    assert all("INVALID_PRODUCER_ID_MAPPING:" in line for line in client.said("failed"))
    assert len(client.said("failed")) <= 1
    assert numbers(led.on_green(to, PARTITIONS)) == numbers(led.on_green(topic, PARTITIONS))
    assert sent == sum(map(len, led.on_green(to, PARTITIONS)))


def test_a_franz_go_share_consumer_is_refused_with_a_reason(led: Led, topic: str) -> None:
    """It would else wait for ever, for topics whose ids it does not know."""
    client = franz(led, "share", topic, group_id=f"{topic}-shared")
    client.wait(lambda: client.said("error"), "it has an error")
    assert "broker is too old" in " ".join(client.said("error")[0])


def test_franz_go_that_seeks_gets_no_wrong_record(led: Led, topic: str) -> None:
    write(led.sides.source, topic, 0, 300)
    client = franz(led, "seek", topic, "0", "10")
    client.wait(lambda: len(client.said("got")) == 90, "all records of the partition")
    led.switch(topic)
    write(led.kproxy.bootstrap, topic, 300, 600)
    wait_until(lambda: [one["topic"] for one in led.kproxy.seen()["waiting"]] == [topic], "kproxy says that it waits")
    read_again(client)
    client.end()
    assert [int(line[2]) for line in client.said("got")] == list(range(30, 300, PARTITIONS))


# Share groups


def share(led: Led, topic: str, group: str) -> Going:
    named = {"bootstrap.servers": led.kproxy.bootstrap, "group.id": group}
    log = led.logs / f"{unique('share')}.log"
    return led.start(java(led.sides.clusters[0].programs, ["share", topic], named, log))


def test_a_share_member_joins_again_and_misses_nothing(led: Led, topic: str) -> None:
    group = f"{topic}-shared"
    for cluster in led.sides.clusters:  # its configuration is not copied
        done = cluster.tool(
            "kafka-configs", "--bootstrap-server", cluster.direct_bootstrap, "--alter", "--entity-type", "groups",
            "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    write(led.sides.source, topic, 0, 300)
    client = share(led, topic, group)

    def values() -> list[int]:
        return [int(line[2]) for line in client.said("got")]

    client.wait(lambda: set(values()) == set(range(300)), "the first records of blue")
    write(led.sides.source, topic, 300, 330)
    client.wait(lambda: set(values()) == set(range(330)), "the last ones")
    led.switch(topic)
    before = len(values())
    write(led.kproxy.bootstrap, topic, 330, 600)
    wait_until(lambda: client.said("died") or set(values()) == set(range(600)), "it goes on", 180)
    client.end()
    assert not client.said("died")
    (kept,) = (result for result in led.groups if result.group == group)
    starts = {row.position.partition: row.position.source for row in kept.positions}
    # A partition's record N is the number 3 N + partition.
    again = {PARTITIONS * at + partition for partition, start in starts.items() for at in range(start, 110)}
    assert sorted(values()[before:]) == sorted({*again, *range(330, 600)})
    assert set(range(300, 330)) <= again, "brokers note an acknowledgement's effect on the start with the next one"
    assert len(again) <= 330


# Kafka Streams


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_streams_application_counts_each_record_once(led: Led, topic: str, protocol: str) -> None:
    """With exactly_once_v2 and a store on its disk, there and back. It is not stopped."""
    counted = f"{topic}-counts"
    topics(led.sides.source, {counted: PARTITIONS}, 1)
    bootstrap = led.kproxy.bootstrap
    command = Java("Kafka Streams", DEFAULT_VERSION, program="streams/Moved").command()
    log = led.logs / "streams.log"
    words = [bootstrap, topic, topic, counted, "0", "earliest", f"group.protocol={protocol}"]
    app = led.start(Going([*command, *words], log))
    app.wait(lambda: ["RUNNING"] in app.said("state"), "it runs")
    load = ["produce", topic, str(PARTITIONS), "5"]
    properties = {"bootstrap.servers": bootstrap, "enable.idempotence": "true"}
    producer = led.start(java(led.sides.clusters[0].programs, load, properties, led.logs / "producer.log"))

    def position() -> int:
        return sum(max(0, one.offset) for one in positions(led.sides.source, topic) if one.topic == topic)

    app.wait(lambda: position() > 300, "it counts")
    assert (led.kproxy.metric("kproxy_requests_total", api="StreamsGroupHeartbeat") > 0) == (protocol == "streams")
    back = led.switch(topic)
    producer.wait_more("acked", 500)

    def counted_ones(led: Led) -> list[list[int]]:
        return numbers(led.on_green(counted, PARTITIONS))

    def counts_all(led: Led) -> None:
        """Wait until all records that were acknowledged so far are counted."""
        sent = len(producer.said("acked"))
        app.wait(lambda: sum(map(len, counted_ones(led))) >= sent, "all are counted", 240)

    counts_all(led)
    # And back, where its transactional ids have been before.
    wait_until(lambda: back.may_be_carried(topic), "the group may be carried back", 180)
    back.switch(topic, "back", BLUE)
    producer.wait_more("acked", 500)
    producer.end()
    sent = len(producer.said("acked"))
    counts_all(back)
    app.end()
    assert not app.said("died")
    assert not producer.said("failed")
    assert sorted(counted_ones(back)) == [[], [], list(range(1, sent + 1))], (
        "the records have no key: one count for all"
    )


def test_an_at_least_once_streams_application_keeps_its_counts(led: Led, topic: str) -> None:
    """Its store on disk says up to which offset of the changelog it has come: an offset of blue. Streams notes that
    once 10,000 records have come since the last time."""
    counted, first = f"{topic}-counts", 12_000
    topics(led.sides.source, {counted: PARTITIONS}, 1)
    bootstrap = led.kproxy.bootstrap
    command = Java("Kafka Streams", DEFAULT_VERSION, program="streams/Moved").command()
    words = [bootstrap, topic, topic, counted, "0", "earliest", "at_least_once"]
    app = led.start(Going([*command, *words], led.logs / "streams.log"))
    app.wait(lambda: ["RUNNING"] in app.said("state"), "it runs")
    write(led.sides.source, topic, 0, first)
    app.wait(lambda: committed(led.sides.source, topic) >= 2 * first, "all of blue is counted", 120)
    led.switch(topic)
    write(led.kproxy.bootstrap, topic, first, first + 300)

    def highest() -> int:
        return max((int(value) for one in led.on_green(counted, PARTITIONS) for value in one), default=0)

    app.wait(lambda: app.said("died") or highest() >= first + 300, "it goes on", 240)
    app.end()
    assert not app.said("died")
    assert highest() == first + 300, "all was committed before the switch: nothing is counted twice"


# Kafka Connect


def test_connectors_of_a_worker_go_on(led: Led, topic: str) -> None:
    """A source and a sink of one worker, which is not stopped. They are at least once, as ever: each line is there."""
    from_, to = led.logs / "source", led.logs / "sink"

    def add(first: int, upto: int) -> None:
        with from_.open("a") as file:
            file.writelines(f"{number}\n" for number in range(first, upto))

    def lines() -> list[int]:
        return [int(line) for line in to.read_text().splitlines()] if to.exists() else []

    write(led.sides.source, topic, 1000, 1030)  # by another producer, so that no partition is empty
    add(0, 300)
    with connect(led.logs, led.kproxy.bootstrap, topic) as url:
        for connector, settings in file_connectors(topic, from_, to).items():
            until(lambda c=connector, s=settings: ask(f"{url}/connectors/{c}/config", s), "it takes no connector")
        until(lambda: len(set(lines())) == 330, "not every line is there")
        led.switch(topic)
        add(300, 600)
        # What is configured now it reads from its own topic, where its position is one of blue.
        more = file_connectors(f"{topic}-more", from_, led.logs / "more")[f"{topic}-more-sink"] | {"topics": topic}
        until(lambda: ask(f"{url}/connectors/{topic}-more-sink/config", more), "it takes no further connector")
        wait_until(lambda: (led.logs / "more").exists() and (led.logs / "more").stat().st_size > 0, "it runs", 120)
        wanted = {*range(600), *range(1000, 1030)}
        wait_until(lambda: set(lines()) >= wanted, "every line is there", 180)

        def states() -> list[str]:
            told = [ask(f"{url}/connectors/{name}/status") or {"tasks": []} for name in ask(f"{url}/connectors") or ()]
            return [task["state"] for status in told for task in status["tasks"]]

        wait_until(lambda: states() == ["RUNNING"] * 3, "all tasks run", 60)
    on_green = [int(value) for partition in led.on_green(topic, PARTITIONS) for value in partition]
    assert sorted(set(on_green)) == sorted(wanted)
    assert sorted(set(lines())) == sorted(wanted)
