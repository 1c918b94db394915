"""deploy/spark/kubernetes, as kustomize renders it: valid for Kubernetes and the operator, one sidecar everywhere."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from kproxy.base.address import Address
from kproxy.config import Config
from kproxy.proxy.admin.routes import TABLE
from tests.harness.programs.kustomize import MISSING, PROGRAM, only, render
from tests.unit.deploy.deployed import CONTAINER_FILE, ROOT, UNPRIVILEGED, all_ports, asked_within, config_of_text

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

FOLDER = ROOT / "deploy" / "spark" / "kubernetes"
SIDECAR = yaml.safe_load((FOLDER / "sidecar" / "sidecar.yaml").read_text())
EXAMPLES = sorted(path.parent for path in (FOLDER / "example").rglob("kustomization.yaml"))
FOLDERS = [*(FOLDER / name for name in ("base", "pod-templates", "without-native-sidecars", "daemonset")), *EXAMPLES]
# The first with native sidecars by default, and the newest that the validator knows.
SIDECARS = ("1.29", kubernetes_validate.latest_version())
OLDER = ("1.25", "1.28")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def application() -> dict[str, Any]:
    return only(render(FOLDER / "example" / "spark-operator"), "SparkApplication")


def apache_application() -> dict[str, Any]:
    return only(render(FOLDER / "example" / "apache-spark-operator"), "SparkApplication")


def templates() -> dict[str, dict[str, Any]]:
    """The pod templates in the applications of both operators, by operator and role."""
    kubeflow = application()["spec"]
    apache = apache_application()["spec"]
    return {
        "kubeflow/driver": kubeflow["driver"]["template"],
        "kubeflow/executor": kubeflow["executor"]["template"],
        "apache/driver": apache["driverSpec"]["podTemplateSpec"],
        "apache/executor": apache["executorSpec"]["podTemplateSpec"],
    }


def pods() -> dict[str, dict[str, Any]]:
    """Every pod that Spark or Kubernetes is told to make: its spec."""
    rendered = {
        f"{folder.relative_to(FOLDER)}/{one['metadata']['name']}": one
        for folder in FOLDERS
        for one in render(folder)
        if one["kind"] in ("Pod", "DaemonSet")
    }
    found = {name: one["spec"].get("template", one)["spec"] for name, one in rendered.items()}
    return found | {name: template["spec"] for name, template in templates().items()}


def kproxy_of(spec: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in (*spec.get("initContainers", []), *spec["containers"]) if one["name"] == "kproxy"]
    assert isinstance(found, dict)
    return found


def config_map(folder: Path) -> dict[str, str]:
    data = only(render(folder), "ConfigMap")["data"]
    assert isinstance(data, dict)
    return data


def config(folder: Path) -> Config:
    return config_of_text(config_map(folder)["kproxy.yaml"])


def test_every_kustomization_is_looked_at() -> None:
    components = {FOLDER / "sidecar"}
    assert {path.parent for path in FOLDER.rglob("kustomization.yaml")} == {*FOLDERS, *components}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_what_is_rendered_is_valid(folder: Path) -> None:
    for document in render(folder):
        if document["kind"] != "SparkApplication":
            for version in OLDER if folder.name == "without-native-sidecars" else SIDECARS:
                kubernetes_validate.validate(document, version, strict=True)


def test_native_sidecars_are_not_for_older_kubernetes() -> None:
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolicy"):
        kubernetes_validate.validate(only(render(FOLDER / "pod-templates"), "Pod", "driver"), "1.27", strict=True)


def known(document: dict[str, Any]) -> dict[str, Any]:
    """What the operator's own model of its API keeps of a document: what it does not know is not in it."""
    model = SparkV1beta2SparkApplication.from_dict(document)
    assert model is not None
    found = model.to_dict()
    assert isinstance(found, dict)
    return found


def lost(given: Any, kept: Any, at: str = "") -> list[str]:
    """The paths of what is given and not kept; defaults may have been added."""
    pairs = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    if not pairs:
        return [] if given == kept else [at]
    found = []
    for key, value in pairs:
        path = f"{at}.{key}".strip(".")
        there = key in kept if isinstance(kept, dict) else key < len(kept)
        found += lost(value, kept[key], path) if there else [path]
    return found


def test_the_operator_understands_the_application() -> None:
    assert lost(application(), known(application())) == []


@pytest.mark.parametrize("name", list(templates()) if PROGRAM else [])
def test_the_template_in_an_application_is_a_pod(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **templates()[name]}
    kubernetes_validate.validate(pod, SIDECARS[-1], strict=True)


def test_a_misspelt_key_is_found() -> None:
    broken = copy.deepcopy(application())
    broken["spec"]["driver"]["template"]["spec"]["initContainers"][0]["startUpProbe"] = {}
    assert lost(broken, known(broken)) == ["spec.driver.template.spec.initContainers.0.startUpProbe"]


def test_the_sidecar_is_one_and_the_same() -> None:
    folder = FOLDER / "pod-templates"
    (wanted,) = SIDECAR["spec"]["initContainers"]
    rendered = [only(render(folder), "Pod", role)["spec"] for role in ("driver", "executor")]
    rendered += [template["spec"] for template in templates().values()]
    for spec in rendered:
        assert [{**one, "image": wanted["image"]} for one in spec["initContainers"]] == [wanted]
        assert spec["volumes"] == SIDECAR["spec"]["volumes"]
    assert wanted["restartPolicy"] == "Always"


def test_spark_finds_its_containers_by_their_names() -> None:
    for folder in ("pod-templates", "without-native-sidecars"):
        for role in ("driver", "executor"):
            first = only(render(FOLDER / folder), "Pod", role)["spec"]["containers"][0]
            assert first["name"] == f"spark-kubernetes-{role}"


def test_without_native_sidecars_there_are_none() -> None:
    for role in ("driver", "executor"):
        spec = only(render(FOLDER / "without-native-sidecars"), "Pod", role)["spec"]
        (sidecar,) = SIDECAR["spec"]["initContainers"]
        kproxy = kproxy_of(spec)
        assert not spec["initContainers"]
        assert kproxy["args"] == [*sidecar["args"], "--exit-with", "/run/kproxy/ended"]
        for same in ("image", "livenessProbe", "resources", "securityContext"):
            assert kproxy[same] == sidecar[same]


@pytest.mark.parametrize("name", list(pods()) if PROGRAM else [])
def test_kproxy_has_no_privileges_and_no_secret_in_its_command(name: str) -> None:
    one = kproxy_of(pods()[name])
    security = {**pods()[name].get("securityContext", {}), **one["securityContext"]}
    assert security == UNPRIVILEGED
    assert one["image"] in (f"kproxy:{VERSION}", f"images.example/kproxy:{VERSION}")
    assert set(one["resources"]["requests"]) == {"cpu", "memory"}
    assert set(one["resources"]["limits"]) == {"memory"}
    assert one["args"][:3] == ["run", "-c", CONTAINER_FILE]
    mounts = {mount["name"]: mount for mount in one["volumeMounts"]}
    assert mounts["kproxy"] == {"name": "kproxy", "mountPath": "/etc/kproxy", "readOnly": True}
    (volume,) = [volume for volume in pods()[name]["volumes"] if volume["name"] == "kproxy"]
    _, secret = volume["projected"]["sources"]
    assert secret == {"secret": {"name": "kproxy-spark", "optional": True}}
    assert {one["name"] for one in one.get("env", [])} <= {"NAMESPACE", "KPROXY_ADVERTISE"}
    assert all(mount["name"] != "kproxy" for other in pods()[name]["containers"] if other["name"] != "kproxy"
               for mount in other.get("volumeMounts", []))  # fmt: skip


@pytest.mark.parametrize("name", list(pods()) if PROGRAM else [])
def test_probes_request_existing_pages_on_the_configured_port(name: str) -> None:
    one = kproxy_of(pods()[name])
    on_nodes = "daemonset" in name
    admin = config(FOLDER / ("daemonset" if on_nodes else "base")).admin
    probes = [value for key, value in one.items() if key.endswith("Probe")]
    assert admin is not None
    assert probes
    if on_nodes:
        assert admin.is_wildcard
        ports = {entry["name"]: entry["containerPort"] for entry in one["ports"]}
        assert {ports[probe["httpGet"]["port"]] for probe in probes} == {admin.port}
        paths = {probe["httpGet"]["path"] for probe in probes}
    else:
        paths = {asked_within(probe, admin) for probe in probes}
    assert paths <= {route.path for route in TABLE}


def test_no_pod_of_spark_opens_the_admin_endpoint_to_its_network() -> None:
    """Only the pods of the DaemonSet do, and their NetworkPolicy guards it."""
    for folder in (FOLDER / "base", FOLDER / "example"):
        admin = config(folder).admin
        assert admin is not None
        assert admin.host == "127.0.0.1"


@pytest.mark.parametrize("folder", [FOLDER / name for name in ("base", "daemonset", "example", "example/daemonset")])
def test_each_configuration_sets_its_readiness_requirement(folder: Path) -> None:
    assert "ready-requires" in yaml.safe_load(config_map(folder)["kproxy.yaml"])


@pytest.mark.parametrize("folder", [FOLDER / "base", FOLDER / "example"], ids=lambda path: path.name)
def test_the_bootstrap_server_is_the_same_in_every_pod(folder: Path) -> None:
    assert only(render(folder), "ConfigMap")["metadata"]["name"] == "kproxy-spark"
    assert config(folder).clusters[0].listen == Address("127.0.0.1", 19092)
    assert application()["spec"]["arguments"] == ["127.0.0.1:19092"]
    assert apache_application()["spec"]["driverArgs"] == ["127.0.0.1:19092"]


def test_the_password_of_the_example_comes_from_the_secret() -> None:
    cluster = config(FOLDER / "example").clusters[0]
    assert cluster.sasl_password_file == Path(CONTAINER_FILE).with_name("sasl-password")
    assert list(config_map(FOLDER / "example")) == ["kproxy.yaml"]
    assert not [one for folder in FOLDERS for one in render(folder) if one["kind"] == "Secret"]


# The DaemonSet

DAEMONSET = FOLDER / "daemonset"


def test_the_daemonset_overlay_is_all_that_must_be_applied() -> None:
    """In the namespace `spark`, with the user's configuration, the example's image, and the secret of the others."""
    folder = FOLDER / "example" / "daemonset"
    documents = {one["kind"]: one for one in render(folder)}
    assert documents.keys() == {"ConfigMap", "DaemonSet", "NetworkPolicy", "PriorityClass", "Service"}
    namespaced = [one for kind, one in documents.items() if kind != "PriorityClass"]
    assert {one["metadata"]["namespace"] for one in namespaced} == {"spark"}
    spec = documents["DaemonSet"]["spec"]["template"]["spec"]
    assert kproxy_of(spec)["image"] == f"images.example/kproxy:{VERSION}"
    sources = [source for volume in spec["volumes"] for source in volume["projected"]["sources"]]
    assert {"configMap": {"name": documents["ConfigMap"]["metadata"]["name"]}} in sources
    assert config(folder).clusters[0].sasl_password_file == Path(CONTAINER_FILE).with_name("sasl-password")
    assert all_ports(config(folder)) == all_ports(config(DAEMONSET))


def test_every_port_that_clients_are_told_is_the_service_s() -> None:
    service = only(render(DAEMONSET), "Service")
    ports = {entry["name"]: entry["port"] for entry in service["spec"]["ports"]}
    cluster = config(DAEMONSET).clusters[0]
    window = cluster.effective_node_ports()
    assert ports == {
        "bootstrap": cluster.listen.port,
        **{f"node-{at}": port for at, port in enumerate(range(window.first, window.last + 1))},
    }
    assert cluster.listen.is_wildcard
    kafka, _ = only(render(DAEMONSET), "NetworkPolicy")["spec"]["ingress"]
    (allowed,) = kafka["ports"]
    assert set(range(allowed["port"], allowed["endPort"] + 1)) == set(ports.values()) == all_ports(config(DAEMONSET))


def test_the_policy_admits_prometheus_to_the_admin_port_only() -> None:
    _, metrics = only(render(DAEMONSET), "NetworkPolicy")["spec"]["ingress"]
    annotations = only(render(DAEMONSET), "DaemonSet")["spec"]["template"]["metadata"]["annotations"]
    admin = config(DAEMONSET).admin
    assert admin is not None
    assert metrics["ports"] == [{"port": admin.port}]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(admin.port)}
    assert all("namespaceSelector" in peer for peer in metrics["from"])


def test_the_policy_admits_only_pods_of_the_namespace() -> None:
    kafka, _ = only(render(DAEMONSET), "NetworkPolicy")["spec"]["ingress"]
    assert [list(peer) for peer in kafka["from"]] == [["podSelector"], ["podSelector"]]
    assert all(peer["podSelector"] for peer in kafka["from"])  # an empty one is every pod


def test_the_daemonset_is_on_tainted_nodes_and_ends_no_executor() -> None:
    spec = only(render(DAEMONSET), "DaemonSet")["spec"]["template"]["spec"]
    priority = only(render(DAEMONSET), "PriorityClass")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == priority["metadata"]["name"]
    assert priority["value"] > 0  # what Spark's pods have if nothing says another
    assert priority["preemptionPolicy"] == "Never"


def test_clients_are_told_the_service_and_stay_on_their_node() -> None:
    service = only(render(DAEMONSET), "Service")
    daemonset = only(render(DAEMONSET), "DaemonSet")["spec"]
    env = {one["name"]: one for one in kproxy_of(daemonset["template"]["spec"])["env"]}
    labels = daemonset["template"]["metadata"]["labels"]
    policy = only(render(DAEMONSET), "NetworkPolicy")["spec"]
    assert env["KPROXY_ADVERTISE"]["value"] == f"{service['metadata']['name']}.$(NAMESPACE).svc"
    assert env["NAMESPACE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    assert service["spec"]["internalTrafficPolicy"] == "Local"
    assert service["spec"]["selector"] == policy["podSelector"]["matchLabels"] == daemonset["selector"]["matchLabels"]
    assert labels == daemonset["selector"]["matchLabels"]


def test_another_configuration_replaces_the_pods() -> None:
    (volume,) = only(render(DAEMONSET), "DaemonSet")["spec"]["template"]["spec"]["volumes"]
    name = only(render(DAEMONSET), "ConfigMap")["metadata"]["name"]
    assert volume["projected"]["sources"][0]["configMap"]["name"] == name != "kproxy-node"


def test_there_is_time_to_drain() -> None:
    spec = only(render(DAEMONSET), "DaemonSet")["spec"]["template"]["spec"]
    hook = kproxy_of(spec)["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[0] == "sleep"
    assert spec["terminationGracePeriodSeconds"] > int(hook[1]) + config(DAEMONSET).drain_timeout
