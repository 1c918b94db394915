"""Names in a Kubernetes cluster, and the API documents about them (pure). Documents may have any form."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.base.messages.hops import NO_READY_POD


@dataclass(frozen=True, slots=True)
class NameMeaning:
    """One possible meaning of a name: a pod (of a service), a service, or the pod that has an IP address."""

    namespace: str
    pod: str | None = None
    service: str | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a pod."""

    namespace: str
    pod: str
    port: int


class TargetNotFound(Exception):
    """The name or the port leads nowhere. `reason` is an UpstreamError's."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def parse_host(host: str, namespace: str) -> list[NameMeaning]:
    """Return the possible meanings of a host, the likeliest first; none if it cannot be a name of the cluster.

    The forms are those of Kubernetes' DNS, with `namespace` where a name has none.
    """
    try:
        return [NameMeaning(namespace, ip=str(ipaddress.ip_address(host)))]
    except ValueError:
        labels = host.lower().rstrip(".").split(".")
    if not all(label and label.isascii() and label.replace("-", "").isalnum() for label in labels):
        return []
    if "svc" in labels[2:]:
        labels = labels[: labels.index("svc", 2)]
        is_full_name = True
    else:
        is_full_name = False
    match labels:
        case [name]:
            return [NameMeaning(namespace, service=name), NameMeaning(namespace, pod=name)]
        case [service, namespace_label] if is_full_name:
            return [NameMeaning(namespace_label, service=service)]
        case [first, second]:
            return [NameMeaning(second, service=first), NameMeaning(namespace, pod=first, service=second)]
        case [pod, service, namespace_label]:
            return [NameMeaning(namespace_label, pod=pod, service=service)]
    return []


def choose_pod_port(meaning: NameMeaning, port: int, service: Any, slices: Any) -> PodPort:
    """Return the port of a random ready pod of the service.

    `service` and `slices` are the API's documents. Raises TargetNotFound.
    """
    shown = f"Service {meaning.service} in namespace {meaning.namespace}"
    spec = _get(service, "spec")
    if _get(spec, "type") == "ExternalName":
        raise TargetNotFound("resolve", f"{shown} is an ExternalName: give the name that it stands for")
    matching_ports = [port_entry for port_entry in _list(_get(spec, "ports")) if _get(port_entry, "port") == port]
    if not matching_ports and _get(spec, "clusterIP") != "None":
        port_numbers = ", ".join(str(_get(port_entry, "port")) for port_entry in _list(_get(spec, "ports"))[:10])
        raise TargetNotFound("refused", f"{shown} has no port {port} (it has {port_numbers or 'none'})")
    name = (_get(matching_ports[0], "name") or "") if matching_ports else None
    pod_ports = list(_ready_pod_ports(meaning.namespace, port, name, slices))
    if not pod_ports:
        raise TargetNotFound(*NO_READY_POD.with_reason(service=shown, namespace=meaning.namespace))
    return random.choice(pod_ports)


def _ready_pod_ports(namespace: str, port: int, name: str | None, slices: Any) -> Iterator[PodPort]:
    for endpoint_slice in _list(_get(slices, "items")):
        # The slice has the pods' port, which may differ from the service's, or be named there.
        target = port
        if name is not None:
            ports = [
                _get(port_entry, "port")
                for port_entry in _list(_get(endpoint_slice, "ports"))
                if (_get(port_entry, "name") or "") == name
            ]
            if not ports or not isinstance(ports[0], int):
                continue
            target = ports[0]
        for endpoint in _list(_get(endpoint_slice, "endpoints")):
            pod = _pod(endpoint)
            if pod is not None and _get(_get(endpoint, "conditions"), "ready") is not False:
                yield PodPort(namespace, pod, target)


def find_pod_by_hostname(hostname: str, slices: Any) -> str | None:
    """Return the pod that has this hostname in the DNS of a service, if the hostname is not the pod's own name."""
    for endpoint_slice in _list(_get(slices, "items")):
        for endpoint in _list(_get(endpoint_slice, "endpoints")):
            if _get(endpoint, "hostname") == hostname:
                return _pod(endpoint)
    return None


def find_running_pod(pods: Any) -> str | None:
    """Return the name of the one of these pods that runs."""
    for pod in _list(_get(pods, "items")):
        name = _get(_get(pod, "metadata"), "name")
        if _get(_get(pod, "status"), "phase") == "Running" and isinstance(name, str):
            return name
    return None


def _pod(endpoint: Any) -> str | None:
    target = _get(endpoint, "targetRef")
    name = _get(target, "name")
    return name if _get(target, "kind") == "Pod" and isinstance(name, str) else None


def _get(document: Any, key: str) -> Any:
    return document.get(key) if isinstance(document, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
