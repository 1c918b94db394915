"""Pods by their labels, asked of a Kubernetes API server: plain HTTP, since one question is all that is needed.

The kubeconfig says where the server is and who asks: a token, a client certificate, or a user and a password. Programs
that make tokens (`exec`) are not run. In a pod without a kubeconfig, its service account asks.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

from kproxy.errors import ConfigError
from kproxy.migrate.switch.section import Kproxies
from kproxy.printable import one_line

_SECONDS = 10.0
_MOST = 64 * 1024 * 1024
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Server:
    """`files`: PEM text, or a path, by what it is: ca, certificate, key."""

    url: str
    namespace: str = "default"
    authorization: str = field(default="", repr=False)
    files: Mapping[str, str | Path] = field(default_factory=dict, repr=False)
    verify: bool = True


def addresses_of_pods(kproxies: Kproxies) -> list[tuple[str, str]]:
    """Name and IP address of each pod that runs with these labels. Raises ConfigError."""
    server = _server(kproxies.kubeconfig)
    namespace = kproxies.namespace or server.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?{urlencode({'labelSelector': kproxies.labels})}"
    answer = _get(server, path)
    found = []
    for pod in _items(answer, server):
        status = pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        name = one_line(str(pod.get("metadata", {}).get("name", "?")), 253)
        if status.get("phase") != "Running" or not status.get("podIP"):
            # It may run in a moment, and would then serve clients that nobody holds.
            raise ConfigError(f"switch.kproxies: pod {name} does not run yet: wait until all pods run, then try again")
        found.append((name, str(status["podIP"])))
    if not found:
        raise ConfigError(f"switch.kproxies: namespace {namespace} has no pod with labels {kproxies.labels}")
    return sorted(found)


def _items(answer: object, server: Server) -> list[dict[str, Any]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(item, dict)
        and isinstance(item.get("metadata", {}), dict)
        and isinstance(item.get("status", {}), dict)
        for item in items
    ):
        raise ConfigError(f"switch.kproxies: the server at {server.url} does not answer as Kubernetes does")
    return items


def _server(kubeconfig: Path | None) -> Server:
    given = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    file = kubeconfig or (Path(given) if given else Path("~/.kube/config").expanduser())
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if kubeconfig is None and not given and not file.exists() and host and (_ACCOUNT / "token").exists():
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        return Server(
            f"https://{f'[{host}]' if ':' in host else host}:{port}", _text(_ACCOUNT / "namespace"),
            f"Bearer {_text(_ACCOUNT / 'token')}", {"ca": _ACCOUNT / "ca.crt"},
        )  # fmt: skip
    return _configured(file)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"switch.kproxies: {file} cannot be read: {error}") from None


def _configured(file: Path) -> Server:
    """From a kubeconfig."""
    try:
        said = yaml.safe_load(_text(file))
        context = _named(said, "contexts", said["current-context"])["context"]
        cluster = _named(said, "clusters", context["cluster"])["cluster"]
        user = _named(said, "users", context["user"])["user"] if context.get("user") else {}
        url = str(cluster["server"])
        files: dict[str, str | Path] = {}
        for what, where, key in (
            ("ca", cluster, "certificate-authority"), ("certificate", user, "client-certificate"),
            ("key", user, "client-key"),
        ):  # fmt: skip
            if where.get(f"{key}-data"):
                files[what] = base64.b64decode(where[f"{key}-data"], validate=True).decode()
            elif where.get(key):
                files[what] = file.parent / Path(str(where[key])).expanduser()
        return Server(
            url, str(context.get("namespace") or "default"), _authorization(user, file), files,
            verify=not cluster.get("insecure-skip-tls-verify"),
        )  # fmt: skip
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError, StopIteration, binascii.Error):
        # What is wrong may quote what the file has, and it has secrets.
        raise ConfigError(f"switch.kproxies: {file} is not a kubeconfig with a current-context") from None


def _named(said: Mapping[str, Any], what: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in said[what] if one["name"] == name) if said.get(what) else {}
    return found


def _authorization(user: Mapping[str, Any], file: Path) -> str:
    if user.get("tokenFile"):
        return f"Bearer {_text(file.parent / Path(str(user['tokenFile'])).expanduser())}"
    if user.get("token"):
        return f"Bearer {user['token']}"
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    if user.get("exec") or user.get("auth-provider"):
        raise ConfigError(
            f"switch.kproxies: {file} runs a program to log in, which kproxy does not: give the pods' addresses as a"
            " list, or a kubeconfig with a token (kubectl create token)"
        )
    return ""


def _get(server: Server, path: str) -> object:
    url = urlsplit(server.url)
    headers = {"Accept": "application/json", "Connection": "close"}
    if server.authorization:
        headers["Authorization"] = server.authorization
    try:
        with _connection(server) as connection:
            connection.request("GET", url.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            body = response.read(_MOST + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConfigError(f"switch.kproxies: no answer from Kubernetes at {server.url}: {_why(error)}") from None
    if response.status != 200:
        advice = "; allowed: a user that may list pods" if response.status in (401, 403) else ""
        raise ConfigError(f"switch.kproxies: Kubernetes at {server.url} answers with HTTP {response.status}{advice}")
    try:
        if len(body) > _MOST:
            raise ValueError
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigError(f"switch.kproxies: the server at {server.url} does not answer as Kubernetes does") from None
    return value


def _why(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__, 300)


@contextmanager
def _connection(server: Server) -> Iterator[http.client.HTTPConnection]:
    url = urlsplit(server.url)
    if url.scheme == "http":
        connection = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=_SECONDS)
    else:
        with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:  # ssl reads certificates from files only
            context = _context(server, Path(directory))
        connection = http.client.HTTPSConnection(
            url.hostname or "", url.port or 443, timeout=_SECONDS, context=context
        )  # fmt: skip
    try:
        yield connection
    finally:
        connection.close()


def _context(server: Server, directory: Path) -> ssl.SSLContext:
    paths = {}
    for what, given in server.files.items():
        if isinstance(given, Path):
            paths[what] = given
            continue
        paths[what] = directory / what
        paths[what].touch(0o600)
        paths[what].write_text(given)
    context = ssl.create_default_context(cafile=str(paths["ca"]) if "ca" in paths else None)
    if not server.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "certificate" in paths:
        context.load_cert_chain(str(paths["certificate"]), str(paths["key"]) if "key" in paths else None)
    return context
