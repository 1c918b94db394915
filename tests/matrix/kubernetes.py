"""A Kubernetes cluster on this machine: the real API server, scheduler and controllers. kwok plays the nodes.

No container runs. kwok says of each pod on a node that it runs, as a kubelet would if every image were there and every
probe succeeded. The programs are built once from their Go modules (programs/kubernetes), and kept in the cache.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kproxy.dev.devcluster.jars import cache_directory
from tests.harness.process import free_window, wait_until
from tests.harness.programs.javac import locked, newer
from tests.matrix.client import HERE
from tests.matrix.languages import make, tool

_SOURCES = HERE / "programs" / "kubernetes"
# Each program is called as the last part of its path. etcd's is `server`.
_PACKAGES = (
    "go.etcd.io/etcd/server/v3",
    *(f"k8s.io/kubernetes/cmd/kube-{name}" for name in ("apiserver", "scheduler", "controller-manager")),
    "k8s.io/kubernetes/cmd/kubectl",
    "sigs.k8s.io/kwok/cmd/kwok",
    "./node",
    "./stages",
)
_ETCD = "server"
# It is most of Kubernetes: two cores need ten minutes, once.
BUILD_S = 3600
_TOKEN = "token-of-a-test"  # only 127.0.0.1 can use it, for as long as the test runs


def programs() -> Path:
    """The directory of the programs, built if need be. Raises NotInstalled."""
    made = cache_directory() / "matrix" / "kubernetes"
    sources = [*_SOURCES.glob("go.*"), *_SOURCES.glob("*/*.go")]
    with locked(made):
        if not newer(made, sources):
            go = tool("go", "Go")
            flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
            # Else the server calls itself v0.0.0-master, and Helm refuses it.
            version = f"-X k8s.io/component-base/version.gitVersion=v{_version()}"
            command = [go, "build", "-mod=readonly", f"-ldflags=-s -w {version}", "-o", f"{made}/", *_PACKAGES]
            make(made, command, _SOURCES, {"GOTOOLCHAIN": "local", "GOFLAGS": flags}, BUILD_S)
    return made


class Refused(Exception):
    """The API server's no: `code` is the HTTP status, `str()` what it says."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Api:
    """The API server as a client sees it."""

    def __init__(self, url: str, ca: Path) -> None:
        self.url = url
        trust = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), trust)

    def ask(self, path: str, method: str = "GET", body: object = None, user: str = "", kind: str = "") -> Any:
        """The answer to a request, as `user` if there is one. Raises Refused, and OSError while nothing listens."""
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": kind or "application/json"}
        if user:
            headers["Impersonate-User"] = user
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with self._opener.open(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            with contextlib.suppress(ValueError, TypeError):
                text = json.loads(text)["message"]
            raise Refused(error.code, text) from None
        return json.loads(text) if text.startswith("{") else text

    def create(self, document: Mapping[str, Any], namespace: str = "spark", user: str = "") -> Any:
        """Create an object in this namespace, if it is of one, and return what the server has stored.

        The server refuses a field that it does not know.
        """
        where = self._collection(document["apiVersion"], document["kind"], namespace)
        metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        if "/namespaces/" in where:
            metadata["namespace"] = namespace
        document = {**document, "metadata": metadata}
        return self.ask(f"{where}?fieldValidation=Strict", "POST", document, user)

    def get(self, version: str, kind: str, name: str = "", namespace: str = "spark", query: str = "") -> Any:
        """One object, or the list of all."""
        path = self._collection(version, kind, namespace) + (f"/{name}" if name else "")
        return self.ask(path + (f"?{query}" if query else ""))

    def pods(self, labels: str = "", namespace: str = "spark") -> list[Any]:
        return list(self.get("v1", "Pod", namespace=namespace, query=f"labelSelector={labels}")["items"])

    def _collection(self, version: str, kind: str, namespace: str) -> str:
        top = f"/{'api' if version == 'v1' else 'apis'}/{version}"
        (found,) = [one for one in self.ask(top)["resources"] if one["kind"] == kind and "/" not in one["name"]]
        return f"{top}/namespaces/{namespace}/{found['name']}" if found["namespaced"] else f"{top}/{found['name']}"


class Cluster:
    """A running one. `kubeconfig` is an administrator's."""

    def __init__(self, api: Api, kubeconfig: Path, server: Process) -> None:
        self.api = api
        self.kubeconfig = kubeconfig
        self._server = server

    def restart_api_server(self) -> None:
        """It is killed, and begun again."""
        self._server.restart()
        wait_until(lambda: _answers(self.api, self._server), "the API server is ready again", 300)

    def add_node(
        self, name: str, cpu: str = "4", memory: str = "8Gi", taints: Sequence[Mapping[str, str]] = ()
    ) -> None:
        size = {"cpu": cpu, "memory": memory, "pods": "110"}
        spec = {"taints": list(taints)}
        status = {"capacity": size, "allocatable": size}
        labels = {"kubernetes.io/hostname": name}
        metadata = {"name": name, "labels": labels}
        self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})

        def ready() -> bool:
            node = self.api.get("v1", "Node", name)
            conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
            keys = {taint["key"] for taint in node["spec"].get("taints", [])}
            return conditions.get("Ready") == "True" and not any(key.startswith("node.kubernetes.io/") for key in keys)

        wait_until(ready, f"the node {name} is ready")

    def add_namespace(self, name: str) -> None:
        """A namespace in which pods can be made: it has the service account of pods that name none."""
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_until(lambda: self._has_account(name), f"the namespace {name} has a service account")

    def _has_account(self, namespace: str) -> bool:
        accounts = self.api.get("v1", "ServiceAccount", namespace=namespace)["items"]
        return any(one["metadata"]["name"] == "default" for one in accounts)

    def empty_namespace(self, name: str) -> None:
        """Delete a namespace, and wait until its pods are gone from the nodes."""
        self.api.ask(f"/api/v1/namespaces/{name}", "DELETE")
        wait_until(lambda: not self.api.pods(namespace=name), f"no pod is left in {name}")


@contextmanager
def running(directory: Path, forwards: Mapping[str, Mapping[int, int]] | None = None) -> Iterator[Cluster]:
    """A cluster without nodes; its files are in a directory. Raises NotInstalled if its programs cannot be had.

    `forwards` are the ports of this machine to which those of pods lead, by NAMESPACE/POD.
    """
    made = programs()
    first = free_window(4)
    etcd, peer, port, kwok = (f"127.0.0.1:{first + at}" for at in range(4))
    url = f"https://{port}"
    ca = _certificates(directory)
    (directory / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
    behaviour = [_output(made / "stages"), *(yaml.safe_dump(one) for one in _port_forwards(forwards or {}))]
    (directory / "stages.yaml").write_text("\n---\n".join(behaviour))
    config = directory / "kubeconfig"
    config.write_text(yaml.safe_dump(_kubeconfig(url, ca)))
    api = Api(url, ca)
    client = [f"--kubeconfig={config}"]
    with ExitStack() as stack:
        start = _Starter(stack, directory, made)
        start(
            _ETCD, f"--data-dir={directory / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls=http://{etcd}", f"--advertise-client-urls=http://{etcd}",
            f"--listen-peer-urls=http://{peer}", f"--initial-advertise-peer-urls=http://{peer}",
            f"--initial-cluster=default=http://{peer}",
        )  # fmt: skip
        server = start(
            "kube-apiserver", f"--etcd-servers=http://{etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--secure-port={first + 2}",
            f"--tls-cert-file={directory / 'server.pem'}", f"--tls-private-key-file={directory / 'server.key'}",
            f"--token-auth-file={directory / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--kubelet-preferred-address-types=InternalIP", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'accounts.key'}",
            f"--service-account-signing-key-file={directory / 'accounts.key'}",
        )  # fmt: skip
        wait_until(lambda: _answers(api, server), "the API server is ready", 300)
        start(
            "kube-controller-manager", *client, "--leader-elect=false", "--secure-port=0", f"--root-ca-file={ca}",
            f"--service-account-private-key-file={directory / 'accounts.key'}",
        )  # fmt: skip
        start("kube-scheduler", *client, "--leader-elect=false", "--secure-port=0")
        start(
            "kwok", *client, "--manage-all-nodes", f"--config={directory / 'stages.yaml'}", f"--server-address={kwok}",
            "--node-ip=127.0.0.1", f"--node-port={first + 3}", "--cidr=10.97.0.0/16",
            "--node-lease-duration-seconds=40",
            f"--tls-cert-file={directory / 'server.pem'}", f"--tls-private-key-file={directory / 'server.key'}",
        )  # fmt: skip
        yield Cluster(api, config, server)


def _port_forwards(forwards: Mapping[str, Mapping[int, int]]) -> Iterator[dict[str, Any]]:
    for place, ports in forwards.items():
        namespace, _, name = place.partition("/")
        targets = [{"ports": [port], "target": {"address": "127.0.0.1", "port": to}} for port, to in ports.items()]
        yield {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "PortForward",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"forwards": targets},
        }


class _Starter:
    """Starts the programs, each with a log; they end in the reverse order."""

    def __init__(self, stack: ExitStack, directory: Path, made: Path) -> None:
        self._stack = stack
        self._directory = directory
        self._made = made

    def __call__(self, name: str, *flags: str) -> Process:
        log = self._directory / f"{name}.log"
        return self._stack.enter_context(_process([str(self._made / name), *flags], log))


class Process:
    """A program, and what it says."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self._begin()

    def _begin(self) -> None:
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self._log.parent
            )

    def restart(self) -> None:
        self._process.kill()
        self._process.wait()
        self._begin()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:  # Kubernetes' own grace is longer, and nothing is lost here
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Fail if it has ended."""
        if self._process.poll() is not None:
            lines = self._log.read_text(errors="replace").splitlines()[-20:]
            raise AssertionError(f"{self._log.stem} ended with {self._process.returncode}:\n" + "\n".join(lines))


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[Process]:
    made = Process(command, log)
    try:
        yield made
    finally:
        made.end()


def _answers(api: Api, server: Process) -> bool:
    server.check()
    try:
        return bool(api.ask("/readyz") == "ok")
    except (Refused, OSError):
        return False


def _output(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout


def _certificates(directory: Path) -> Path:
    """The server's certificate and key, the key of the service accounts, and the file of the authority."""
    authority = trustme.CA()
    ca = directory / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    (directory / "server.pem").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(str(directory / "server.key"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (directory / "accounts.key").write_bytes(key)
    return ca


def _kubeconfig(url: str, ca: Path) -> dict[str, Any]:
    authority = base64.b64encode(ca.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }


def built_version() -> str:
    """The minor version of Kubernetes that go.mod names."""
    return _version().split(".")[1]


def _version() -> str:
    (found,) = re.findall(r"k8s\.io/kubernetes v(1\.\d+\.\d+)", (_SOURCES / "go.mod").read_text())
    return str(found)
