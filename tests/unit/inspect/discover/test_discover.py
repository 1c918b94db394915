"""What `kproxy discover` makes of what it sees: Docker's and Kubernetes' own forms, files, this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.inspect.discover import docker, files, kubernetes, output, sockets
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult
from kproxy.net.dial import engine as engines
from tests.harness.servers.engine import Engine, ok
from tests.harness.servers.kube_forward import Forwarding, forwarding

# Docker's part


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "docker.sock")
    yield made
    made.close()


def found(engine: Engine) -> list[ClusterCandidate]:
    place = docker.search_docker("Docker", engine.path)
    assert place.problem == ""
    return list(place.candidates)


THREE = {
    "KAFKA_LISTENERS": "BOB://0.0.0.0:29092,FRED://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BOB:PLAINTEXT,FRED:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


def test_three_listeners_of_which_one_is_for_this_machine(engine: Engine) -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "BOB://kafka:29092,FRED://localhost:9092"}
    ports = {"9092/tcp": ["0.0.0.0:9092", ":::9092"], "29092/tcp": ["0.0.0.0:29092"]}
    engine.add("kafka", "apache/kafka:4.1.0", {**THREE, **advertised}, ports)
    (one,) = found(engine)
    assert one.description == "kafka (apache/kafka:4.1.0)"
    assert one.words == ()
    assert one.notes == ("clients on this machine need no kproxy: bootstrap.servers=localhost:9092",)


def test_a_published_port_whose_address_works_only_inside(engine: Engine) -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "BOB://kafka:29092,FRED://kafka:9092"}
    engine.add("kafka", "confluentinc/cp-kafka:7.9.0", {**THREE, **advertised}, {"9092/tcp": ["0.0.0.0:19092"]})
    (one,) = found(engine)
    assert one.words == ("run", "-b", "localhost:19092")


def test_brokers_of_one_project_are_one_cluster(engine: Engine) -> None:
    for number in (1, 2, 3):
        advertised = {"KAFKA_ADVERTISED_LISTENERS": f"BOB://kafka-{number}:29092"}
        ports = {"29092/tcp": [f"127.0.0.1:{9091 + number}"]} if number < 3 else {}
        engine.add(f"kafka-{number}", "apache/kafka:4.1.0", {**THREE, **advertised}, ports, "shop")
    engine.add(
        "other", "bitnami/kafka:4.0", {"KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092"}, {"9092/tcp": ["0.0.0.0:9999"]}, "x"
    )
    shop, other = found(engine)
    assert shop.words == ("run", "-b", "localhost:9092,localhost:9093")
    assert shop.notes == ("no port of kafka-3 can be reached from here",)
    assert other.words == ("run", "-b", "localhost:9999")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere containers are in a virtual machine")
def test_nothing_is_published(engine: Engine) -> None:
    """On Linux, the container's own address is a neighbour."""
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "BOB://kafka:29092"}
    env = {**THREE, "KAFKA_LISTENERS": "BOB://:29092", **advertised}
    engine.add("kafka", "apache/kafka:4.1.0", env, address="172.18.0.10")
    engine.add("lonely", "apache/kafka:4.1.0", env, project="other")
    near, lonely = found(engine)
    assert near.words == ("run", "-b", "172.18.0.10:29092")
    assert lonely.words == ()
    assert lonely.notes == ("no port of it is published, so this machine cannot reach it",)


def test_tls_and_logins_are_said(engine: Engine) -> None:
    env = {
        "KAFKA_CFG_LISTENERS": "CLIENT://:9092", "KAFKA_CFG_ADVERTISED_LISTENERS": "CLIENT://kafka:9092",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_SSL",
    }  # fmt: skip
    engine.add("kafka", "bitnami/kafka:4.0", env, {"9092/tcp": ["0.0.0.0:9092"]})
    (one,) = found(engine)
    assert one.notes == ("the listener is SASL_SSL: add --tls or --sasl as your clients have it",)


def test_redpanda(engine: Engine) -> None:
    command = ["redpanda", "start", "--kafka-addr", "internal://0.0.0.0:9092,external://0.0.0.0:19092",
               "--advertise-kafka-addr=internal://redpanda-0:9092,external://localhost:19092"]  # fmt: skip
    engine.add("redpanda-0", "docker.redpanda.com/redpandadata/redpanda:v25.1.1", command=command,
               ports={"19092/tcp": ["0.0.0.0:19092"]})  # fmt: skip
    (one,) = found(engine)
    assert one.words == ()
    assert "bootstrap.servers=localhost:19092" in one.notes[0]


def test_what_is_no_broker_is_left_out(engine: Engine) -> None:
    others = (
        "provectuslabs/kafka-ui:latest", "confluentinc/cp-schema-registry:7.9.0", "confluentinc/cp-kafka-connect:7.9.0",
        "postgres:17", "redpandadata/console:v3", "danielqsj/kafka-exporter",
    )  # fmt: skip
    for image in others:
        engine.add(image.rpartition("/")[2].partition(":")[0], image, ports={"9092/tcp": ["0.0.0.0:9092"]})
    assert found(engine) == []


def test_an_image_of_one_s_own(engine: Engine) -> None:
    engine.add("broker", "registry.example/team/kafka:1", ports={"9092/tcp": ["0.0.0.0:9192"]})
    (one,) = found(engine)
    assert one.words == ("run", "-b", "localhost:9192")


HOSTILE = {
    "nothing": b"",
    "no HTTP": b"\x16\x03\x01\x00",
    "an error": b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
    "deep": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[",
    "huge": b"HTTP/1.1 200 OK\r\n\r\n" + bytes(9 * 1024 * 1024),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_an_engine_that_is_none(how: str, engine: Engine) -> None:
    engine.answer = lambda target: HOSTILE[how]
    place = docker.search_docker("Docker", engine.path)
    assert place.candidates == ()
    assert place.problem.startswith(str(engine.path))
    assert len(place.problem) < 400


@pytest.mark.parametrize(
    "listed", [{}, [], [None, 1, "x"], [{"Id": 7, "Image": "apache/kafka"}], [{"Id": "../x", "Image": "apache/kafka"}]]
)
def test_an_engine_that_lists_nonsense(listed: object, engine: Engine) -> None:
    body = json.dumps(listed).encode()
    engine.answer = lambda target: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    assert docker.search_docker("Docker", engine.path).candidates in ((), [])


@pytest.mark.parametrize(
    "told",
    [None, [], {}, {"Config": {"Image": "apache/kafka"}}, {"Config": None, "Name": "x", "NetworkSettings": {}}],
    ids=str,
)
def test_a_container_that_is_none(told: Any, engine: Engine) -> None:
    engine.containers["a" * 64] = {"Config": {"Image": "apache/kafka"}}
    engine.answer = lambda target: None if target.endswith("containers/json") else ok(told)
    assert found(engine) == []


def test_the_name_of_a_container_is_escaped(engine: Engine) -> None:
    engine.add("a\x1b[31m", "apache/kafka:4\x1b[0m", {"KAFKA_LISTENERS": "PLAINTEXT://:9092"})
    (one,) = found(engine)
    assert "\x1b" not in "".join(output.text([PlaceResult("Docker", [one])]))


def test_an_engine_that_says_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_SECONDS", 0.2)
    silent = threading.Event()
    engine.answer = lambda target: b"" if silent.wait(5) else None
    assert "timed out" in docker.search_docker("Docker", engine.path).problem
    silent.set()


def test_no_right_to_the_socket(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(engines._UnixConnection, "connect", refuse)
    assert "permission denied: join its group" in docker.search_docker("Docker", engine.path).problem


def test_which_sockets(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert ("Docker", engine.path) in list(engines.find_sockets())
    (tmp_path / "podman").mkdir()
    (tmp_path / "podman" / "podman.sock").touch()
    assert ("Podman", tmp_path / "podman" / "podman.sock") in list(engines.find_sockets())


def test_the_sockets_of_programs_for_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, also if Docker's usual path is a link to one of them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for folder in (".docker/run", ".colima/default"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "docker.sock").touch()
    link = tmp_path / "docker.sock"
    link.symlink_to(tmp_path / ".docker/run/docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{link}")
    in_home = [(name, path) for name, path in engines.find_sockets() if path.is_relative_to(tmp_path)]
    assert in_home == [("Docker", link), ("Colima", tmp_path / ".colima/default/docker.sock")]


# Kubernetes


class Cluster:
    """What an API server lists, by the path of what is asked for."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.forbidden: set[str] = set()

    def add(self, path: str, *items: dict[str, Any]) -> None:
        self.documents[f"{path}?limit=500"] = {"items": list(items)}


def named(name: str, namespace: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}


STRIMZI, CFK, SERVICES = (
    "/apis/kafka.strimzi.io/{version}/kafkas", "/apis/platform.confluent.io/v1beta1/kafkas", "/api/v1/services",
)  # fmt: skip


async def asked(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: str | None = None
) -> PlaceResult:
    async with forwarding() as api:
        api.documents, api.forbidden = cluster.documents, cluster.forbidden
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "config")))
        return await kubernetes.search_kubernetes(None, namespace)


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
async def test_a_cluster_of_strimzi(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    plain = {"name": "plain", "port": 9092, "type": "internal", "tls": False}
    tls = {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "scram-sha-512"}}
    outside = {"name": "external", "port": 9094, "type": "loadbalancer", "tls": False}
    cluster.add(
        STRIMZI.format(version=version),
        named("shop", "kafka", kafka={"listeners": [outside, tls, plain]}),
        named("safe", "kafka", kafka={"listeners": [tls]}),
        named("BAD NAME", "kafka", kafka={"listeners": [plain]}),
        named("odd", "kafka", kafka={"listeners": "x"}),
    )
    ports = [{"name": "tcp-clients", "port": 9092}]
    cluster.add(SERVICES, named("shop-kafka-bootstrap", "kafka", {"strimzi.io/cluster": "shop"}, ports=ports))
    place = await asked(cluster, tmp_path, monkeypatch)
    assert place.problem == ""
    shop, safe = place.candidates
    assert shop.words == ("run", "--via", "k8s://kafka", "-b", "shop-kafka-bootstrap:9092")
    assert shop.notes == ()
    assert safe.words == (
        "run",
        "--via",
        "k8s://kafka",
        "-b",
        "safe-kafka-bootstrap:9093",
        "--tls",
        "--tls-ca",
        "ca.crt",
    )
    assert "get secret safe-cluster-ca-cert" in safe.notes[0]
    assert "wants a login (scram-sha-512)" in safe.notes[1]


async def test_a_cluster_of_confluent_and_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.add(CFK, named("kafka", "confluent", listeners={"internal": {"tls": {"enabled": True}}}))
    app = {"app.kubernetes.io/instance": "mine"}
    cluster.add(
        SERVICES,
        named("mine-headless", "dev", app, clusterIP="None", ports=[{"name": "tcp-client", "port": 9092}]),
        named("mine", "dev", app, ports=[{"name": "tcp-client", "port": 9092}, {"name": "tcp-metrics", "port": 9308}]),
        named("mine-metrics", "dev", app, ports=[{"name": "http", "port": 9092}]),
        named("kafka", "confluent", ports=[{"name": "internal", "port": 9071}]),
        named("web", "dev", ports=[{"name": "http", "port": 80}]),
        named("my-kafka", "prod", ports=[{"name": "kafka", "port": 19092}]),
        {"spec": {"ports": [{"port": 9092}]}},
    )
    place = await asked(cluster, tmp_path, monkeypatch)
    assert [one.words for one in place.candidates] == [
        ("run", "--via", "k8s://confluent", "-b", "kafka:9071"),
        ("run", "--via", "k8s://dev", "-b", "mine:9092"),
        ("run", "--via", "k8s://prod", "-b", "my-kafka:19092"),
    ]
    assert "add --tls" in place.candidates[0].notes[0]


async def test_who_may_see_one_namespace_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.forbidden = {"/api/v1/services"}
    cluster.add("/api/v1/namespaces/dev/services", named("kafka", "dev", ports=[{"port": 9092}]))
    place = await asked(cluster, tmp_path, monkeypatch)
    assert place.problem.endswith("name one namespace with --namespace")
    place = await asked(cluster, tmp_path, monkeypatch, "dev")
    assert [one.words for one in place.candidates] == [("run", "--via", "k8s://dev", "-b", "kafka:9092")]


def services(names: range, following: str = "") -> dict[str, Any]:
    items = [named(f"kafka-{number}", "dev", ports=[{"port": 9092}]) for number in names]
    return {"items": items, "metadata": {"continue": following}}


async def test_a_list_of_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.documents["/api/v1/services?limit=500"] = services(range(3), "a/b")
    cluster.documents["/api/v1/services?limit=500&continue=a/b"] = services(range(3, 5))
    place = await asked(cluster, tmp_path, monkeypatch)
    assert [one.words[-1] for one in place.candidates] == [f"kafka-{number}:9092" for number in range(5)]
    assert (place.problem, place.left_out) == ("", "")


async def test_a_list_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.documents["/api/v1/services?limit=500"] = services(range(3), "x")
    cluster.documents["/api/v1/services?limit=500&continue=x"] = services(range(3, 5), "x")
    place = await asked(cluster, tmp_path, monkeypatch)
    assert len(place.candidates) == 5
    assert place.left_out == "too many services: name one namespace with --namespace"
    text = " ".join(line.strip() for line in output.text([place]))
    assert text.endswith(f"there is more: Kubernetes: {place.left_out}")


async def test_more_than_anybody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.documents["/api/v1/services?limit=500"] = services(range(600))
    place = await asked(cluster, tmp_path, monkeypatch)
    assert len(place.candidates) == 500
    assert place.left_out == "too many clusters: name one namespace with --namespace"


async def test_no_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Forwarding().kubeconfig(tmp_path / "config", port=1)))
    place = await kubernetes.search_kubernetes(None, None)
    assert "the API server" in place.problem
    assert place.candidates == ()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert "KUBECONFIG names no file" in (await kubernetes.search_kubernetes(None, None)).problem


# Files

COMPOSE = """
services:
  kafka:
    image: apache/kafka:4.1.0
    ports: ["9092:9092"]
    environment:
      KAFKA_LISTENERS: PLAINTEXT://:9092,CONTROLLER://:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_NODE_ID: 1
  ui:
    image: provectuslabs/kafka-ui
"""


def test_files(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    (tmp_path / "client.properties").write_text("bootstrap.servers=a.example:9093\nsecurity.protocol=SSL\n")
    (tmp_path / "empty.properties").write_text("security.protocol=SSL\n")
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://:9092\nnode.id=1\n")
    (tmp_path / "broken.yaml").write_text("services: [\n")
    (tmp_path / "other.yaml").write_text("a: b\n")
    (tmp_path / "binary.conf").write_bytes(bytes(range(256)))
    (tmp_path / "directory.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(2 * 1024 * 1024)
    by_what = {one.description: one for one in files.search_files(tmp_path).candidates}
    assert by_what.keys() == {"compose.yaml: kafka", "client.properties: bootstrap.servers=a.example:9093"}
    assert by_what["compose.yaml: kafka"].words == ("run", "-b", "localhost:9092")
    assert by_what["client.properties: bootstrap.servers=a.example:9093"].words == (
        "run",
        "--client-config",
        "client.properties",
    )


def test_no_directory(tmp_path: Path) -> None:
    assert files.search_files(tmp_path / "nowhere").candidates == []


# This machine


def listener(inode: int, port: int, state: str = "0A") -> str:
    return f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0  0 {inode} 1"


def machine(tmp_path: Path, ports_of_sockets: dict[int, int], commands: dict[int, tuple[list[str], list[int]]]) -> Path:
    """A /proc: port by inode; of each process its command and inodes."""
    (tmp_path / "net").mkdir()
    lines = "\n".join(listener(*one) for one in ports_of_sockets.items())
    (tmp_path / "net" / "tcp").write_text(f"header\n{lines}\nx\n")
    for pid, (words, inodes) in commands.items():
        process = tmp_path / str(pid)
        (process / "fd").mkdir(parents=True)
        (process / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        for number, inode in enumerate(inodes):
            (process / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
    (tmp_path / "self").mkdir()
    return tmp_path


def test_what_listens_here(tmp_path: Path) -> None:
    ports_of_sockets = {1: 9092, 2: 9093, 3: 5432, 4: 19092, 5: 9094, 6: 18080, 7: 29092, 8: 31000, 9: 9093, 10: 9999}
    commands = {
        10: (["/usr/bin/kubectl", "port-forward", "svc/kafka", "9092", "9093"], [1, 2]),
        11: (["kubectl", "port-forward", "svc/postgres", "5432"], [3]),
        12: (["python", "-m", "kproxy", "run"], [4]),
        13: (["java", "kafka.Kafka"], [5]),
        14: (["kubectl", "port-forward", "svc/web", "18080:80"], [6]),
        16: (["java", "-Xmx1g", "kafka.Kafka", "/etc/kafka/two.properties"], [8, 9, 10]),
        15: (["/usr/bin/docker-proxy", "-host-port", "29092"], [7]),
    }
    place = sockets.search_sockets(machine(tmp_path, ports_of_sockets, commands))
    assert [one.words for one in place.candidates] == [
        ("run", "-b", "localhost:9092,localhost:9093"),
        ("doctor", "localhost:9093"),
        ("doctor", "localhost:9094"),
    ]
    assert place.candidates[1].description == "Apache Kafka: a process with the ports 9093, 9999, 31000"


def test_no_proc(tmp_path: Path) -> None:
    assert sockets.search_sockets(tmp_path / "nowhere").candidates == ()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_this_machine_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(sockets, "_USUAL", (port,))
        assert ("doctor", f"localhost:{port}") in [one.words for one in sockets.search_sockets().candidates]


# What people see


def test_text_and_json() -> None:
    places = [
        PlaceResult("Docker", [ClusterCandidate("kafka", ("run", "-b", "localhost:9092"), ("a note",))]),
        PlaceResult("Kubernetes", problem="no right"),
        PlaceResult("files here"),
    ]
    assert list(output.text(places)) == [
        "Docker: kafka", "  kproxy run -b localhost:9092", "  # a note", "not searched: Kubernetes: no right",
        "nothing found: files here",
    ]  # fmt: skip
    said = json.loads(output.as_json(places))
    assert said[0]["found"][0]["command"] == ["kproxy", "run", "-b", "localhost:9092"]
    assert said[1]["problem"] == "no right"


def kproxy(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KPROXY_", "KUBE"))}
    command = [sys.executable, "-m", "kproxy", *words]
    return subprocess.run(
        command, env={**own, "HOME": str(cwd)}, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command(tmp_path: Path) -> None:
    done = kproxy("discover", "--in", "files", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "nothing found: files here\n", "")
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    done = kproxy("discover", "--in", "files", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["files here: compose.yaml: kafka", "  kproxy run -b localhost:9092"]
    assert json.loads(kproxy("discover", "--in", "files", "--json", cwd=tmp_path).stdout)[0]["place"] == "files here"


def test_run_what_was_found(tmp_path: Path) -> None:
    done = kproxy("discover", "--in", "files", "--run", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "kproxy: --run needs exactly one command, and there are 0: paste one"
    (tmp_path / "client.properties").write_text("bootstrap.servers=a:b\n")
    done = kproxy("discover", "--in", "files", "--run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "kproxy run --client-config client.properties"
    assert "client.properties:1: bootstrap-servers[0]" in done.stderr


def test_lines_fit_a_terminal_and_commands_stay_whole() -> None:
    server = f"{'kafka.' * 20}example:9092"
    long = ClusterCandidate("a cluster of " + "many words " * 10, ("run", "-b", server), ("note " * 30, server))
    lines = list(output.text([PlaceResult("Docker", (long,)), PlaceResult("Kubernetes", (), "no right " * 20)]))
    assert [line for line in lines if len(line) > 80] == [f"  kproxy run -b {server}", f"  # {server}"]
    assert all(line.startswith("  # ") for line in lines if "note" in line)
