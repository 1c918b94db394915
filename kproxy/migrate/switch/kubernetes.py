"""Addresses of pods, by their labels, from a Kubernetes API server: plain HTTP, since one request is enough.

The kubeconfig has the server and the credentials; see `dial.kubeconfig`. Programs that make tokens (`exec`) are not
run. In a pod without a kubeconfig, its service account is used.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from kproxy.base.errors import ConfigError
from kproxy.base.printable import one_line
from kproxy.migrate.spec.switch_section import KproxySelection
from kproxy.net.dial.kubeconfig import BadKubeconfig, KubeServer, read_kube_server, tls_context

_TIMEOUT = 10.0
_MAX_BODY = 64 * 1024 * 1024


def addresses_of_pods(kproxies: KproxySelection) -> list[tuple[str, str]]:
    """Return the name and IP address of each running pod with these labels. Raises ConfigError."""
    server = _server(kproxies.kubeconfig)
    namespace = kproxies.namespace or server.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?{urlencode({'labelSelector': kproxies.kubernetes})}"
    answer = _get_json(server, path)
    addresses = []
    for pod in _pods_in(answer, server):
        status = pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        name = one_line(str(pod.get("metadata", {}).get("name", "?")), 253)
        if status.get("phase") != "Running" or not status.get("podIP"):
            # It may start in a moment, and would then serve clients whose writes no kproxy holds.
            raise ConfigError(f"switch.kproxies: pod {name} does not run yet: wait until all pods run, then try again")
        addresses.append((name, str(status["podIP"])))
    if not addresses:
        raise ConfigError(f"switch.kproxies: namespace {namespace} has no pod with labels {kproxies.kubernetes}")
    return sorted(addresses)


def _pods_in(answer: object, server: KubeServer) -> list[dict[str, Any]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(item, dict)
        and isinstance(item.get("metadata", {}), dict)
        and isinstance(item.get("status", {}), dict)
        for item in items
    ):
        raise ConfigError(f"switch.kproxies: the server at {server.url} does not answer as Kubernetes does")
    return items


def _server(kubeconfig: Path | None) -> KubeServer:
    try:
        server = read_kube_server(None, kubeconfig)
    except BadKubeconfig as error:
        raise ConfigError(f"switch.kproxies: {error}") from None
    if server.plugin is not None:
        raise ConfigError(
            f"switch.kproxies: context '{server.context}' runs a program to log in, which kproxy does not do here: give"
            " the pods' addresses as a list, or a kubeconfig with a token (kubectl create token)"
        )
    if server.proxy is not None:
        raise ConfigError(
            f"switch.kproxies: context '{server.context}' has a proxy-url, which kproxy does not use here: give the"
            " pods' addresses as a list"
        )
    return server


def _get_json(server: KubeServer, path: str) -> object:
    headers = {"Accept": "application/json", "Connection": "close"}
    if server.authorization:
        headers["Authorization"] = server.authorization
    try:
        with _connection(server) as connection:
            connection.request("GET", server.prefix + path, headers=headers)
            response = connection.getresponse()
            body = response.read(_MAX_BODY + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConfigError(f"switch.kproxies: no answer from Kubernetes at {server.url}: {_error_text(error)}") from None
    if response.status != 200:
        advice = "; allowed: a user that may list pods" if response.status in (401, 403) else ""
        raise ConfigError(f"switch.kproxies: Kubernetes at {server.url} answers with HTTP {response.status}{advice}")
    try:
        if len(body) > _MAX_BODY:
            raise ValueError
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigError(f"switch.kproxies: the server at {server.url} does not answer as Kubernetes does") from None
    return value


def _error_text(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__, 300)


@contextmanager
def _connection(server: KubeServer) -> Iterator[http.client.HTTPConnection]:
    host, port = server.address.host, server.address.port
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        if server.tls:
            tls = tls_context(server, server.pems)
            connection.connect()
            connection.sock = tls.wrap_socket(connection.sock, server_hostname=server.tls_name or host)
        yield connection
    except BadKubeconfig as error:
        raise ConfigError(f"switch.kproxies: {error}") from None
    finally:
        connection.close()
