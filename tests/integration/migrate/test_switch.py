"""A kproxy with two clusters: hold, flip, commit, release and undo over HTTP, under load, and killed in every phase."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.clients.flow import Flow, JavaFlow, create_topic
from tests.harness.clients.going import python
from tests.harness.clients.rawclient import API_VERSIONS, RawClient
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.carried import Numbers, carry, in_log, positions
from tests.harness.migration.moving import rows
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import wait_logged, wait_until
from tests.harness.smallfs import fill, small_file_system
from tests.harness.topics import unique

pytestmark = pytest.mark.integration

PARTITIONS = 3
_REBOOTSTRAP_REQUIRED = 129
Start = Callable[..., Switched]


@pytest.fixture
def topic(sides: TwoSides) -> str:
    """On both."""
    name = unique("switched")
    for bootstrap in (sides.source, sides.target):
        create_topic(bootstrap, name, PARTITIONS)
    return name


def test_a_switch_and_an_undone_switch_lose_and_double_nothing(sides: TwoSides, start: Start, topic: str) -> None:
    mine, kproxy = sides.migration(), start()
    flow = Flow(kproxy.bootstrap, topic, PARTITIONS, **{"auto.commit.interval.ms": 200})
    flow.log = Numbers(contiguous=True)
    with flow:
        wait_until(lambda: len(positions(sides.source, f"{topic}-readers")) == PARTITIONS, "the group commits")
        carry(mine, topic, f"{topic}-readers")
        kproxy.must("hold", "undone", to=GREEN, seconds=2)
        wait_until(lambda: kproxy.seen()["phase"] == "serving", "the deadline undoes it")
        assert kproxy.seen()["last"]["outcome"] == "undone"
        flow.wait_flowing()
        kproxy.hold()
        assert kproxy.must("hold", to=GREEN, seconds=20)["phase"] == "held"
        carry(mine, topic, f"{topic}-readers")
        kproxy.must("flip")
        kproxy.must("commit")
        kproxy.must("release")
        flow.wait_flowing()
    assert in_log(sides.target, topic, PARTITIONS) == [list(range(sent)) for sent in flow.acked]
    old = in_log(sides.source, topic, PARTITIONS)
    assert all(numbers == list(range(len(numbers))) for numbers in old)
    assert all(len(numbers) < sent for numbers, sent in zip(old, flow.acked, strict=True))


def test_java_goes_on_where_it_was(sides: TwoSides, start: Start, topic: str, tmp_path: Path) -> None:
    mine, kproxy = sides.migration(), start()
    flow = JavaFlow(sides.clusters[0].programs, kproxy.bootstrap, topic, tmp_path)
    flow.log = Numbers(contiguous=False)
    with flow:
        wait_until(lambda: len(positions(sides.source, f"{topic}-java")) == PARTITIONS, "the group commits")
        carry(mine, topic, f"{topic}-java")
        kproxy.hold()
        carry(mine, topic, f"{topic}-java")
        kproxy.must("flip")
        kproxy.must("release")
        flow.wait_flowing()
    logs = in_log(sides.target, topic, PARTITIONS)
    assert sorted(number for numbers in logs for number in numbers) == list(range(flow._sent))
    assert all(numbers == sorted(numbers) for numbers in logs)


def test_groups_continue_after_a_kproxy_killed_after_a_switch(
    sides: TwoSides, start: Start, topic: str, tmp_path: Path
) -> None:
    """It does not know any more who has asked for a position since, and gives records to nobody who has not asked. So
    it lets the members of groups ask again."""
    mine, kproxy = sides.migration(), start()
    # It never commits: a commit that is refused would make it join anew as well. The group forgets the former member
    # after the session's timeout.
    quick = ["enable.auto.commit=false", "session.timeout.ms=6000"]
    java = JavaFlow(sides.clusters[0].programs, kproxy.bootstrap, topic, tmp_path, consumer_properties=quick)
    java.log = Numbers(contiguous=False)
    with java:
        carry(mine, topic)
        kproxy.hold()
        carry(mine, topic)
        kproxy.must("flip")
        kproxy.must("release")
        java.wait_flowing()
        kproxy.again()
        java.wait_flowing()


@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM])
def test_a_consumer_that_returns_after_a_restart_and_a_switch(
    sides: TwoSides, start: Start, topic: str, tmp_path: Path, ends: signal.Signals
) -> None:
    """The kproxy that knew that it has fetched has ended, in the hold or in good order before it. The next one has
    never seen it, and does not take its position of the former cluster for one of this."""
    mine, kproxy = sides.migration(), start()
    _write(sides.source, topic, range(50))
    carry(mine, topic)
    _write(sides.source, topic, range(50, 100))
    properties = {"bootstrap.servers": kproxy.bootstrap, "group.id": unique("g"), "enable.auto.commit": "false"}
    reader = python("confluent", ["seek", topic, "0", "0"], properties, tmp_path / "reader")
    with reader:
        reader.wait_more("got", 100)
        reader.process.send_signal(signal.SIGSTOP)
        try:
            if ends is signal.SIGKILL:
                kproxy.hold()
                kproxy.again()
                assert kproxy.wait_for("held")
            else:
                kproxy.process.send_signal(ends)
                kproxy.process.wait(60)
                kproxy.start()
                kproxy.hold()
            carry(mine, topic)
            kproxy.must("flip")
            kproxy.must("release")
            _write(sides.target, topic, range(100, 110))
        finally:
            reader.process.send_signal(signal.SIGCONT)
        wait_until(lambda: kproxy.seen()["waiting"], "it gets nothing")
        (waiting,) = kproxy.seen()["waiting"]
        assert waiting["topic"] == topic
        assert len(reader.said("got")) == 100
    assert in_log(sides.target, topic, 1) == [list(range(110))]
    assert rows(sides.target, topic, 0)[100][0] > 100, "its position is another record's here"


def _write(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(60) == 0


def test_a_flip_that_is_undone_leads_back(sides: TwoSides, start: Start, topic: str) -> None:
    kproxy = start()
    flow = Flow(kproxy.bootstrap, topic, PARTITIONS)
    flow.log = Numbers(contiguous=True)
    with flow:
        kproxy.must("hold", to=GREEN, seconds=5)
        kproxy.wait_for("held")
        kproxy.must("flip")
        kproxy.must("undo")
        flow.wait_flowing()
        kproxy.must("hold", "y", to=GREEN, seconds=3)
        kproxy.wait_for("held")
        kproxy.must("flip", "y")
        wait_until(lambda: kproxy.seen()["phase"] == "serving", "the deadline leads back")
        assert kproxy.seen()["active"] == BLUE
        flow.wait_flowing()
    assert in_log(sides.source, topic, PARTITIONS) == [list(range(sent)) for sent in flow.acked]
    assert in_log(sides.target, topic, PARTITIONS) == [[]] * PARTITIONS


def test_a_client_that_expects_the_former_cluster_bootstraps_again(sides: TwoSides, start: Start) -> None:
    """At the port of a node and at the bootstrap port; after an undo, one that expects the other cluster (KIP-1242)."""
    kproxy = start()
    blue, green = (cluster.cluster_id for cluster in sides.clusters)

    def errors() -> list[tuple[int, int]]:
        """The answers to one that expects blue, and to one that expects green, at the two ports."""
        return [
            tuple(error_of_versions(address, cluster, node) for cluster in (blue, green))  # type: ignore[misc]
            for address in (local, kproxy.bootstrap)
        ]

    (node,) = sides.clusters[0].node_ids
    local = kproxy.node(node)["local"]
    at_blue, at_green = [(0, _REBOOTSTRAP_REQUIRED)] * 2, [(_REBOOTSTRAP_REQUIRED, 0)] * 2
    assert errors() == at_blue
    kproxy.hold("undone")
    assert errors() == at_blue
    kproxy.must("flip", "undone")
    assert errors() == at_green
    kproxy.must("undo", "undone")
    assert errors() == at_blue
    kproxy.hold()
    for do in ("flip", "commit", "release"):
        kproxy.must(do)
        assert errors() == at_green
    assert kproxy.metric("kproxy_refused_total", reason="misrouted") == 2 * 7
    kproxy.make_part("some", "raw")
    assert errors() == at_green, "in a part, too"


def error_of_versions(address: str, cluster_id: str, node: int) -> int:
    """Return the error of ApiVersions 5 to a client that expects this node of this cluster."""
    names = b"".join(bytes([len(name) + 1]) + name for name in (b"raw", b"1", cluster_id.encode()))
    with RawClient(address) as client:
        answer = client.ask(API_VERSIONS, 5, b"\0" + names + struct.pack(">ib", node, 0))
    return int(struct.unpack_from(">h", answer)[0])


PHASES = ("holding", "held", "flipped", "committed", "serving")


def lead_to(kproxy: Switched, phase: str, client: Callable[[], object]) -> None:
    """Bring it into this phase of switch x, or with "serving" beyond it. `client` makes a write that has no answer."""
    if phase == "holding":
        client()
        wait_until(lambda: kproxy.seen()["unanswered"] == 1, "half a write has passed")
        kproxy.must("hold", to=GREEN, seconds=25)
        return
    kproxy.hold()
    for do in ("flip", "commit", "release")[: PHASES.index(phase) - 1]:
        kproxy.must(do)


@pytest.mark.parametrize("phase", PHASES)
def test_a_kproxy_that_is_killed_goes_on_in_the_same_phase(
    sides: TwoSides, start: Start, topic: str, phase: str
) -> None:
    kproxy = start()
    with ExitStack() as held:
        lead_to(kproxy, phase, lambda: held.enter_context(half_a_write(kproxy.bootstrap, topic)))
        before = kproxy.seen()
        assert before["phase"] == phase
        kproxy.again()
    after = kproxy.seen()
    assert {**before, **after, "doubts": before["doubts"]} == {**after, "doubts": before["doubts"]}
    assert kproxy.status()["switch"]["active"] == (BLUE if phase in ("holding", "held") else GREEN)
    if phase == "holding":
        assert after["doubts"]
        code, answer = kproxy.tell("flip")
        assert (code, answer["cluster"]["phase"]) == (409, "holding")
        kproxy.must("undo")
        return
    code, text = kproxy.get("/readyz")
    if phase == "committed":
        assert code == 503
        assert "switch x has committed and holds all writes" in text
        assert kproxy.tell("undo")[0] == 409
        assert kproxy.must("undo", force=True)["active"] == BLUE
        return
    assert code == 200
    for do in ("flip", "commit", "release"):
        kproxy.must(do)  # what is so already is so
    assert kproxy.seen()["active"] == GREEN


@contextmanager
def half_a_write(bootstrap: str, topic: str) -> Iterator[None]:
    """A connection whose client has sent the beginning of a Produce request, and is silent then."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(struct.pack(">ihhih", 1000, 0, 9, 1, -1))
        client.sendall(b"\0\0" + struct.pack(">h", -1) + bytes(20))  # no transactional id, acks=all
        yield


def test_writes_are_held_from_the_first_byte_after_a_restart(sides: TwoSides, start: Start, topic: str) -> None:
    kproxy = start()
    kproxy.hold()
    kproxy.must("flip")
    kproxy.must("commit")
    kproxy.again()
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kproxy.bootstrap})
    producer.produce(topic, b"0", on_delivery=lambda error, _: failed.append(error))
    wait_until(lambda: producer.poll(0.05) == 0 and kproxy.seen()["held"] == 1, "the write waits")
    assert failed == []
    assert in_log(sides.source, topic, PARTITIONS) == in_log(sides.target, topic, PARTITIONS) == [[]] * PARTITIONS
    kproxy.must("release")
    assert producer.flush(60) == 0
    assert failed == [None]
    assert sum(map(len, in_log(sides.target, topic, PARTITIONS))) == 1


def test_no_records_are_deleted_at_an_offset_of_the_old_cluster(
    sides: TwoSides, start: Start, topic: str, tmp_path: Path
) -> None:
    """A real Java client asks for it in the hold, and repeats it after the flip."""
    producer = Producer({"bootstrap.servers": sides.source})
    for number in range(100):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(60) == 0
    kproxy = start()
    kproxy.hold()
    carry(sides.migration(), topic)
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 60}]}
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    words = ["--bootstrap-server", kproxy.bootstrap, "--offset-json-file", str(tmp_path / "wanted.json")]
    command = sides.clusters[0].programs.command("kafka-delete-records", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        try:
            wait_until(lambda: kproxy.seen()["held"] == 1, "the request waits")
            for step in ("flip", "commit", "release"):
                kproxy.must(step)
            said, _ = tool.communicate(timeout=60)
        finally:
            tool.kill()
    assert "OffsetOutOfRangeException" in said
    for bootstrap in (sides.source, sides.target):
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("begin")})
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), 30)[0] == 0
        reader.close()


def test_what_a_killed_kproxy_left_is_waited_for(start: Start) -> None:
    """By one process, or by several that end in good order one after another, in whatever way."""
    kproxy = start("kproxy", "--admin-quit", settled=False)
    left = 310.0
    for end in (signal.SIGTERM, signal.SIGINT, "/quit"):
        code, answer = kproxy.tell("hold", to=GREEN, seconds=25)
        assert code == 409
        assert "was started or killed, or got its upstreams, a short time ago" in answer["problem"]
        if isinstance(end, str):
            kproxy.post(end)
        else:
            kproxy.process.send_signal(end)
        kproxy.process.wait(60)
        kept = json.loads(kproxy.state_file.read_text())
        assert kept["ended"] is True
        assert kept["unsure"] < left, "it goes on counting"
        left = kept["unsure"]
        kproxy.state_file.write_text(json.dumps({**kept, "unsure": left - 50, "unknown": 0}))
        kproxy.start()
    kproxy.process.terminate()
    kproxy.process.wait(60)
    kproxy.state_file.write_text(json.dumps({**kept, "unsure": 2}))  # as if most of them had passed
    kproxy.start()
    kproxy.hold(seconds=20)
    kproxy.must("undo")
    kproxy.kill()
    assert json.loads(kproxy.state_file.read_text())["ended"] is False
    kproxy.start()
    assert "was started or killed" in kproxy.tell("hold", "y", to=GREEN, seconds=25)[1]["problem"]


def test_a_full_disk_does_not_make_a_hold_longer(sides: TwoSides, start: Start, topic: str, tmp_path: Path) -> None:
    """Nor an undo impossible: a hold keeps room for it. In the second hold, somebody has taken that too."""
    with small_file_system(tmp_path / "kproxy" / "state") as small:
        kproxy = start()
        with Flow(kproxy.bootstrap, topic, PARTITIONS) as flow:
            kproxy.hold("x1")
            fill(small)
            assert kproxy.must("undo", "x1")["last"]["outcome"] == "undone"
            flow.wait_flowing()
            (small / "filler").unlink()
            kproxy.hold("x2", seconds=3)
            (small / ".cluster-default.json.new").unlink()
            fill(small)
            for do in ("flip", "undo"):
                code, answer = kproxy.tell(do, "x2")
                assert code == 409
                assert "No space left on device" in answer["problem"]
                assert "No space left on device" in answer["cluster"]["problem"]
            seen = kproxy.wait_for("serving")
            assert (seen["active"], seen["last"]["outcome"]) == (BLUE, "undone")
            assert "No space left on device" in seen["problem"]
            assert kproxy.get("/readyz")[0] == 200, "clients can write"
            flow.wait_flowing()
            code, answer = kproxy.tell("hold", "x3", to=GREEN, seconds=20)
            assert (code, "No space left on device" in answer["problem"]) == (409, True)
            (small / "filler").unlink()
            wait_until(lambda: not kproxy.seen()["problem"], "the disk has the state")
            kproxy.hold("x4")
            kproxy.must("undo", "x4")
        wait_logged(kproxy, "the deadline has passed: the switch is undone, although")
        kproxy.process.terminate()
        kproxy.process.wait(60)


def test_one_state_directory_is_for_one_kproxy(start: Start) -> None:
    kproxy = start()
    other = subprocess.run(
        kproxy.command("--listen", "127.0.0.1:0", "--no-admin"), capture_output=True, text=True, timeout=60, check=False
    )
    assert other.returncode == 2
    assert "another kproxy uses it" in other.stderr
    assert len(other.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is not JSON"),
        (b'{"format": 1', "it is not JSON"),
        (b"[" * 20_000, "it is not JSON"),
        (b'{"format": 3, "cluster": "default", "state": {}}', "its format is not 1 or 2"),
        (b'{"format": 1, "cluster": "other", "state": {"active": "blue", "phase": "serving"}}', "another cluster"),
        (b'{"format": 1, "cluster": "default", "state": {"active": "red", "phase": "serving"}}', "upstream red"),
        (b'{"format": 1, "cluster": "default", "state": {"active": "blue", "phase": "flipped"}}', "does not say which"),
        (b" " * 600_000, "larger than 512 KiB"),
    ],
    ids=["empty", "cut", "deep", "format", "cluster", "upstream", "phase", "large"],
)
def test_a_state_that_is_no_good_stops_the_start(start: Start, content: bytes, says: str) -> None:
    kproxy = start()
    kproxy.kill()
    kproxy.state_file.write_bytes(content)
    again = subprocess.run(kproxy.command(), capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 2
    assert says in again.stderr
    assert len(again.stderr.splitlines()) == 1


def test_who_may_switch_and_what_is_no_command(start: Start) -> None:
    kproxy = start()
    for token in (None, "wrong"):
        assert kproxy.ask(token=token)[0] == 401
        assert kproxy.ask({"cluster": "default", "switch": "x", "do": "flip"}, token=token)[0] == 401
    assert kproxy.ask({"do": "flip"}, Origin="http://a.site")[0] == 403
    assert kproxy.ask(b"{" + b" " * 50_000 + b"}")[0] == 413
    for body in (b"", b"[]", b"null", b'{"do"', b"\xff", b'{"cluster": NaN}'):
        assert kproxy.ask(body)[0] == 400
    right = {"cluster": "default", "switch": "x", "do": "hold", "to": GREEN, "seconds": 5}
    for wrong, says in [
        ({"do": "jump"}, "'do' must be one of hold, flip"),
        ({"cluster": "other"}, "there is no cluster other"),
        ({"cluster": 7}, "'cluster' must be a text"),
        ({"switch": ""}, "'switch' must be"),
        ({"switch": "a\nb"}, "without control characters"),
        ({"switch": "x" * 300}, "1 to 200 characters"),
        ({"to": ""}, "hold needs"),
        ({"seconds": "5"}, "'seconds' must be a number"),
        ({"seconds": -1}, "'seconds' must be a number"),
        ({"seconds": True}, "'seconds' must be a number"),
        ({"after": 1.5}, "'after' must be a whole number"),
        ({"force": 1}, "'force' must be true or false"),
        ({"sceonds": 5}, "'sceonds', which means nothing here"),
    ]:
        code, answer = kproxy.ask({**right, **wrong})
        assert (code, says in answer["problem"]) == (400, True), answer
    for wrong, says in [
        ({"to": "red"}, "there is no upstream red; there are blue, green"),
        ({"to": BLUE}, "blue is already the active upstream"),
        ({"seconds": 26}, "from 1 to 25 seconds"),
        ({"after": 7}, "out of date"),
        ({"do": "release"}, "there is no switch x under way"),
    ]:
        code, answer = kproxy.ask({**right, **wrong})
        assert (code, says in answer["problem"]) == (409, True), answer
    assert kproxy.seen()["phase"] == "serving"


def test_commands_may_be_repeated_and_others_wait_for_their_turn(start: Start) -> None:
    kproxy = start()
    kproxy.hold()
    for do in ("flip", "commit"):
        first, second = kproxy.must(do), kproxy.must(do)
        assert first == second
        code, answer = kproxy.tell(do, "other")
        assert (code, "switch x is under way" in answer["problem"]) == (409, True)
    kproxy.must("claim", driver="2")
    code, answer = kproxy.tell("release", driver="1")
    assert (code, "another driver (2) has taken over" in answer["problem"]) == (409, True)
    assert kproxy.tell("release")[0] == 409
    kproxy.must("release", driver="2")
    kproxy.must("release", driver="2")
    assert kproxy.metric("kproxy_switch_active", upstream=GREEN) == 1
    assert kproxy.metric("kproxy_switch_phase", phase="serving") == 1
    assert kproxy.metric("kproxy_switch_last_hold_seconds") > 0


def test_one_cluster_twice_is_not_flipped_to(sides: TwoSides, tmp_path: Path) -> None:
    blue = sides.clusters[0].bootstrap
    with Switched(tmp_path / "kproxy", blue, blue) as kproxy:
        code, answer = kproxy.tell("hold", to=GREEN, seconds=5)
        assert (code, "blue and green are the same Kafka cluster" in answer["problem"]) == (409, True), answer


def test_a_reload_waits_for_a_switch_and_follows_it(start: Start) -> None:
    kproxy = start("kproxy", "--admin-reload")
    kproxy.hold()
    assert "is in switch x: reload when that is over" in reloaded(kproxy)
    for do in ("flip", "commit", "release"):
        kproxy.must(do)
    assert "nothing has changed" in reloaded(kproxy)
    kproxy.configure(*kproxy.upstreams, active=GREEN)
    assert "nothing has changed" in reloaded(kproxy)
    assert kproxy.seen()["configured"] == GREEN
    kproxy.configure(*kproxy.upstreams, active=BLUE)
    assert "active has changed" in reloaded(kproxy)


def reloaded(kproxy: Switched) -> str:
    code, text = kproxy.post("/reload")
    assert code in (200, 400)
    return text
