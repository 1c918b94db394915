"""Clusters in Kubernetes: those of Strimzi and of Confluent for Kubernetes, and Services like Kafka's.

kproxy asks the API server of the current context, as `kubectl get` does, with the user's kubeconfig.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from kproxy.base.errors import UpstreamError
from kproxy.base.packages import install_command
from kproxy.base.printable import one_line
from kproxy.inspect.discover.results import ClusterCandidate, PlaceResult
from kproxy.net.dial.connector import Deadline
from kproxy.net.dial.direct import DirectConnector
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup

_SECONDS = 10.0
# The newer version first: which of them there is depends on the operator's.
_STRIMZI = ("/apis/kafka.strimzi.io/v1", "/apis/kafka.strimzi.io/v1beta2")
_CFK = "/apis/platform.confluent.io/v1beta1"
_NAME = "Kubernetes"
_MOST = 500
_PAGE, _PAGES = 500, 10
# The names that charts and operators give ports for clients, and the ports that are Kafka's.
_PORT_NAMES = re.compile(r"kafka|tcp-client|^clients?$|plaintext|redpanda", re.IGNORECASE)
_PORTS = (9092, 9071)
_NOT_KAFKA = re.compile(r"metrics|jmx|controller|replication|exporter|admin|rest|zookeeper|interbroker", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


async def search_kubernetes(context: str | None, namespace: str | None) -> PlaceResult:
    """Search one namespace, or all namespaces that the user may see."""
    if importlib.util.find_spec("websockets") is None:
        return PlaceResult(_NAME, problem=f"needs the package websockets: {install_command('websockets')}")
    from kproxy.net.dial.kubeapi import KubeApi  # few have its library
    from kproxy.net.dial.kubehttp import KubeStatusError

    async with SupervisedTaskGroup("the search in Kubernetes") as tasks:
        api = KubeApi(_NAME, context, DirectConnector(), tasks)
        resources = _ResourceSearch(context, namespace)
        try:
            limit = Deadline.after(_SECONDS)
            strimzi: list[Mapping[str, Any]] = []
            for version in _STRIMZI:
                strimzi = strimzi or await resources.listed(api, version, "kafkas", limit)
            cfk = await resources.listed(api, _CFK, "kafkas", limit)
            services = await resources.listed(api, "/api/v1", "services", limit)
        except UpstreamError as error:
            return PlaceResult(_NAME, problem=one_line(str(error).removeprefix(f"{_NAME}: "), 300))
        except KubeStatusError as error:
            why = "name one namespace with --namespace" if namespace is None else "ask for the right to list them"
            return PlaceResult(_NAME, problem=f"{one_line(str(error), 300)}: {why}")
        finally:
            await api.close()
    candidates = [*resources.strimzi(strimzi), *resources.cfk(cfk), *resources.services(services)]
    more = ""
    if resources.left_out or len(candidates) > _MOST:
        more = f"too many {' and '.join(resources.left_out) or 'clusters'}: name one namespace with --namespace"
    return PlaceResult(_NAME, candidates[:_MOST], left_out=more)


class _ResourceSearch:
    """Makes candidates of the resources that the API server lists. Malformed resources are left out."""

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self._context = "" if context is None else f"{quote(context, safe='')}/"
        self._namespace = namespace
        self.left_out: list[str] = []  # the resources with too many items
        self._known: set[tuple[str, str]] = set()  # namespaces and names of clusters that operators have made

    async def listed(self, api: Any, group: str, resource: str, limit: Deadline) -> list[Mapping[str, Any]]:
        """Return the items of a resource; none if the cluster does not have it.

        Raises KubeStatusError, UpstreamError.
        """
        from kproxy.net.dial.kubehttp import KubeStatusError

        namespace_path = "" if self._namespace is None else f"/namespaces/{quote(self._namespace, safe='')}"
        items: list[Mapping[str, Any]] = []
        page = ""
        for _ in range(_PAGES):
            try:
                reply = await api.get(f"{group}{namespace_path}/{resource}?limit={_PAGE}{page}", limit)
            except KubeStatusError as error:
                if error.status == 404 or (error.status == 403 and resource == "kafkas"):
                    return []  # no such operator; or a user that may not see it may see its Services
                if error.status == 410 and items:
                    break  # the server has forgotten the list by now
                raise
            items += _dicts(_within(reply, "items"))
            following = _within(reply, "metadata", "continue")
            if not isinstance(following, str) or not following:
                return items
            page = f"&continue={quote(following, safe='')}"
        self.left_out.append(resource)
        return items

    def _clusters(self, items: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the clusters of an operator: name, namespace and resource."""
        for item in items:
            name, namespace = _named(item)
            if name:
                self._known.add((namespace, name))
                yield name, namespace, item

    def strimzi(self, items: list[Mapping[str, Any]]) -> Iterator[ClusterCandidate]:
        for name, namespace, item in self._clusters(items):
            listeners = _dicts(_within(item, "spec", "kafka", "listeners"))
            internal = [each for each in listeners if each.get("type") in ("internal", "cluster-ip")] or listeners
            plain = [each for each in internal if not each.get("tls") and not each.get("authentication")]
            for listener in (plain or internal)[:1]:
                if isinstance(port := listener.get("port"), int):
                    yield self._found_strimzi(name, namespace, port, listener)

    def _found_strimzi(self, name: str, namespace: str, port: int, listener: Mapping[str, Any]) -> ClusterCandidate:
        words, notes = self._run(namespace, f"{name}-kafka-bootstrap:{port}"), []
        if listener.get("tls"):
            words = (*words, "--tls", "--tls-ca", "ca.crt")
            secret = f"kubectl -n {namespace} get secret {name}-cluster-ca-cert"
            notes.append(f"ca.crt is made by: {secret} -o 'jsonpath={{.data.ca\\.crt}}' | base64 -d > ca.crt")
        if how := _within(listener, "authentication", "type"):
            notes.append(f"the listener wants a login ({one_line(str(how), 40)}): see docs/recipes/kubernetes.md")
        return ClusterCandidate(f"Strimzi cluster {name} in namespace {namespace}", words, tuple(notes))

    def cfk(self, items: list[Mapping[str, Any]]) -> Iterator[ClusterCandidate]:
        for name, namespace, item in self._clusters(items):
            internal = _within(item, "spec", "listeners", "internal")
            is_guarded = isinstance(internal, dict) and (internal.get("tls") or internal.get("authentication"))
            notes = ("the internal listener has TLS or a login: add --tls and --sasl",) if is_guarded else ()
            words = self._run(namespace, f"{name}:9071")
            yield ClusterCandidate(f"Confluent cluster {name} in namespace {namespace}", words, notes)

    def services(self, items: list[Mapping[str, Any]]) -> Iterator[ClusterCandidate]:
        """Yield brokers that no operator manages.

        Of several Services of one application, only that of all brokers.
        """
        best: dict[tuple[str, str], tuple[tuple[bool, bool, int], str, int]] = {}
        for item in items:
            name, namespace = _named(item)
            labels = _within(item, "metadata", "labels")
            labels = labels if isinstance(labels, dict) else {}
            made_by = str(labels.get("strimzi.io/cluster") or labels.get("platform.confluent.io/cr-name") or "")
            ports = [port.get("port") for port in _dicts(_within(item, "spec", "ports")) if _is_kafka(name, port)]
            is_known = not self._known.isdisjoint({(namespace, made_by), (namespace, name)})
            if not name or is_known or not ports or not isinstance(ports[0], int):
                continue
            application = made_by or str(labels.get("app.kubernetes.io/instance") or labels.get("app") or name)
            rank = ("bootstrap" not in name, _within(item, "spec", "clusterIP") == "None", len(name))
            candidate = (rank, name, ports[0])
            best[namespace, application] = min(best.get((namespace, application), candidate), candidate)
        for (namespace, _), (_, name, port) in sorted(best.items()):
            words = self._run(namespace, f"{name}:{port}")
            yield ClusterCandidate(f"Service {name} in namespace {namespace}, by its port", words)

    def _run(self, namespace: str, server: str) -> tuple[str, ...]:
        return ("run", "--via", f"k8s://{self._context}{namespace}", "-b", server)


def _named(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the namespace of an object; "" if they are invalid (RFC 1123)."""
    name, namespace = _within(item, "metadata", "name"), _within(item, "metadata", "namespace")
    good = all(isinstance(text, str) and _WORD.fullmatch(text) for text in (name, namespace))
    return (name, namespace) if good else ("", "")


def _is_kafka(service: str, port: Mapping[str, Any]) -> bool:
    name = str(port.get("name") or "")
    if _NOT_KAFKA.search(name) or _NOT_KAFKA.search(service):
        return False
    return port.get("port") in _PORTS or ("kafka" in service and _PORT_NAMES.search(name) is not None)


def _within(value: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def search_kubernetes_now(context: str | None, namespace: str | None) -> PlaceResult:
    """Search without an event loop, see `search_kubernetes`."""
    return asyncio.run(search_kubernetes(context, namespace))
