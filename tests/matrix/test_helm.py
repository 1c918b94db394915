"""The Helm chart: linted and rendered by Helm, installed on a real API server, and the same as the plain manifests."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kproxy.config import Config
from tests.harness.process import wait_until
from tests.harness.programs import kustomize
from tests.harness.programs.javac import NotInstalled
from tests.matrix import helm
from tests.matrix.kubernetes import BUILD_S, Cluster, Refused, running
from tests.matrix.languages import tool
from tests.unit.deploy.deployed import ROOT, UNPRIVILEGED, all_ports, config_of_text

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(BUILD_S + 600)]

BROKERS = {"bootstrap-servers": "b-1.example:9092,b-2.example:9092"}
ONE: dict[str, Any] = {"config": BROKERS}
NODES = {**ONE, "kind": "DaemonSet"}
ALL: dict[str, Any] = {
    "replicas": 2,
    "config": {
        **BROKERS, "log-format": "text", "watch-config": False,
        "admin-tls-cert": "/etc/kproxy/admin.pem", "admin-tls-key": "/etc/kproxy/admin.key",
    },
    "secrets": ["kafka", "admin"],
    "advertise": "kafka.example.com:29093",
    "ports": {"bootstrap": 9092, "firstNode": 9093, "nodes": 3, "admin": 9000},
    "image": {
        "repository": "images.example/kproxy", "digest": f"sha256:{'0' * 64}",
        "pullPolicy": "Always", "pullSecrets": ["images"],
    },
    "service": {"type": "LoadBalancer", "annotations": {"a.example/internal": "true"}},
    "networkPolicy": {"enabled": True, "metrics": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "endpoint": {"interval": "15s"}},
    "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"},
    "serviceAccountName": "kafka", "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}}, "env": [{"name": "E", "value": "f"}],
    "volumes": [{"name": "state", "emptyDir": {}}], "volumeMounts": [{"name": "state", "mountPath": "/state"}],
}  # fmt: skip
CASES = {
    "Deployment": ONE,
    "DaemonSet": NODES,
    "everything": ALL,
    "everything, DaemonSet": {**ALL, "kind": "DaemonSet"},
}
README = ROOT / "deploy" / "README.md"
CRD = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CRD_FILE = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    try:
        helm.program()
    except NotInstalled as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with running(tmp_path_factory.mktemp("kubernetes")) as made:
            made.add_node("node-1")
            made.add_node("node-2")
            yield made
    except NotInstalled as reason:
        pytest.skip(str(reason))


def only(documents: tuple[dict[str, Any], ...], kind: str) -> dict[str, Any]:
    return kustomize.only(documents, kind)


def workload(documents: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    (found,) = [one for one in documents if one["kind"] in ("Deployment", "DaemonSet")]
    return found


def configuration(documents: tuple[dict[str, Any], ...]) -> Config:
    """As kproxy itself reads it."""
    return config_of_text(only(documents, "ConfigMap")["data"]["kproxy.yaml"])


# Lint


def test_lint_has_nothing_to_say() -> None:
    assert "0 chart(s) failed" in helm.helm("lint", "--strict", helm.CHART)


@pytest.mark.parametrize(
    ("path", "right", "wrong"),
    [
        ("templates/service.yaml", "{{- end }}", ""),
        ("templates/workload.yaml", "containerPort:", "containerPort"),
        ("values.yaml", "kind: Deployment", "kind: Pod"),
        ("Chart.yaml", "version: 0.1.0", "version: one"),
    ],
)
def test_lint_finds_mistakes(tmp_path: Path, path: str, right: str, wrong: str) -> None:
    chart = shutil.copytree(helm.CHART, tmp_path / "kproxy")
    before = (chart / path).read_text()
    assert right in before
    (chart / path).write_text(before.replace(right, wrong, 1))
    with pytest.raises(helm.Failed):
        helm.helm("lint", "--strict", chart)


# What it makes


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_it_is_valid(values: dict[str, Any], version: str) -> None:
    for document in helm.render(values):
        if document["kind"] != "ServiceMonitor":  # its CRD is asked below
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_service_policy_probes_and_configuration_agree(values: dict[str, Any]) -> None:
    made = helm.render(values, "bridge", "apps")
    config = configuration(made)
    (cluster,) = config.clusters
    assert config.admin is not None
    pod = workload(made)["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    services = [one for one in made if one["kind"] == "Service"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}

    (clients,) = [one for one in services if one["metadata"]["name"] == "bridge-kproxy"]
    assert {one["port"] for one in clients["spec"]["ports"]} == all_ports(config)
    assert ports == {"admin": config.admin.port, "bootstrap": cluster.listen.port}
    for probe in ("livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        assert (get["port"], get.get("scheme", "HTTP") == "HTTPS") == ("admin", config.admin_tls_cert is not None)
    for one in services:
        assert one["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert one["metadata"]["namespace"] == "apps"
    assert {one["metadata"]["name"] for one in made} <= {"bridge-kproxy", "bridge-kproxy-metrics"}
    assert cluster.advertise is not None
    assert cluster.advertise.host == ("kafka.example.com" if values.get("advertise") else "bridge-kproxy.apps.svc")
    security = {**pod["spec"]["securityContext"], **container["securityContext"]}
    assert security.pop("fsGroup", None) == (65532 if values.get("secrets") else None)
    assert security == UNPRIVILEGED
    assert pod["spec"]["terminationGracePeriodSeconds"] > 5 + config.drain_timeout
    assert (config.log_format, config.watch_config) == (("text", False) if values.get("advertise") else ("json", True))
    assert [str(one) for one in cluster.bootstrap_servers] == BROKERS["bootstrap-servers"].split(",")


def test_a_network_policy_admits_clients_and_metrics_readers() -> None:
    clients, metrics = only(helm.render(ALL), "NetworkPolicy")["spec"]["ingress"]
    assert clients["from"] == [{"podSelector": {}}]  # and not an empty list, which is everybody
    assert clients["ports"] == [{"port": 9092}, {"port": 9093, "endPort": 9095}]
    assert metrics == {"from": ALL["networkPolicy"]["metrics"], "ports": [{"port": 9000}]}


def test_a_monitor_replaces_annotations_and_finds_its_service() -> None:
    made = helm.render(ALL)
    monitor = only(made, "ServiceMonitor")["spec"]
    (service,) = [
        one
        for one in made
        if one["kind"] == "Service" and one["metadata"]["labels"] == monitor["selector"]["matchLabels"]
    ]
    assert service["spec"]["ports"] == [{"name": "admin", "port": 9000}]
    assert monitor["endpoints"] == [{"port": "admin", "path": "/metrics", "scheme": "https", "interval": "15s"}]
    assert workload(made)["spec"]["template"]["metadata"]["annotations"] == {"a": "b"}
    annotations = workload(helm.render(ONE))["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": "19091"}
    with_tls = workload(helm.render({"config": ALL["config"]}))["spec"]["template"]["metadata"]["annotations"]
    assert with_tls["prometheus.io/scheme"] == "https"


def test_the_values_of_the_readme() -> None:
    (block,) = re.findall(r"^## Helm\n.*?^```yaml\n(.*?)^```", README.read_text(), re.M | re.S)
    made = helm.render(yaml.safe_load(block))
    assert len(only(made, "NetworkPolicy")["spec"]["ingress"]) == 2
    told = only(made, "ConfigMap")["data"]["kproxy.yaml"].replace("client-config", "# no such file here:")
    assert len(all_ports(config_of_text(told))) == 31


def test_every_option_of_a_cluster_can_be_given() -> None:
    upstreams = {"blue": {"bootstrap-servers": "a:9092"}, "green": {"bootstrap-servers": "b:9092"}}
    made = configuration(helm.render({"config": {"upstreams": upstreams, "active": "blue", "drain-timeout": 7}}))
    assert made.drain_timeout == 7
    assert [(one.listen.port, str(one.bootstrap_servers[0])) for one in made.clusters] == [
        (19092, "a:9092"),
        (19092, "b:9092"),
    ]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "which brokers?"),
        ({"config": {**BROKERS, "listen": "x"}}, "set ports.bootstrap"),
        ({"config": {**BROKERS, "admin": "x"}}, "set ports.admin"),
        ({"config": {**BROKERS, "clusters": []}}, "install the chart once for each cluster"),
        ({**ONE, "ports": {"firstNode": 65530}}, "the last node would have port 65539"),
        ({**ONE, "ports": {"bootstrap": 19100}}, r"19100 is one of the nodes' \(19093-19102\)"),
        ({**ONE, "ports": {"admin": 19092}}, "it is ports.bootstrap already"),
        ({**ONE, "port": 3}, "port"),
        ({"config": {**BROKERS, "drain-timeout": 25}}, "30 is too short for config.drain-timeout: at least 31"),
        ({**ALL, "networkPolicy": {"enabled": True}}, "networkPolicy.metrics: no pod may read metrics"),
    ],
    ids=str,
)
def test_a_mistake_is_named(values: dict[str, Any], says: str) -> None:
    with pytest.raises(helm.Failed, match=says):
        helm.text(values)


# One source of truth


def test_the_plain_manifest_is_what_the_chart_makes() -> None:
    assert helm.STANDALONE.read_text() == helm.standalone(), "python -m tests.matrix.helm writes it"


@pytest.mark.skipif(kustomize.PROGRAM is None, reason=kustomize.MISSING)
def test_the_daemonset_for_spark_is_what_the_chart_makes() -> None:
    """Besides what Kustomize must do in another way: it knows no namespace, names ConfigMaps by their content, and
    takes a Secret that need not be there, as it cannot know whether there is one."""
    spark = kustomize.render(ROOT / "deploy" / "spark" / "kubernetes" / "daemonset")
    policy = only(spark, "NetworkPolicy")
    theirs = copy.deepcopy(only(spark, "DaemonSet"))
    pod = theirs["spec"]["template"]["spec"]
    pod["containers"][0].pop("env")  # the Service's name: the chart writes it into the ConfigMap
    pod.pop("volumes")
    made = helm.render(
        {
            "kind": "DaemonSet", "fullnameOverride": "kproxy-node",
            "config": {"bootstrap-servers": "kafka.example:9092", "ready-requires": "one"},
            "tolerations": [{"operator": "Exists"}], "priorityClassName": "kproxy-node",
        }
    )  # fmt: skip
    ours = copy.deepcopy(only(made, "DaemonSet"))
    ours["spec"]["template"]["spec"].pop("volumes")
    ours["metadata"].pop("namespace")
    assert ours == theirs
    service = copy.deepcopy(only(made, "Service"))
    service["metadata"].pop("namespace")
    assert service == only(spark, "Service")
    told = yaml.safe_load(only(made, "ConfigMap")["data"]["kproxy.yaml"])
    told.pop("advertise")
    assert told == yaml.safe_load(only(spark, "ConfigMap")["data"]["kproxy.yaml"])
    with_policy = {"clients": policy["spec"]["ingress"][0]["from"], "metrics": policy["spec"]["ingress"][1]["from"]}
    closed = helm.render(
        {**NODES, "networkPolicy": {"enabled": True, **with_policy}, "fullnameOverride": "kproxy-node"}
    )
    clients, metrics = only(closed, "NetworkPolicy")["spec"]["ingress"]
    assert [clients["from"], metrics] == [policy["spec"]["ingress"][0]["from"], policy["spec"]["ingress"][1]]


# Installed


def monitors(cluster: Cluster) -> None:
    """Teach the API server ServiceMonitors, as the Prometheus Operator's own CRD has them."""
    words = [tool("go", "Go"), "mod", "download", "-json", CRD]
    told = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    if told.returncode:
        pytest.skip(f"the CRD of ServiceMonitors cannot be had: {told.stdout}{told.stderr}")
    definition = yaml.safe_load(Path(json.loads(told.stdout)["Dir"], CRD_FILE).read_text())
    cluster.api.ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST", definition)

    def known() -> bool:
        try:
            cluster.api.ask("/apis/monitoring.coreos.com/v1/servicemonitors")
        except Refused:
            return False
        return True

    wait_until(known, "the server knows ServiceMonitors")


def test_it_is_installed_changed_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    """Helm, the API server, its scheduler and controllers are real; no container runs."""
    monitors(cluster)
    cluster.add_namespace("kafka")
    values = tmp_path / "values.yaml"

    def run(*words: str, **changed: Any) -> str:
        values.write_text(yaml.safe_dump({**ONE, **changed}))
        env = {"KUBECONFIG": str(cluster.kubeconfig)}
        more = [] if words[0] == "uninstall" else [str(helm.CHART), "--values", str(values)]
        return helm.helm(words[0], "bridge", *more, *words[1:], "--namespace", "kafka", env=env)

    def ready(count: int) -> bool:
        pods = cluster.api.pods("app.kubernetes.io/name=bridge-kproxy", "kafka")
        conditions = [{one["type"]: one["status"] for one in pod["status"].get("conditions", [])} for pod in pods]
        return [one.get("Ready") for one in conditions] == ["True"] * count

    said = run("install", "--wait", "--timeout", "120s")
    assert "Clients in Kubernetes use bridge-kproxy.kafka.svc:19092" in said
    assert ready(1)

    full = {**ALL, "serviceAccountName": "", "nodeSelector": {}}
    run("upgrade", **full)
    wait_until(lambda: ready(2), "two kproxies of the changed release are ready")
    monitor = cluster.api.get("monitoring.coreos.com/v1", "ServiceMonitor", "bridge-kproxy", "kafka")
    assert monitor["spec"]["endpoints"][0]["interval"] == "15s"
    assert cluster.api.get("networking.k8s.io/v1", "NetworkPolicy", "bridge-kproxy", "kafka")

    run("upgrade", "--wait", "--timeout", "120s", kind="DaemonSet")
    wait_until(lambda: ready(2), "one on each node is ready")
    assert not cluster.api.get("apps/v1", "Deployment", namespace="kafka")["items"]
    service = cluster.api.get("v1", "Service", "bridge-kproxy", "kafka")
    assert service["spec"]["internalTrafficPolicy"] == "Local"

    run("uninstall", "--wait")
    wait_until(lambda: ready(0), "no pod is left")
    assert not cluster.api.get("v1", "Service", namespace="kafka")["items"]


def test_a_release_beside_another_is_another() -> None:
    names = {
        release: only(helm.render(ONE, release), "Service")["spec"]["selector"]
        for release in ("a", "kproxy", "kproxy-b")
    }
    assert [one["app.kubernetes.io/name"] for one in names.values()] == ["a-kproxy", "kproxy", "kproxy-b"]


def test_the_package_has_only_the_schema_and_the_chart(tmp_path: Path) -> None:
    helm.helm("package", helm.CHART, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()
    assert package.name == "kproxy-0.1.0.tgz"
    shutil.unpack_archive(package, tmp_path / "unpacked")
    inside = {
        path.relative_to(tmp_path / "unpacked" / "kproxy")
        for path in (tmp_path / "unpacked").rglob("*")
        if path.is_file()
    }
    assert inside == {path.relative_to(helm.CHART) for path in helm.CHART.rglob("*") if path.is_file()} - {
        Path(".helmignore")
    }
