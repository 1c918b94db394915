"""The benchmark's parts that need no measuring: the programs in C, the frames they send, the list of loads."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from bench import bars, held, report, tables, verify
from bench.loads import LOADS, Kind, Load
from bench.machine import BenchError
from bench.native import FETCH, LIST_OFFSETS, METADATA, PRODUCE, SMALL, Request, build
from bench.peers import DIRECT, HAPROXY, KPROXY, Peer, haproxy_configuration
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.rewrite.walk import Walk
from kproxy.protocol.rewrite.walkplan import plan_for
from kproxy.protocol.wire.api import ApiKey
from kproxy.protocol.wire.errorcodes import ErrorCode
from kproxy.protocol.wire.messages import read_response
from tests.unit.kafka_frames import consumer, frame, metadata, producer, read, request

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the benchmark needs Linux")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bench")
    build(directory)
    return directory


@pytest.fixture
def broker(programs: Path) -> Iterator[int]:
    """The stub broker's port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with subprocess.Popen([programs / "stub", str(port)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield port
        process.terminate()


def load(
    programs: Path, port: int, request: Request, *more: str, mode: str = "run"
) -> subprocess.CompletedProcess[str]:
    command = [str(programs / "load"), mode, "--to", str(port), *request.arguments(), "--warm", "0", *more]
    return subprocess.run(command, input="go\n", capture_output=True, text=True, timeout=60, check=False)


def ask(port: int, key: int, version: int, client_id: bytes, body: bytes) -> bytes:
    """The body of the response, from behind its correlation id."""
    request = struct.pack(">hhih", key, version, 77, len(client_id)) + client_id + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        size, correlation_id = struct.unpack(">ii", stream.read(8))
        assert correlation_id == 77
        response: bytes = stream.read(size - 4)
        assert len(response) == size - 4
        return response


def whole_frame(stream: BinaryIO) -> bytes:
    size = stream.read(4)
    return size + stream.read(*struct.unpack(">i", size))


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize(("partitions", "size"), [(1, 100), (50, 65536), (500, 1 << 20)])
def test_the_stub_brokers_fetch_answer_fits_the_load_generator(
    programs: Path, broker: int, version: int, partitions: int, size: int
) -> None:
    done = load(programs, broker, Request(FETCH, version, partitions, size), "--seconds", "0.05", "--verify")
    assert done.returncode == 0, done.stderr


def test_stalled_readers_get_every_byte_in_the_end(programs: Path, broker: int) -> None:
    done = load(programs, broker, Request(FETCH, 17, 50, 4 << 20), "--connections", "4", mode="stall")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stalled\n")


@pytest.mark.parametrize("request_", [Request(PRODUCE, 9, 1, 16384), Request(PRODUCE, 12, 50, 65536), SMALL])
def test_answers_come_in_order_with_several_requests_in_flight(programs: Path, broker: int, request_: Request) -> None:
    done = load(programs, broker, request_, "--seconds", "0.05", "--connections", "3", "--depth", "5", "--verify")
    assert done.returncode == 0, done.stderr


def test_a_connection_may_carry_one_request_only(programs: Path, broker: int) -> None:
    done = load(programs, broker, SMALL, "--seconds", "0.05", "--connections", "2", mode="connect")
    assert done.returncode == 0, done.stderr


def test_a_new_connection_begins_as_a_clients_does(programs: Path) -> None:
    """ApiVersions, and the request when the answer has come; then another connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [programs / "load", "connect", "--to", str(server.getsockname()[1]), *SMALL.arguments()]
        with subprocess.Popen(command) as process:
            for _ in range(2):
                client, _ = server.accept()
                with client, client.makefile("rb") as stream:
                    for key in (ApiKey.API_VERSIONS, LIST_OFFSETS):
                        asked = whole_frame(stream)
                        assert struct.unpack_from(">h", asked, 4) == (key,)
                        client.setblocking(False)
                        with pytest.raises(BlockingIOError):
                            client.recv(1)
                        client.settimeout(10)
                        client.sendall(struct.pack(">i", 4) + asked[8:12])
                    assert stream.read() == b""
            process.terminate()


CLUSTER = "bench-cluster-id-22chr"


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (CLUSTER, 0, ErrorCode.NONE),
        (CLUSTER, 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another-cluster-22char", 0, ErrorCode.REBOOTSTRAP_REQUIRED),
        (None, -1, ErrorCode.NONE),
    ],
)
def test_the_stub_broker_is_one_node_of_one_cluster(
    broker: int, cluster_id: str | None, node_id: int, error: int
) -> None:
    """As a broker of Kafka 4.4 (KIP-1242), also if the request arrives in pieces."""
    expected = b"" if cluster_id is None else cluster_id.encode()
    body = b"\x09software\x041.0" + bytes([len(expected) + (cluster_id is not None)]) + expected
    body += struct.pack(">i", node_id) + b"\0"
    asked = request(ApiKey.API_VERSIONS, 5, body=body)
    with socket.create_connection(("127.0.0.1", broker), timeout=10) as connection, connection.makefile("rb") as stream:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (asked[:20], asked[20:-1], asked[-1:]):
            connection.sendall(piece)
        answer = read_response(ApiKey.API_VERSIONS, 5, whole_frame(stream), 8)
    assert answer["ErrorCode"] == error
    newest = {api["ApiKey"]: api["MaxVersion"] for api in answer["ApiKeys"]}
    assert newest.get(ApiKey.API_VERSIONS) == (None if error else 5)


@pytest.mark.parametrize(
    ("key", "version", "client_id"),
    [
        (FETCH, 17, b"bench-000050-0000065536"),
        (PRODUCE, 12, b"bench-000050-0000000100"),
        (METADATA, 12, b"bench-001000-0000000000"),
        (METADATA, 1, b"kproxy"),
    ],
)
def test_answers_are_well_formed(broker: int, key: int, version: int, client_id: bytes) -> None:
    """Walked to their end by kproxy's own walk, which is checked against Kafka's classes."""
    plan = plan_for(key, version)
    assert plan is not None
    response = ask(broker, key, version, client_id, b"\0" * 40)
    walk = Walk(plan)
    reached = walk.advance_all(response, 0, len(response))
    assert walk.done
    if key == METADATA:
        nodes = walk.endpoints
        assert [(node.kind, node.node_id) for node in nodes] == [(NodeKind.BROKER, node) for node in range(10)]
        assert all(node.advertised.port == broker for node in nodes)
    else:
        assert not walk.locations
        assert reached == len(response)


@pytest.mark.parametrize("call", [(FETCH, 12), (FETCH, 17), (PRODUCE, 9), (PRODUCE, 12), (METADATA, 12)])
def test_kafka_python_reads_the_answers(broker: int, call: tuple[int, int]) -> None:
    response = ask(broker, *call, b"bench-000050-0000065536", b"\0" * 40)
    message = read(*call, frame(struct.pack(">i", 77), response))
    if call[0] == METADATA:
        assert len(message["brokers"]) == 10
        assert sum(len(topic["partitions"]) for topic in message["topics"]) == 50
    else:
        (topic,) = message["responses"]
        partitions = topic["partitions"] if call[0] == FETCH else topic["partition_responses"]
        assert len(partitions) == 50
        if call[0] == FETCH:
            assert sum(len(partition["records"]) for partition in partitions) == 65536


@pytest.mark.parametrize(
    ("request_", "reader"),
    [
        (Request(FETCH, 12, 50, 65536), consumer.FetchRequest),
        (Request(FETCH, 17, 50, 65536), consumer.FetchRequest),
        (Request(PRODUCE, 9, 50, 65536), producer.ProduceRequest),
        (Request(PRODUCE, 12, 50, 65536), producer.ProduceRequest),
        (Request(METADATA, 12, 50), metadata.MetadataRequest),
        (SMALL, consumer.ListOffsetsRequest),
    ],
)
def test_kafka_python_reads_the_requests(programs: Path, request_: Request, reader: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [programs / "load", "hold", "--to", str(server.getsockname()[1]), *request_.arguments()]
        with subprocess.Popen(command) as process:
            client, _ = server.accept()
            with client, client.makefile("rb") as stream:
                greeting, data = whole_frame(stream), whole_frame(stream)
            process.terminate()
    asked = metadata.ApiVersionsRequest.decode(greeting, version=3, header=True, framed=True)
    assert asked.encode(header=True, framed=True) == greeting
    message = reader.decode(data, version=request_.version, header=True, framed=True)
    if request_.api == PRODUCE:
        (topic,) = message.to_dict(json=False)["topic_data"]
        assert [partition["index"] for partition in topic["partition_data"]] == list(range(50))
        assert sum(len(partition["records"]) for partition in topic["partition_data"]) == 65536
    assert message.encode(header=True, framed=True) == data


def test_the_load_generator_fails_if_the_peer_is_no_broker(programs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with subprocess.Popen(
            [programs / "load", "run", "--to", str(port), *SMALL.arguments()], stderr=subprocess.PIPE, text=True
        ) as process:
            client, _ = silent.accept()
            client.recv(4096)
            client.sendall(struct.pack(">ii", 4, 999))
            assert process.wait(timeout=10) == 1
            assert process.stderr is not None
            assert "correlation id" in process.stderr.read()
            client.close()


def test_loads_have_names_of_their_own() -> None:
    assert len({load.name for load in LOADS}) == len(LOADS)


def test_a_peer_is_a_name_and_a_command_with_both_addresses() -> None:
    peer = Peer.parse("mine=my-proxy --from {listen} --to {upstream}")
    assert peer == Peer("mine", ("my-proxy", "--from", "{listen}", "--to", "{upstream}"))
    with pytest.raises(BenchError, match="upstream"):
        Peer.parse("mine=my-proxy --from {listen}")


def test_haproxy_has_a_section_for_each_broker() -> None:
    text = haproxy_configuration([("127.0.0.1:1", "127.0.0.1:2"), ("127.0.0.1:3", "127.0.0.1:4")], "", 10)
    assert text.count("listen kafka-") == 2
    assert "bind 127.0.0.1:3\n    server broker 127.0.0.1:4 maxconn 10" in text


def test_ratios_are_to_haproxy_and_to_direct() -> None:
    figures = {
        "direct": {"mb_per_s": 200.0, "load_busy": 1.0, "foreign": 0.0},
        "haproxy": {"mb_per_s": 100.0, "cpu_s_per_gb": 0.2, "busy": 1.0, "load_busy": 1.0, "foreign": 0.0},
        "kproxy": {"mb_per_s": 90.0, "cpu_s_per_gb": 0.3, "busy": 1.0, "load_busy": 1.0, "foreign": 0.0},
    }
    bulk = Load("fetch", Kind.BULK, SMALL, 1, 1)
    entry = report.with_ratios(bulk, figures)
    assert entry["to_haproxy"]["kproxy"] == {"mb_per_s": 0.9, "cpu_s_per_gb": 1.5}
    assert entry["to_direct"]["kproxy"] == {"mb_per_s": 0.45}


def bulk(kproxy: float) -> dict[str, Any]:
    """What a run says of a load in which HAProxy moves 100 MB/s."""
    figures = {"cpu_s_per_gb": 0.2, "rss_mib": 40.0, "load_busy": 1.0, "foreign": 0.0}
    speeds = {DIRECT: 200.0, HAPROXY: 100.0, KPROXY: kproxy}
    load = Load("fetch", Kind.BULK, SMALL, 1, 1)
    return report.with_ratios(load, {peer: figures | {"mb_per_s": speed} for peer, speed in speeds.items()})


def test_of_several_figures_the_worst_is_held_against_the_bar() -> None:
    result = {
        "loads": {"fetch-16K-c1": bulk(104.0), "produce-1M-c4": bulk(90.0), "fetch-v17-p1-1M-c4": bulk(10.0)},
        "size": {KPROXY: {"ready_after_s": 0.3, "stalled_64_drained": 64}},
    }
    judged = {bar["bar"]: bar for bar in bars.judge(result)}
    worst = judged["bulk, throughput, to HAProxy's"]
    assert worst == {"bar": worst["bar"], "limit": "≥ 0.95", "figure": 0.9, "where": "produce-1M-c4", "met": False}
    assert judged["bulk, throughput, to HAProxy's, median"]["figure"] == 0.97
    assert judged["Fetch v17, throughput, to HAProxy's"]["where"] == "fetch-v17-p1-1M-c4"
    assert judged["ready after exec"]["met"]
    assert judged["64 stalled readers, drained byte-exact"]["met"]
    assert "real clients, throughput, to HAProxy's" not in judged  # not measured


def test_both_loads_of_a_switch_have_bars() -> None:
    figures = {"held": 0.9, "held_max": 2.1, "dry_run": 9.0, "wrong": 0}
    judged = bars.judge({"loads": {}, "held": {load.name: figures for load in held.LOADS}})
    assert [(bar["where"], bar["met"]) for bar in judged] == [
        ("c10-p50", True),
        ("c10-p50", False),
        ("c100-p50", False),
        ("c10-p50", True),
        ("c10-p50", True),
    ]


def test_every_load_that_a_bar_is_about_is_there() -> None:
    result = {"loads": {load.name: bulk(100.0) for load in LOADS}}
    named = [bar.what for bar in bars.BARS if "HAProxy's" in bar.what and "clients" not in bar.what]
    figures = ("p50_us", "p99_us", "frames_per_s", "cpu_s_per_million")
    for entry in result["loads"].values():
        entry["to_haproxy"][KPROXY] |= dict.fromkeys(figures, 1.0)
        for figure in entry["peers"].values():
            figure |= dict.fromkeys(figures, 1.0)
    assert {bar["bar"] for bar in bars.judge(result)} >= set(named)


def test_tables_replace_only_the_text_between_their_markers() -> None:
    text = (
        "before\n<!-- bench bulk -->\nold\n<!-- end -->\nbetween\n<!-- bench clients -->\nkept\n<!-- end -->\nafter\n"
    )
    filled = tables.fill(text, {"loads": {"fetch-16K-c1": bulk(90.0)}})
    before, _, rest = filled.partition("<!-- bench bulk -->\n")
    table, _, rest = rest.partition("<!-- end -->\n")
    assert before == "before\n"
    assert "old" not in table
    rows = [line.split("|")[1:-1] for line in table.splitlines()]
    assert len({len(row) for row in rows}) == 1
    assert [cell.strip() for cell in rows[2]][:5] == ["`fetch-16K-c1`", "200", "100", "90", "0.90"]
    assert rest == "between\n<!-- bench clients -->\nkept\n<!-- end -->\nafter\n"


def test_the_document_has_a_place_for_every_table() -> None:
    text = tables.DOCUMENT.read_text()
    assert sorted(re.findall(r"<!-- bench (\w+) -->", text)) == sorted(tables.TABLES)


def test_the_idle_time_of_a_core_is_that_core_s(programs: Path, broker: int) -> None:
    done = load(programs, broker, SMALL, "--seconds", "0.05")
    cores = [line for line in Path("/proc/stat").read_text().splitlines() if re.match(r"cpu\d", line)]
    assert len(json.loads(done.stdout)["idle"]) == len(cores)


def test_a_run_with_some_migration_loads_keeps_the_other_rows() -> None:
    def run(**cpu: float) -> dict[str, Any]:
        entry = {"us_per_record": 1.0, "first_cpu_s_per_gb": 2.0, "mb_per_s": 3.0}
        loads = {name: {**entry, "cpu_s_per_gb": value} for name, value in cpu.items()}
        return {"loads": {}, "migrate": {"verify": {"loads": loads, "start_cpu_s": 7.0, "first_cpu_s": 8.0}}}

    text = "<!-- bench migrateverify -->\n<!-- end -->\n"
    text = tables.fill(text, run(one=11.0, two=12.0))
    text = tables.fill(text, run(two=22.0, three=33.0))
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in text.splitlines()[3:-1]]
    assert rows == [
        ["`one`", "11"], ["`two`", "22"], ["Spark's start, CPU-s", "7"],
        ["a first verification of 50 MB, CPU-s", "8"], ["`three`", "33"],
    ]  # fmt: skip


def test_the_bar_of_verify_is_about_1_kb() -> None:
    loads = {"verify-1KB-none-b16": 11.0, "verify-1KB-lz4-b16": 12.0, "verify-100B-none-b160": 99.0}
    entries = {name: {"cpu_s_per_gb": value} for name, value in loads.items()}
    (judged,) = bars.judge({"loads": {}, "migrate": {"loads": {}, "verify": {"loads": entries}}})
    assert (judged["where"], judged["met"]) == ("verify-1KB-lz4-b16", True)
    assert set(loads) == {verify.PREFIX + load.name for load in verify.LOADS}
