"""Real clients that live through a switch, with the guards and without them."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.base.address import Address
from kproxy.dev.devcluster import DevCluster
from kproxy.proxy.cluster.sessionguards import SessionGuards
from tests.harness.clients.going import Going, java, python
from tests.harness.clusters.steady import STEADY
from tests.harness.clusters.switchable import Switchable, listening
from tests.harness.migration import flipseen
from tests.harness.migration.carried import positions
from tests.harness.migration.moving import rows
from tests.harness.process import wait_until
from tests.harness.servers.refusing import RefusesFirst
from tests.harness.topics import commit_as, create_topic, unique
from tests.matrix.languages import Go

pytestmark = pytest.mark.integration

_GUARDED = SessionGuards.session_opened
SHIFT = 7
"""Records that green has at the beginning of a topic: the same record has another offset there."""
SINGLE = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
          "transaction.state.log.min.isr": "1"}  # fmt: skip


class Moving:
    """A topic on two clusters, the clients of one, and the switch to the other."""

    def __init__(self, blue: DevCluster, green: DevCluster, kproxy: Switchable, logs: Path) -> None:
        self.blue, self.green, self.kproxy, self._logs = blue, green, kproxy, logs
        self.clients = ExitStack()
        self.started: dict[str, Going] = {}
        self.topic = create_topic(blue.direct_bootstrap, 1, 1)
        admin = AdminClient({"bootstrap.servers": green.direct_bootstrap})
        for made in admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            made.result(60)
        self.write_on_green(["not copied"] * SHIFT)

    def start(self, library: str, *arguments: str, **properties: str) -> Going:
        """A client of this library that goes on until the end of the test."""
        named = {"bootstrap.servers": str(self.kproxy.address)}
        named |= {name.replace("_", "."): value for name, value in properties.items()}
        log = self._logs / f"{unique(library)}.log"
        if library == "franz-go":
            command = Go(library, "", program="going_franz").command()
            going = Going([*command, *arguments, *(f"{name}={value}" for name, value in named.items())], log)
            return self.clients.enter_context(going)
        going = java(self.blue.programs, arguments, named, log) if library == "java" else None
        made = self.clients.enter_context(going or python(library, arguments, named, log))
        if SessionGuards.session_opened is _GUARDED:
            self.started[flipseen.named(library, arguments[0], named)] = made
        return made

    def fill(self, count: int) -> None:
        """Records on blue, numbered from 0 on."""
        producer = Producer({"bootstrap.servers": self.blue.direct_bootstrap})
        for number in range(count):
            producer.produce(self.topic, str(number).encode(), partition=0)
        assert not producer.flush(60)

    def write_on_green(self, records: Sequence[str]) -> None:
        producer = Producer({"bootstrap.servers": self.green.direct_bootstrap})
        for record in records:
            producer.produce(self.topic, record.encode(), partition=0)
        assert not producer.flush(60)

    def switch(self, *groups: str, by: Address | None = None) -> dict[str, int]:
        """Hold, copy what is committed, translate the positions of these groups, flip, release; where each group goes
        on."""
        self.kproxy.hold()
        copied = rows(self.blue.direct_bootstrap, self.topic, 0)
        self.write_on_green([(row[2] or b"").decode() for row in copied])
        translated = {group: self._translate(group) for group in groups}
        self.kproxy.flip(by or next(iter(self.green.dial.values())))
        self.kproxy.release()
        return translated

    def _translate(self, group: str) -> int:
        (found,) = positions(self.blue.direct_bootstrap, group)
        position = TopicPartition(self.topic, 0, found.offset + SHIFT)
        commit_as(self.green.direct_bootstrap, group, [position])
        return int(position.offset)

    def on_green(self) -> list[str]:
        """The records that were copied to green, and written there since."""
        found = rows(self.green.direct_bootstrap, self.topic, 0)
        return [(row[2] or b"").decode() for row in found][SHIFT:]

    def open_on_green(self) -> int:
        """How many offsets of green no reader of committed records may pass."""
        ends = []
        for level in ("read_uncommitted", "read_committed"):
            named = {"bootstrap.servers": self.green.direct_bootstrap, "group.id": unique("end")}
            reader = Consumer({**named, "isolation.level": level})
            ends.append(reader.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=60)[1])
            reader.close()
        return int(ends[0] - ends[1])


Clusters = tuple[DevCluster, DevCluster, socket.socket]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Blue and green, and a socket that listens where both say they are."""
    with listening() as listener:
        advertised = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            DevCluster([1], advertised=advertised, properties={**STEADY, **SINGLE}) as blue,
            DevCluster([1], advertised=advertised, properties={**STEADY, **SINGLE}) as green,
        ):
            # A broker makes the topic of transactions when somebody asks for a coordinator; until then it refuses the
            # batches of transactions as if it could take them soon (docs/flip.md).
            Producer(
                {"bootstrap.servers": green.direct_bootstrap, "transactional.id": unique("first")}
            ).init_transactions(60)
            yield blue, green, listener


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.matrix)], ids=["guarded", "unguarded"])
def guarded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there are guards; if not, the test shows what they are for."""
    if not request.param:
        monkeypatch.setattr(SessionGuards, "session_opened", lambda *_: None)
    return bool(request.param)


@pytest.fixture(params=[True], ids=["switches"])
def moving(clusters: Clusters, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Moving]:
    blue, green, listener = clusters
    kproxy = Switchable(listener.dup(), next(iter(blue.dial.values())), switches=bool(request.param))
    made = Moving(blue, green, kproxy, tmp_path)
    try:
        with made.clients:
            yield made
        for name, client in made.started.items():
            flipseen.note(name, "one switch, a broker on each side", flipseen.seen(client.lines))
    finally:
        kproxy.close()


LIBRARIES = ["java", "confluent"]


def offsets(client: Going) -> list[int]:
    return [int(line[1]) for line in client.said("got")]


@pytest.mark.parametrize("library", [*LIBRARIES, pytest.param("kafka_python", marks=pytest.mark.matrix)])
def test_a_consumer_that_never_asks_its_position_stays_correct(moving: Moving, guarded: bool, library: str) -> None:
    moving.fill(50)
    more = {"group_id": "none"} if library == "confluent" else {}
    client = moving.start(library, "seek", moving.topic, "0", "0", **more)
    client.wait(lambda: len(client.said("got")) == 50, "all records of blue")
    moving.switch()
    if not guarded:
        client.wait_more("got", SHIFT)
        assert offsets(client)[50:] == list(range(50, 50 + SHIFT)), "records that it has had already"
        return

    def waiting() -> list[bytes]:
        return [one.topic for one in moving.kproxy.call(lambda: moving.kproxy.unit.guards.waiting)]

    client.wait(lambda: waiting() == [moving.topic.encode()], "kproxy says who waits")
    assert len(offsets(client)) == 50
    assert client.process.poll() is None


@pytest.mark.parametrize(
    ("library", "properties"),
    [
        ("java", {}),
        pytest.param(
            "java",
            {"partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
            marks=pytest.mark.matrix,
        ),
        ("java", {"group_protocol": "consumer"}),
        ("confluent", {}),
        pytest.param("confluent", {"partition_assignment_strategy": "cooperative-sticky"}, marks=pytest.mark.matrix),
        pytest.param("confluent", {"group_protocol": "consumer"}, marks=pytest.mark.matrix),
        pytest.param("kafka_python", {}, marks=pytest.mark.matrix),
    ],
    ids=[
        "java",
        "java-cooperative",
        "java-848",
        "librdkafka",
        "librdkafka-cooperative",
        "librdkafka-848",
        "kafka-python",
    ],
)
def test_a_member_of_a_group_goes_on_where_the_group_is(
    moving: Moving, guarded: bool, library: str, properties: dict[str, str]
) -> None:
    group = unique("group")
    moving.fill(100)
    named = {"group_id": group, "auto_offset_reset": "earliest", "auto_commit_interval_ms": "200", **properties}
    client = moving.start(library, "consume", moving.topic, **named)
    client.wait(lambda: len(client.said("got")) == 100, "all records of blue")

    def committed() -> int:
        return sum(one.offset for one in positions(moving.blue.direct_bootstrap, group))

    client.wait(lambda: committed() == 100, "it has committed")
    position = moving.switch(group)[group]
    moving.write_on_green(["new"] * 30)
    if guarded:
        client.wait(lambda: len(client.said("got")) >= 130, "it goes on")
        assert offsets(client)[100:] == list(range(position, position + 30)), "neither a gap nor one twice"
        assert {line[2] for line in client.said("got")[100:]} == {"new"}
        return
    if "group_protocol" in properties:
        gave_up = "died" if library == "java" else "error"
        wait_until(lambda: client.said(gave_up), "it gives up, as there is no such group")
        return
    client.wait(lambda: len(client.said("got")) >= 130, "it goes on, and may have read on at blue's offset before")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_batch_that_is_refused_first_is_not_overtaken(moving: Moving, library: str) -> None:
    """Green's broker refuses the first batch, as if it did not lead yet, and takes what is behind it. Without a guard
    this ends well often, as both libraries repeat one batch at a time, but not always."""
    client = moving.start(library, "produce", moving.topic, "1", "1", enable_idempotence="true", linger_ms="0")
    client.wait_more("acked", 200)
    with RefusesFirst(next(iter(moving.green.dial.values()))) as way:
        moving.switch(by=way.address)
        assert way.refused.wait(60)
        wait_until(lambda: client.said("failed") or len(client.said("acked")) > 2000, "it goes on, or not")
        client.end()
    sent = [int(value) for value in moving.on_green()]
    acked = {int(line[0]) for line in client.said("acked")}
    right = sent == sorted(set(sent)) and not client.said("failed") and acked == set(sent)
    assert right, (sent[:5], len(sent), len(acked), client.said("failed")[:3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_old_transaction_is_aborted_and_the_next_commits(moving: Moving, guarded: bool, library: str) -> None:
    client = moving.start(
        library, "transact", moving.topic, "1", "20", "20", transactional_id=unique("tx"), linger_ms="5"
    )
    client.wait(lambda: len(client.said("committed")) >= 2, "two transactions")
    open_since = len(client.said("acked"))
    client.wait(lambda: len(client.said("acked")) >= open_since + 5, "a third has begun")
    moving.switch()
    if not guarded and library == "java":
        wait_until(lambda: client.said("died"), "it takes the loss of its producer id for fatal")
        return
    client.wait(lambda: client.said("aborted"), "the application sees the abort")
    client.wait_more("committed", 3)
    client.end()
    committed = [number for first, last in client.said("committed") for number in range(int(first), int(last) + 1)]
    assert [int(value) for value in moving.on_green()] == committed, "as it was told"
    assert moving.open_on_green() == 0, "no transaction hangs"


@pytest.mark.parametrize("moving", [False], indirect=True, ids=["plain"])
@pytest.mark.parametrize(
    ("library", "properties"),
    [
        ("java", {"group_protocol": "consumer"}),
        pytest.param("confluent", {}, marks=pytest.mark.matrix),
        pytest.param("java", {}, marks=pytest.mark.matrix),
        pytest.param("confluent", {"group_protocol": "consumer"}, marks=pytest.mark.matrix),
    ],
    ids=["java-848", "librdkafka", "java", "librdkafka-848"],
)
def test_connected_clients_when_a_second_upstream_is_added(
    moving: Moving, library: str, properties: dict[str, str]
) -> None:
    """They have agreed on versions that name topics by ids, and come anew."""
    group = unique("group")
    named = {"group_id": group, "auto_offset_reset": "earliest", "auto_commit_interval_ms": "200", **properties}
    writer = moving.start(library, "produce", moving.topic, "1", "1", enable_idempotence="true", linger_ms="0")
    reader = moving.start(library, "consume", moving.topic, **named)
    reader.wait_more("got", 100)
    before = moving.kproxy.call(lambda: {one.client for one in moving.kproxy.here.shown()})
    moving.kproxy.begin_to_switch()
    writer.wait_more("acked", 200)
    reader.wait_more("got", 200)
    wait_until(
        lambda: not before & moving.kproxy.call(lambda: {one.client for one in moving.kproxy.here.shown()}),
        "no session is left from before",
    )
    moving.switch(group)
    writer.wait_more("acked", 200)
    writer.end()
    sent = [int(value) for value in moving.on_green()]
    acked = {int(line[0]) for line in writer.said("acked")}
    assert (sent, acked) == (sorted(set(sent)), set(sent))
    assert not writer.said("failed")
    reader.wait(lambda: reader.said("got")[-1][2] == str(sent[-1]), "it has read all")
    got = [int(line[2]) for line in reader.said("got")]
    assert set(got) == acked
    steps = [later - earlier for earlier, later in itertools.pairwise(got)]
    assert [step for step in steps if step > 1] == [], "no gap"
    assert len([step for step in steps if step < 1]) <= 2, "it goes back to where it has committed, when it is cut"


@pytest.mark.matrix
@pytest.mark.parametrize("moving", [False], indirect=True, ids=["plain"])
def test_a_connected_franz_go_producer_when_an_upstream_is_added(moving: Moving) -> None:
    """It knows its topic's id from before, and lives through a switch all the same: it learns of no other one."""
    writer = moving.start("franz-go", "produce", moving.topic, "1", "5")
    writer.wait_more("acked", 100)
    before = moving.kproxy.call(lambda: {one.client for one in moving.kproxy.here.shown()})
    moving.kproxy.begin_to_switch()
    wait_until(
        lambda: not before & moving.kproxy.call(lambda: {one.client for one in moving.kproxy.here.shown()}),
        "no session is left from before",
    )
    writer.wait_more("acked", 100)
    moving.switch()
    writer.wait_more("metadata", 8)
    writer.wait_more("acked", 200)
    writer.end()
    sent = [int(value) for value in moving.on_green()]
    acked = {int(line[0]) for line in writer.said("acked")}
    assert (sent, acked) == (sorted(set(sent)), set(sent))
    assert not writer.said("failed") + writer.said("died")
