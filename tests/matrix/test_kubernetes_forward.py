"""`--via k8s://…` on a real API server: brokers of a StatefulSet as Strimzi makes one, and clients outside.

kwok plays the kubelet, and forwards the ports of pods to real brokers on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, UpstreamError, ViaError
from kproxy.dev.devcluster import DEFAULT_VERSION, DevCluster, Programs
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.net.dial import kubeapi, kubepipe
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.direct import DirectConnector
from kproxy.net.dial.kubehttp import UpgradeRefused
from tests.harness.clients.going import Going, java, python
from tests.harness.clients.spark import TWO_EXECUTORS, connector, needs_spark, session, settings, spark_home
from tests.harness.migration.carried import in_log
from tests.harness.process import Kproxy, wait_until
from tests.harness.servers.peers import Peer
from tests.harness.servers.ways import dialer, failure
from tests.harness.topics import create_topic, needs_kcat, produce, read_topic, values
from tests.matrix.kubernetes import BUILD_S, Cluster, Refused, programs, running

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(BUILD_S + 600)]

BOOTSTRAP = "my-cluster-kafka-bootstrap"
HEADLESS = "my-cluster-kafka-brokers"
NODES = (0, 1, 2)
LABELS = {"strimzi.io/cluster": "my-cluster"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[DevCluster]:
    advertised = f"my-cluster-kafka-{{id}}.{HEADLESS}.kafka.svc:9092"
    with DevCluster(NODES, advertised=advertised) as made:
        yield made


ENDED = threading.Event()


def says_late(connection: socket.socket) -> None:
    """Something, when the client has ended; kwok does not say that it has."""
    assert connection.recv(5) == b"hello"
    ENDED.wait(60)
    connection.sendall(b"late" * 1_000_000)


@pytest.fixture(scope="module")
def late() -> Iterator[Peer]:
    with Peer(says_late) as peer:
        yield peer


@pytest.fixture(scope="module")
def cluster(brokers: DevCluster, late: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # The bootstrap Service leads to a port of another number, by its name.
    forwards = {
        f"kafka/my-cluster-kafka-{node}": {port: brokers.dial[node].port for port in (9092, 19092)} for node in NODES
    }
    forwards["kafka/my-cluster-kafka-0"][7000] = Address.parse(late.address).port
    with running(tmp_path_factory.mktemp("kubernetes"), forwards) as made:
        for name in ("one", "two"):
            made.add_node(name)
        made.add_namespace("kafka")
        for name, spec in (
            (HEADLESS, {"clusterIP": "None", "publishNotReadyAddresses": True}),
            (BOOTSTRAP, {}),
        ):
            ports = [{"name": "tcp-clients", "port": 9092, "targetPort": "clients"}]
            body = {"selector": LABELS, "ports": ports, **spec}
            metadata = {"name": name, "labels": LABELS}
            made.api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body}, "kafka")
        container = {"name": "kafka", "image": "none", "ports": [{"name": "clients", "containerPort": 19092}]}
        made.api.create(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "my-cluster-kafka"},
                "spec": {
                    "replicas": len(NODES),
                    "serviceName": HEADLESS,
                    "podManagementPolicy": "Parallel",
                    "selector": {"matchLabels": LABELS},
                    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
                },
            },
            "kafka",
        )
        wait_until(lambda: _ready(made) == len(NODES), "all pods are endpoints", 120)
        yield made


def _ready(cluster: Cluster) -> int:
    query = f"labelSelector=kubernetes.io/service-name={BOOTSTRAP}"
    slices = cluster.api.get("discovery.k8s.io/v1", "EndpointSlice", namespace="kafka", query=query)["items"]
    return sum(each["conditions"]["ready"] for one in slices for each in one.get("endpoints") or ())


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kproxy]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    made = Kproxy(tmp_path / "kproxy", f"{BOOTSTRAP}:9092", "--via", "k8s://kafka")
    yield made
    made.stop()


def test_records_go_there_and_back(proxy: Kproxy) -> None:
    for node in NODES:
        assert proxy.node(node)["dial"] == f"my-cluster-kafka-{node}.{HEADLESS}.kafka.svc:9092"
    topic = create_topic(proxy.bootstrap)
    sent = [b"%d" % number + b"x" * 10_000 for number in range(300)]
    produce(proxy.bootstrap, topic, sent)
    assert values(read_topic(proxy.bootstrap, topic)) == sorted(sent)


async def refuses_websockets(*_: object) -> kubepipe.Pipe:
    raise UpgradeRefused("no WebSockets here")


@pytest.mark.parametrize("websockets", [True, False], ids=["tunnel", "upgrade"])
async def test_what_the_server_speaks(websockets: bool, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPDY in a WebSocket if it may; and SPDY alone."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    if not websockets:
        monkeypatch.setattr(kubeapi, "open_websocket", refuses_websockets)
    path = "/api/v1/namespaces/kafka/pods/my-cluster-kafka-0/portforward?ports=7000"
    async with asyncio.TaskGroup() as tasks:
        api = kubeapi.KubeApi("a test", None, DirectConnector(), tasks)
        pipe = await api.open_forward(path, Deadline.after(20))
        assert pipe.spdy
        assert isinstance(pipe, kubepipe._WebSocketPipe if websockets else kubepipe._SpdyPipe)
        pipe.close()
        await api.close()
    loop = asyncio.get_running_loop()
    ENDED.clear()
    async with dialer("k8s://kafka") as made:
        with await made.connect(Address(f"my-cluster-kafka-0.{HEADLESS}.kafka.svc", 7000)) as sock:
            await loop.sock_sendall(sock, b"hello")
            sock.shutdown(socket.SHUT_WR)
            ENDED.set()
            said = bytearray()
            while data := await loop.sock_recv(sock, 1 << 20):
                said += data
            assert said == b"late" * 1_000_000  # v4.channel.k8s.io would have ended with the client


def test_records_over_the_upgrade_alone(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role without `get` cannot begin a WebSocket; kproxy goes on with what is left."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "creates"}}
    cluster.api.create(account, "kafka")
    token = cluster.api.ask(
        "/api/v1/namespaces/kafka/serviceaccounts/creates/token",
        "POST",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )["status"]["token"]
    rules = [
        {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "creates"}}
    cluster.api.create({**rbac, "kind": "Role", "rules": rules}, "kafka")
    subjects = [{"kind": "ServiceAccount", "name": "creates", "namespace": "kafka"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "creates"}
    cluster.api.create({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": subjects}, "kafka")
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with Kproxy(tmp_path / "kproxy", f"{BOOTSTRAP}:9092", "--via", "k8s://kafka") as proxy:
        topic = create_topic(proxy.bootstrap)
        sent = [b"%d" % number + b"x" * 10_000 for number in range(300)]
        produce(proxy.bootstrap, topic, sent)
        assert values(read_topic(proxy.bootstrap, topic)) == sorted(sent)


@pytest.fixture
def through_kubectl(cluster: Cluster, tmp_path: Path) -> Iterator[Kproxy]:
    """A kproxy that runs kubectl for each pod, by the node's id, and for the Service. All nodes can be reached."""
    kubectl = f"{programs() / 'kubectl'} --kubeconfig {cluster.kubeconfig} --cache-dir {tmp_path / 'cache'} -n kafka"
    of_nodes = f"{kubectl} port-forward pod/my-cluster-kafka-{{node}} {{port}}:9092"
    of_servers = f"{kubectl} port-forward svc/{BOOTSTRAP} {{port}}:9092"
    options = ("--forward-command", of_nodes, "--forward-command", of_servers, "--ready-requires", "all")
    with Kproxy(tmp_path / "kproxy", f"{BOOTSTRAP}:9092", *options) as proxy:
        assert {proxy.node(node)["route"] for node in NODES} == {"forwarded"}
        yield proxy


def commands(proxy: Kproxy) -> dict[str, Any]:
    """The forward commands, by the bootstrap server or the node that they are for."""
    return {command["server"] or command["node"]: command for command in proxy.status()["forward_commands"]}


def have_started_again(proxy: Kproxy, before: dict[str, Any]) -> bool:
    """Whether these commands have started again, and all nodes can be reached."""
    now = commands(proxy)
    started = all(now[name]["starts"] > command["starts"] for name, command in before.items())
    return started and not any(proxy.node(node)["problem"] for node in NODES)


def test_a_kubectl_that_is_killed_starts_again(through_kubectl: Kproxy) -> None:
    topic = create_topic(through_kubectl.bootstrap)
    produce(through_kubectl.bootstrap, topic, [b"before"])
    before = {"1": commands(through_kubectl)["1"]}
    (pid,) = (
        int(line.parent.name)
        for line in Path("/proc").glob("[0-9]*/cmdline")
        if f"\0{before['1']['port']}:9092\0".encode() in read_if_there(line)
    )
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: have_started_again(through_kubectl, before), "kproxy has started it again", 120)
    produce(through_kubectl.bootstrap, topic, [b"after"])
    assert values(read_topic(through_kubectl.bootstrap, topic)) == sorted([b"before", b"after"])


def read_if_there(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # a process that has ended
        return b""


def test_kubectl_starts_again_when_a_pod_and_the_api_server_have_gone(
    through_kubectl: Kproxy, cluster: Cluster
) -> None:
    """kwok keeps the port-forwards of a pod that was replaced, unlike a kubelet. They end with the API server."""
    topic = create_topic(through_kubectl.bootstrap)
    produce(through_kubectl.bootstrap, topic, [b"before"])
    before = commands(through_kubectl)
    assert len(before) == len(NODES) + 1
    replace_pod(cluster, "my-cluster-kafka-1")
    cluster.restart_api_server()
    wait_until(lambda: have_started_again(through_kubectl, before), "each kubectl runs again", 240)
    produce(through_kubectl.bootstrap, topic, [b"after"])
    assert values(read_topic(through_kubectl.bootstrap, topic)) == sorted([b"before", b"after"])


@needs_kcat
def test_java_writes_and_kcat_reads(proxy: Kproxy, tmp_path: Path) -> None:
    topic = create_topic(proxy.bootstrap)
    properties = {"bootstrap.servers": proxy.bootstrap, "enable.idempotence": "true"}
    with java(Programs.of(DEFAULT_VERSION), ["produce", topic, "3", "5"], properties, tmp_path / "java.log") as writer:
        writer.wait_more("acked", 200)
        writer.end()
        acked = sorted(line[0] for line in writer.said("acked"))
        assert not writer.said("failed") + writer.said("died")
    command = ["kcat", "-b", proxy.bootstrap, "-C", "-e", "-q", "-o", "beginning", "-t", topic, "-f", "%s\n"]
    read = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert sorted(read.split()) == acked


@needs_spark
def test_a_spark_job_reads_and_writes(proxy: Kproxy, tmp_path: Path) -> None:
    """On the laptop: its driver and two executors."""
    topic, to = create_topic(proxy.bootstrap), create_topic(proxy.bootstrap)
    sent = [f"record-{number}" for number in range(3000)]
    produce(proxy.bootstrap, topic, [one.encode() for one in sent])
    servers = {"kafka.bootstrap.servers": proxy.bootstrap}
    conf = settings(spark_master=TWO_EXECUTORS, spark_jars=connector())
    with session(spark_home(tmp_path), conf) as spark:
        read = spark.read.format("kafka").options(**servers, subscribe=topic).load()
        made = read.selectExpr("upper(CAST(value AS STRING)) AS value")
        made.write.format("kafka").options(**servers, topic=to).save()
    assert values(read_topic(proxy.bootstrap, to)) == sorted(one.upper().encode() for one in sent)


@pytest.fixture
def writes(proxy: Kproxy, tmp_path: Path) -> Iterator[Going]:
    """A producer that goes on all the time. Each number is there in the end, once and in order."""
    topic = create_topic(proxy.bootstrap)
    properties = {"bootstrap.servers": proxy.bootstrap, "enable.idempotence": "true"}
    with python("confluent", ["produce", topic, "3", "20"], properties, tmp_path / "producer.log") as made:
        made.wait_more("acked", 50)
        yield made
        made.wait_more("acked", 100)
        made.end()
        assert not made.said("failed") + made.said("died")
        acked = sorted(int(number) for number, *_ in made.said("acked"))
        assert acked == list(range(len(acked)))
        there = in_log(proxy.bootstrap, topic, 3)
        assert there == [[number for number in acked if number % 3 == partition] for partition in range(3)]


@pytest.mark.usefixtures("writes")
def test_the_api_server_is_killed_and_begun_again(cluster: Cluster) -> None:
    """All port-forwards end with it."""
    cluster.restart_api_server()


def bound_token(cluster: Cluster, name: str) -> str:
    """A token of an administrator that is good for as long as this Secret is there."""
    made = cluster.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}, "kafka")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": made["metadata"]["uid"]}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": reference}}
    said = cluster.api.ask("/api/v1/namespaces/kafka/serviceaccounts/someone/token", "POST", asked)
    return str(said["status"]["token"])


def test_a_login_that_ends_is_renewed(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program of the kubeconfig, when the server refuses the token: long before the time that it was to last."""
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "someone"}}, "kafka")
    subject = {"kind": "ServiceAccount", "name": "someone", "namespace": "kafka"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    cluster.api.create({**binding, "metadata": {"name": "someone"}, "roleRef": role, "subjects": [subject]})
    credential, calls = tmp_path / "credential.json", tmp_path / "calls"

    def log_in(token: str) -> None:
        status = {"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"}
        kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        credential.write_text(json.dumps({**kind, "status": status}))

    config = yaml.safe_load(cluster.kubeconfig.read_text())
    program = {"command": "sh", "args": ["-c", f"echo called >> {calls}; cat {credential}"]}
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", **program}
    config["users"][0]["user"] = {"exec": exec_}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    log_in(bound_token(cluster, "first"))
    with Kproxy(tmp_path / "kproxy", f"{BOOTSTRAP}:9092", "--via", "k8s://kafka") as proxy:
        topic = create_topic(proxy.bootstrap)
        produce(proxy.bootstrap, topic, [b"before"])
        before = len(calls.read_text().split())
        log_in(bound_token(cluster, "second"))
        cluster.api.ask("/api/v1/namespaces/kafka/secrets/first", "DELETE")

        def renewed() -> bool:
            produce(proxy.bootstrap, topic, [b"after"])  # each is a client of its own, with connections of its own
            return len(calls.read_text().split()) > before

        wait_until(renewed, "the server has forgotten the first token", 120)
        assert b"before" in values(read_topic(proxy.bootstrap, topic))


def replace_pod(cluster: Cluster, name: str) -> None:
    """Delete a pod, and wait until the StatefulSet has made it again."""
    before = cluster.api.get("v1", "Pod", name, "kafka")
    cluster.api.ask(f"/api/v1/namespaces/kafka/pods/{name}?gracePeriodSeconds=0", "DELETE")

    def is_another() -> bool:
        try:
            pod = cluster.api.get("v1", "Pod", name, "kafka")
        except Refused:
            return False
        return bool(pod["metadata"]["uid"] != before["metadata"]["uid"] and pod["status"].get("phase") == "Running")

    wait_until(is_another, "the StatefulSet has made it again", 60)


@pytest.mark.usefixtures("writes")
def test_a_pod_that_comes_back_keeps_its_port(proxy: Kproxy, cluster: Cluster) -> None:
    local = proxy.node(1)["local"]
    topic = create_topic(proxy.bootstrap)
    produce(proxy.bootstrap, topic, [b"before"])
    replace_pod(cluster, "my-cluster-kafka-1")
    produce(proxy.bootstrap, topic, [b"after"])
    assert values(read_topic(proxy.bootstrap, topic)) == sorted([b"before", b"after"])
    assert proxy.node(1)["local"] == local


async def test_a_user_without_the_right_to_forward(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names a role; with it, the same user gets through to the next step."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "me"}}
    cluster.api.create(account, "kafka")
    path = "/api/v1/namespaces/kafka/serviceaccounts/me/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.api.ask(path, "POST", asked)["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    pod = f"my-cluster-kafka-0.{HEADLESS}.kafka.svc:7"
    error = await failure(pod, "k8s://kafka")
    assert (error.reason, type(error)) == ("kubernetes-forbidden", UpstreamError)
    assert "--verb=get,create --resource=pods/portforward" in str(error)
    rules = [{"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]}]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "kproxy"}}
    cluster.api.create({**rbac, "kind": "Role", "rules": rules}, "kafka")
    subjects = [{"kind": "ServiceAccount", "name": "me", "namespace": "kafka"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kproxy"}
    cluster.api.create({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": subjects}, "kafka")
    error = await failure(pod, "k8s://kafka")
    assert error.reason != "kubernetes-forbidden"


async def test_what_the_server_refuses(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    error = await failure("nobody.x.kafka.svc:9092", "k8s://kafka")
    assert error.reason == "resolve"
    assert "there is no pod nobody in namespace kafka" in str(error)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "nobody's"}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    error = await failure(f"{BOOTSTRAP}:9092", "k8s://kafka")
    assert (error.reason, type(error)) == ("kubernetes-auth", ViaError)


def test_kproxies_of_a_switch_by_their_labels(cluster: Cluster) -> None:
    """`kproxies: {kubernetes: …}` in the file of a migration."""
    for name in ("kproxy-a", "kproxy-b"):
        metadata = {"name": name, "labels": {"app": "kproxy", "tier": "edge"}}
        spec = {"containers": [{"name": "kproxy", "image": "none"}]}
        cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, "kafka")

    def addresses() -> dict[str, str]:
        pods = (cluster.api.get("v1", "Pod", name, "kafka") for name in ("kproxy-a", "kproxy-b"))
        return {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in pods}

    wait_until(lambda: all(addresses().values()), "the pods run", 60)

    def found(labels: str) -> dict[str, str]:
        kproxies = KproxySelection(kubernetes=labels, namespace="kafka", kubeconfig=cluster.kubeconfig)
        with open_fleet(SwitchSection(kproxies, "green")) as fleet:
            return {kproxy.name: kproxy.client.address.host for kproxy in fleet.kproxies}

    assert found("app=kproxy,tier=edge") == addresses()
    with pytest.raises(ConfigError, match="has no pod with labels app=another"):
        found("app=another")


def discovered(cluster: Cluster, *words: str) -> list[tuple[str, list[str]]]:
    """What `kproxy discover` finds, and the command for it."""
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "discover", "--in", "kubernetes", "--json", *words],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (place,) = json.loads(done.stdout)
    assert place["problem"] is None
    return [(one["what"], one["command"]) for one in place["found"]]


def test_discover(cluster: Cluster) -> None:
    """By its Service where Strimzi's resources are not known, and by its resource where they are."""
    command = ["kproxy", "run", "--via", "k8s://kafka", "-b", f"{BOOTSTRAP}:9092"]
    assert discovered(cluster) == [(f"Service {BOOTSTRAP} in namespace kafka, by its port", command)]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": schema}
    names = {"plural": "kafkas", "singular": "kafka", "kind": "Kafka"}
    spec = {"group": "kafka.strimzi.io", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": "kafkas.kafka.strimzi.io"}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    cluster.api.create({**definition, "spec": spec})

    def is_known() -> bool:
        try:
            return bool(cluster.api.ask("/apis/kafka.strimzi.io/v1beta2")["resources"])
        except Refused:
            return False

    wait_until(is_known, "the server knows the resource", 60)
    listeners = [{"name": "plain", "port": 9092, "type": "internal", "tls": False}]
    kafka = {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "Kafka", "metadata": {"name": "my-cluster"}}
    cluster.api.create({**kafka, "spec": {"kafka": {"listeners": listeners}}}, "kafka")
    assert discovered(cluster) == [("Strimzi cluster my-cluster in namespace kafka", command)]
    assert discovered(cluster, "--namespace", "default") == []
