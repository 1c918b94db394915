"""The manifests: valid for old and new Kubernetes, probes that exist, ports that agree, no privileges."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kproxy.base.address import Address
from kproxy.config import Config
from kproxy.proxy.admin.routes import TABLE
from tests.unit.deploy.deployed import CONTAINER_FILE, ROOT, UNPRIVILEGED, all_ports, asked_within, config_of_text

FOLDER = ROOT / "deploy" / "kubernetes"
MANIFESTS = {path.stem: list(yaml.safe_load_all(path.read_text())) for path in sorted(FOLDER.glob("*.yaml"))}
DOCUMENTS = [pytest.param(one, id=f"{name}-{one['kind']}") for name, many in MANIFESTS.items() for one in many]
# The first with native sidecars by default, and the newest that the validator knows.
VERSIONS = ("1.29", kubernetes_validate.latest_version())


def the(name: str, kind: str) -> dict[str, Any]:
    (document,) = [document for document in MANIFESTS[name] if document["kind"] == kind]
    assert isinstance(document, dict)
    return document


def pod(name: str) -> dict[str, Any]:
    spec = the(name, "Deployment")["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container(name: str) -> dict[str, Any]:
    """kproxy's own."""
    (found,) = [
        one for one in (*pod(name).get("initContainers", []), *pod(name)["containers"]) if one["name"] == "kproxy"
    ]
    assert isinstance(found, dict)
    return found


def config(name: str) -> Config:
    data = the(name, "ConfigMap")["data"]
    assert list(data) == ["kproxy.yaml"]
    return config_of_text(data["kproxy.yaml"], container(name)["args"])


def port_number(name: str, port: str) -> int:
    (number,) = [entry["containerPort"] for entry in container(name)["ports"] if entry["name"] == port]
    assert isinstance(number, int)
    return number


def test_there_are_a_sidecar_and_a_standalone_deployment() -> None:
    assert list(MANIFESTS) == ["sidecar", "standalone"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_it_is_valid(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_validator_finds_a_misspelt_key() -> None:
    broken = copy.deepcopy(the("sidecar", "Deployment"))
    broken["spec"]["template"]["spec"]["initContainers"][0]["startUpProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError, match="startUpProbe"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_probes_request_existing_pages_on_the_configured_port(name: str) -> None:
    admin = config(name).admin
    probes = {key: value for key, value in container(name).items() if key.endswith("Probe")}

    assert admin is not None
    if name == "sidecar":  # nobody else in the pod's network is to come there
        paths = {key: asked_within(probe, admin) for key, probe in probes.items()}
    else:
        assert admin.is_wildcard  # the kubelet comes from outside the pod
        assert {port_number(name, probe["httpGet"]["port"]) for probe in probes.values()} == {admin.port}
        paths = {key: probe["httpGet"]["path"] for key, probe in probes.items()}
    assert set(paths.values()) <= {route.path for route in TABLE}
    ready = {"sidecar": "startupProbe", "standalone": "readinessProbe"}[name]
    assert paths == {"livenessProbe": "/livez", ready: "/readyz"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_kproxy_runs_with_the_mounted_file_and_no_privileges(name: str) -> None:
    one = container(name)
    (mount,) = one["volumeMounts"]
    (volume,) = [volume for volume in pod(name)["volumes"] if volume["name"] == mount["name"]]
    security = {**pod(name).get("securityContext", {}), **one["securityContext"]}

    assert volume["configMap"]["name"] == the(name, "ConfigMap")["metadata"]["name"]
    assert one["args"][-1] == CONTAINER_FILE == f"{mount['mountPath']}/kproxy.yaml"
    assert security == UNPRIVILEGED
    assert "USER 65532:65532" in (ROOT / "Dockerfile").read_text()
    assert set(one["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in one["resources"]["limits"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_there_is_time_to_drain(name: str) -> None:
    hook = container(name).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])

    assert hook[0] == "sleep"
    assert pod(name)["terminationGracePeriodSeconds"] > int(hook[1]) + config(name).drain_timeout


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_image_is_of_this_version(name: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert container(name)["image"] == f"kproxy:{version}"


def test_the_sidecar_is_a_native_one_that_only_its_pod_can_use() -> None:
    cluster = config("sidecar").clusters[0]
    (application,) = pod("sidecar")["containers"]

    assert [one["restartPolicy"] for one in pod("sidecar")["initContainers"]] == ["Always"]
    assert cluster.listen == Address("127.0.0.1", 19092)
    assert {"name": "KAFKA_BOOTSTRAP_SERVERS", "value": str(cluster.listen)} in application["env"]


def test_the_service_has_every_port_that_clients_are_told() -> None:
    service = the("standalone", "Service")
    cluster = config("standalone").clusters[0]
    window = cluster.effective_node_ports()
    ports = {entry["name"]: entry["port"] for entry in service["spec"]["ports"]}

    assert ports == {
        "bootstrap": cluster.listen.port,
        **{f"node-{at}": port for at, port in enumerate(range(window.first, window.last + 1))},
    }
    assert set(ports.values()) == all_ports(config("standalone"))
    assert all(set(entry) == {"name", "port"} for entry in service["spec"]["ports"])  # the same numbers behind it
    assert cluster.listen.is_wildcard
    assert all(cluster.advertised_port(port) == port for port in range(window.first, window.last + 1))


def test_clients_are_told_the_name_of_the_service() -> None:
    metadata = the("standalone", "Service")["metadata"]
    advertise = config("standalone").clusters[0].advertise

    assert advertise is not None
    assert advertise.host == f"{metadata['name']}.{metadata['namespace']}.svc"


def test_the_service_selects_the_pods() -> None:
    labels = the("standalone", "Deployment")["spec"]["template"]["metadata"]["labels"]

    assert the("standalone", "Service")["spec"]["selector"].items() <= labels.items()
    for name in MANIFESTS:
        spec = the(name, "Deployment")["spec"]
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_prometheus_finds_the_metrics() -> None:
    annotations = the("standalone", "Deployment")["spec"]["template"]["metadata"]["annotations"]
    admin = config("standalone").admin

    assert admin is not None
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(admin.port)}
