"""The manifests and commands of deploy/, on a real Kubernetes API server.

Unit tests compare the manifests with Kubernetes' published schemas. Here the API server validates and stores them, its
admission and access rules decide, the real scheduler finds nodes, and the real spark-submit makes the pods. No
container runs: tests/scenarios/test_spark_pods.py runs those of a pod.

The CRDs of the Spark operators are in no package that a test could fetch. KPROXY_SPARK_CRDS=DIRECTORY names a directory
with their YAML files, from the repositories of the operators.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.process import wait_until
from tests.harness.programs.javac import NotInstalled
from tests.harness.programs.kustomize import MISSING, PROGRAM, only, render
from tests.matrix.kubernetes import BUILD_S, Cluster, Refused, built_version, running
from tests.unit.deploy.deployed import ROOT, shell_lines

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
    pytest.mark.timeout(BUILD_S + 600),  # the first time it is built
]

SPARK = ROOT / "deploy" / "spark" / "kubernetes"
README = ROOT / "deploy" / "spark" / "README.md"
EXAMPLE = SPARK / "example"
# The kubeflow operator's CRD has no schema for pod templates; a unit test compares them with that of pods.
MISSPELT = {"sparkoperator.k8s.io": "serviceAccount", "spark.apache.org": "startupProbe"}
APPLICATIONS = {"sparkoperator.k8s.io": "spark-operator", "spark.apache.org": "apache-spark-operator"}
CRDS = os.environ.get("KPROXY_SPARK_CRDS")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With two nodes. One has a taint, as clusters reserve nodes for Spark."""
    try:
        with running(tmp_path_factory.mktemp("kubernetes")) as made:
            made.add_node("node-1", taints=[{"key": "dedicated", "value": "spark", "effect": "NoSchedule"}])
            made.add_node("node-2")
            yield made
    except NotInstalled as reason:
        pytest.skip(str(reason))


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """One of the test's own, empty."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60].strip("-")
    cluster.add_namespace(name)
    yield name
    cluster.empty_namespace(name)


def create(cluster: Cluster, documents: Iterable[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """All of them, in this namespace; what the server has stored."""
    return [cluster.api.create(one, namespace) for one in documents]


def sidecar_of(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in pod["spec"]["initContainers"] if one["name"] == "kproxy"]
    assert isinstance(found, dict)
    return found


def come_up(cluster: Cluster, namespace: str, labels: str, count: int) -> list[dict[str, Any]]:
    """So many pods with these labels, when they run."""

    def up() -> list[dict[str, Any]]:
        pods = [pod for pod in cluster.api.pods(labels, namespace) if pod["status"]["phase"] == "Running"]
        return pods if len(pods) == count else []

    pods = wait_until(up, f"{count} pods with {labels} run")
    assert isinstance(pods, list)
    return pods


def comes_up(cluster: Cluster, namespace: str, labels: str) -> dict[str, Any]:
    (pod,) = come_up(cluster, namespace, labels, 1)
    return pod


def has_running_sidecar(pod: dict[str, Any]) -> bool:
    """Kubernetes takes kproxy for a native sidecar: an init container that has started and goes on running."""
    (status,) = [one for one in pod["status"]["initContainerStatuses"] if one["name"] == "kproxy"]
    return sidecar_of(pod)["restartPolicy"] == "Always" and status["started"] and "running" in status["state"]


def test_the_server_is_the_one_that_was_built(cluster: Cluster) -> None:
    version = cluster.api.ask("/version")
    assert (version["major"], version["minor"]) == ("1", built_version())


def test_a_misspelt_key_is_refused(cluster: Cluster, namespace: str) -> None:
    pod = only(render(SPARK / "pod-templates"), "Pod", "driver")
    broken = {**pod, "spec": {**pod["spec"], "restartPolocy": "Never"}}
    with pytest.raises(Refused, match="restartPolocy"):
        create(cluster, (broken,), namespace)


# deploy/kubernetes


@pytest.mark.parametrize("name", ["sidecar", "standalone"])
def test_the_manifests_for_other_applications(cluster: Cluster, namespace: str, name: str) -> None:
    documents = tuple(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / f"{name}.yaml").read_text()))
    create(cluster, documents, namespace)
    label = {"sidecar": "application", "standalone": "kproxy"}[name]
    pod = comes_up(cluster, namespace, f"app.kubernetes.io/name={label}")
    assert name == "standalone" or has_running_sidecar(pod)


# Sidecars


def spark_pod(folder: str, role: str, **resources: str) -> dict[str, Any]:
    """A pod from a template, with what Spark would add of its own."""
    pod = only(render(SPARK / folder), "Pod", role)
    first, *others = pod["spec"]["containers"]
    first = {**first, "image": "spark", "resources": {"requests": resources}}
    spec = {**pod["spec"], "containers": [first, *others], "restartPolicy": "Never"}
    return {**pod, "metadata": {"name": role, "labels": {"spark-role": role}}, "spec": spec}


@pytest.mark.parametrize("folder", ["pod-templates", "example/pod-templates"])
@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_pod_with_the_sidecar_comes_up(cluster: Cluster, namespace: str, folder: str, role: str) -> None:
    create(cluster, (spark_pod(folder, role, cpu="1"),), namespace)
    pod = comes_up(cluster, namespace, f"spark-role={role}")
    assert has_running_sidecar(pod)
    assert [one["name"] for one in pod["status"]["containerStatuses"]] == [f"spark-kubernetes-{role}"]


def test_a_pod_with_an_ordinary_container_comes_up(cluster: Cluster, namespace: str) -> None:
    create(cluster, (spark_pod("without-native-sidecars", "driver", cpu="1"),), namespace)
    pod = comes_up(cluster, namespace, "spark-role=driver")
    assert "initContainers" not in pod["spec"]
    assert {one["name"] for one in pod["status"]["containerStatuses"]} == {"kproxy", "spark-kubernetes-driver"}


def test_an_executor_that_fills_a_node_leaves_no_sidecar_room(cluster: Cluster, namespace: str) -> None:
    """deploy/spark/README.md, Size: 4 cores of 4 are too many, 3900m are not."""

    def unschedulable() -> str:
        (pod,) = cluster.api.pods("spark-role=executor", namespace)
        return next((one["message"] for one in pod["status"].get("conditions", []) if one["status"] == "False"), "")

    create(cluster, (spark_pod("pod-templates", "executor", cpu="4"),), namespace)
    wait_until(lambda: "Insufficient cpu" in unschedulable(), "the scheduler finds no node")
    cluster.api.ask(f"/api/v1/namespaces/{namespace}/pods/executor?gracePeriodSeconds=0", "DELETE")
    create(cluster, (spark_pod("pod-templates", "executor", cpu="3900m"),), namespace)
    assert has_running_sidecar(comes_up(cluster, namespace, "spark-role=executor"))


# The DaemonSet


@pytest.fixture
def no_priority_class(cluster: Cluster) -> Iterator[None]:
    """It belongs to no namespace, so a test must take away what it has made."""
    yield
    cluster.api.ask("/apis/scheduling.k8s.io/v1/priorityclasses/kproxy-node", "DELETE")


@pytest.mark.usefixtures("no_priority_class")
def test_the_daemonset_runs_on_tainted_nodes_with_its_priority(cluster: Cluster, namespace: str) -> None:
    created = create(
        cluster, sorted(render(SPARK / "daemonset"), key=lambda one: one["kind"] == "DaemonSet"), namespace
    )
    (priority,) = [one for one in created if one["kind"] == "PriorityClass"]
    pods = come_up(cluster, namespace, "app.kubernetes.io/name=kproxy-node", 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    assert {(pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) for pod in pods} == {
        (priority["value"], "Never")
    }
    service = cluster.api.get("v1", "Service", "kproxy-node", namespace)
    assert service["spec"]["internalTrafficPolicy"] == "Local"


# The Spark operators


@pytest.mark.skipif(CRDS is None, reason="KPROXY_SPARK_CRDS names no directory with the CRDs of the Spark operators")
@pytest.mark.parametrize("group", APPLICATIONS)
def test_the_operator_s_api_takes_the_application(cluster: Cluster, namespace: str, group: str) -> None:
    assert CRDS is not None
    found = [one for path in Path(CRDS).rglob("*.yaml") for one in yaml.safe_load_all(path.read_text()) if one]
    (crd,) = [one for one in found if one["metadata"]["name"] == f"sparkapplications.{group}"]
    cluster.api.create(crd)
    application = only(render(EXAMPLE / APPLICATIONS[group]), "SparkApplication")
    version = application["apiVersion"]
    wait_until(lambda: serves(cluster, version), f"the server knows {version}")
    (stored,) = create(cluster, (application,), namespace)
    assert is_part(application["spec"], stored["spec"])
    with pytest.raises(Refused, match="unknown field"):
        create(cluster, (misspelt(application, MISSPELT[group]),), namespace)


def misspelt(document: dict[str, Any], key: str) -> dict[str, Any]:
    """The same with another name, and with this key in capitals."""
    text = yaml.safe_dump(document)
    assert f"{key}:" in text
    return {**yaml.safe_load(text.replace(f"{key}:", f"{key.upper()}:")), "metadata": {"name": "misspelt"}}


def serves(cluster: Cluster, version: str) -> bool:
    try:
        return bool(cluster.api.ask(f"/apis/{version}")["resources"])
    except Refused:  # 404, or 503 for a moment
        return False


def is_part(wanted: Any, found: Any) -> bool:
    """Whether all of what is wanted is there; the server adds defaults."""
    if isinstance(wanted, dict):
        return all(key in found and is_part(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(wanted) == len(found) and all(map(is_part, wanted, found))
    return bool(wanted == found)


# The commands of deploy/spark/README.md, as they stand


def commands(heading: str) -> list[str]:
    """The shell lines under a heading of the README, without those of Docker: there is no engine here."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", README.read_text(), re.S | re.M)
    return [line for line in shell_lines(section) if not line.startswith("docker ")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of the repository as the commands need, to write into; a file with the password is there."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "deploy" / "spark" / "kubernetes" / "sasl-password").write_text("secret")
    return tmp_path


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_commands_for_sidecars_start_a_driver(cluster: Cluster, checkout: Path) -> None:
    pytest.importorskip("pyspark")
    lines = commands("Sidecars")
    assert [line.split()[0] for line in lines][-1] == "spark-submit"
    with shell("\n".join(lines), cluster, checkout) as process:
        pod = made_by_spark(cluster, process, "spark", "driver")
        assert has_running_sidecar(pod)
        assert sidecar_of(pod)["image"] == "images.example/kproxy:0.1.0"
        assert pod["spec"]["serviceAccountName"] == "spark"
        assert cluster.api.get("v1", "Secret", "kproxy-spark")["data"].keys() == {"sasl-password"}
        the_account_may_make_what_a_driver_makes(cluster, pod)
        ends(cluster, pod["metadata"]["name"])
        assert process.wait(120) == 0, process.said()


class Shell(subprocess.Popen[bytes]):
    """A shell that runs some lines; what they say is in a file."""

    def __init__(self, lines: str, cluster: Cluster, directory: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
        }
        self._log = directory / "log"
        with self._log.open("wb") as log:
            super().__init__(
                ["sh", "-ec", lines], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return self._log.read_text(errors="replace")


@contextmanager
def shell(lines: str, cluster: Cluster, directory: Path) -> Iterator[Shell]:
    """With spark-submit on the path. All its processes end."""
    process = Shell(lines, cluster, directory)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the JVM, too
            process.wait()


def made_by_spark(cluster: Cluster, process: Shell, namespace: str, role: str) -> dict[str, Any]:
    """The first pod of a role, when it runs."""

    def up() -> dict[str, Any] | None:
        assert process.poll() is None, process.said()
        pods = cluster.api.pods(f"spark-role={role}", namespace)
        return next((pod for pod in pods if pod["status"]["phase"] == "Running"), None)

    pod = wait_until(up, f"Spark's {role} runs", 200)
    assert isinstance(pod, dict)
    return pod


def test_a_driver_in_client_mode_makes_an_executor(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    executor = only(render(SPARK / "pod-templates"), "Pod", "executor")
    (tmp_path / "executor.yaml").write_text(yaml.safe_dump(executor))
    job = "import time\nfrom pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\ntime.sleep(600)\n"
    (tmp_path / "job.py").write_text(job)
    conf = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": "spark",
        "spark.kubernetes.executor.podTemplateFile": "executor.yaml",
        "spark.executor.instances": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", f"k8s://{cluster.api.url}", "--deploy-mode", "client", *words, "job.py"]
    with shell(f"exec {shlex.join(command)}", cluster, tmp_path) as process:
        pod = made_by_spark(cluster, process, namespace, "executor")
        assert has_running_sidecar(pod)
        assert is_part(executor["spec"]["initContainers"][0]["resources"], sidecar_of(pod)["resources"])


def the_account_may_make_what_a_driver_makes(cluster: Cluster, driver: dict[str, Any]) -> None:
    """Executors, from the template that spark-submit has stored for the driver. Without the rights it may not."""
    account = f"system:serviceaccount:spark:{driver['spec']['serviceAccountName']}"

    def stored() -> list[str]:
        maps = cluster.api.get("v1", "ConfigMap")["items"]
        return [text for one in maps if "podspec" in one["metadata"]["name"] for text in one["data"].values()]

    (text,) = wait_until(stored, "spark-submit has stored the executors' template")  # after the driver's pod
    template = yaml.safe_load(text)
    first, *others = template["spec"]["containers"]
    spec = {**template["spec"], "containers": [{**first, "image": "spark"}, *others], "restartPolicy": "Never"}
    metadata = {"name": "executor", "namespace": "spark", "labels": {"spark-role": "executor"}}
    executor = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    with pytest.raises(Refused, match="forbidden"):
        cluster.api.create(executor, user="system:serviceaccount:spark:default")
    cluster.api.create(executor, user=account)
    assert has_running_sidecar(comes_up(cluster, "spark", "spark-role=executor"))


def ends(cluster: Cluster, pod: str) -> None:
    """What the kubelet says when the containers of a pod have ended well."""
    status = {"phase": "Succeeded"}
    path = f"/api/v1/namespaces/spark/pods/{pod}/status"
    cluster.api.ask(path, "PATCH", {"status": status}, kind="application/merge-patch+json")


@pytest.mark.usefixtures("no_priority_class")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_commands_for_the_daemonset(cluster: Cluster, checkout: Path, namespace: str) -> None:
    """As the README has them, but in a namespace of the test's own."""
    file = checkout / "deploy" / "spark" / "kubernetes" / "example" / "daemonset" / "kustomization.yaml"
    file.write_text(file.read_text().replace("namespace: spark", f"namespace: {namespace}"))
    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands("DaemonSet"))], cwd=checkout,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    come_up(cluster, namespace, "app.kubernetes.io/name=kproxy-node", 2)
