"""The address of a Kubernetes API server and its credentials, from the user's kubeconfig or a pod's service account.

The rules are kubectl's: KUBECONFIG may name several files; the first that has an entry counts, and paths in a file are
relative to it. Messages quote names only, as the files have secrets.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from kproxy.base import regularfile
from kproxy.base.address import Address
from kproxy.base.messages.hops import KUBECONFIG_ENTRY_MISSING
from kproxy.base.printable import one_line

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The largest kubeconfig, token or certificate, in bytes.
_MOST = 4 * 1024 * 1024


class BadKubeconfig(Exception):
    """A mistake in the files; `str()` names it and what to do."""


@dataclass(frozen=True, slots=True)
class KubeProxy:
    """The `proxy-url` of a cluster, as a hop."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{Address(self.host, self.port)} (proxy-url of the kubeconfig)"


_PROXIES = {"http": ("http", 80), "https": ("https", 443), "socks5": ("socks5", 1080), "socks5h": ("socks5", 1080)}


@dataclass(frozen=True, slots=True)
class KubeServer:
    """An API server, as one context of the kubeconfig describes it."""

    context: str
    address: Address
    url: str
    tls: bool = True
    prefix: str = ""
    tls_name: str | None = None
    verify: bool = True
    pems: Mapping[str, str | Path] = field(default_factory=dict, repr=False)  # PEM text or a file: ca, certificate, key
    authorization: str = field(default="", repr=False)
    plugin: Mapping[str, Any] | None = field(default=None, repr=False)  # the exec entry: the program that logs in
    directory: Path = Path()
    cluster: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the entry that a plugin receives
    namespace: str = "default"  # the context's, or the pod's own
    proxy: KubeProxy | None = None


def read_kube_server(context: str | None, file: Path | None = None) -> KubeServer:
    """Return the server of a context, else of the current one, from this file, else from the user's files.

    Raises BadKubeconfig. It reads files.
    """
    if file is not None:
        return _read_context([(file, _read_yaml(file))], context)
    configured = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    files = [file for file in configured or [Path("~/.kube/config").expanduser()] if file.exists()]
    if not files and not configured and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster()
    if not files:
        what = f"KUBECONFIG names no file that exists ({os.pathsep.join(map(str, configured))})" if configured else ""
        raise BadKubeconfig(what or "there is no ~/.kube/config: log in to the cluster, or set KUBECONFIG")
    return _read_context([(file, _read_yaml(file)) for file in files], context)


def _read_context(documents: list[tuple[Path, dict[str, Any]]], context: str | None) -> KubeServer:
    context_name = context or next(
        (str(document["current-context"]) for _, document in documents if document.get("current-context")), None
    )
    if context_name is None:
        raise BadKubeconfig("the kubeconfig has no current-context: choose one (kubectl config use-context NAME)")
    try:
        return _server_of_context(documents, context_name)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadKubeconfig(
            f"the kubeconfig has a mistake in context '{_printable_name(context_name)}', its cluster or user"
        ) from None


def _in_cluster() -> KubeServer:
    address = Address(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ.get("KUBERNETES_SERVICE_PORT", "443")))
    authorization = f"Bearer {_text(SERVICE_ACCOUNT / 'token')}"
    url = f"https://{address}"
    return KubeServer(
        "the pod's service account",
        address,
        url,
        pems={"ca": SERVICE_ACCOUNT / "ca.crt"},
        authorization=authorization,
        namespace=_text(SERVICE_ACCOUNT / "namespace"),
    )


def _server_of_context(documents: list[tuple[Path, dict[str, Any]]], context_name: str) -> KubeServer:
    _, context = _find_entry(documents, "contexts", "context", context_name)
    cluster_at, cluster = _find_entry(documents, "clusters", "cluster", str(context["cluster"]))
    user_at, user = (
        _find_entry(documents, "users", "user", str(context["user"])) if context.get("user") else (Path(), {})
    )
    url = str(cluster["server"])
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    pems: dict[str, str | Path] = {}
    for what, key, at, entry in (
        ("ca", "certificate-authority", cluster_at, cluster),
        ("certificate", "client-certificate", user_at, user),
        ("key", "client-key", user_at, user),
    ):
        if entry.get(f"{key}-data"):
            pems[what] = base64.b64decode(entry[f"{key}-data"], validate=True).decode()
        elif entry.get(key):
            pems[what] = at / Path(str(entry[key])).expanduser()
    if user.get("auth-provider") and not user.get("exec"):
        raise BadKubeconfig(
            f"the user of context '{_printable_name(context_name)}' has an auth-provider, which Kubernetes dropped in"
            " 1.26: use its exec plugin (kubelogin, gke-gcloud-auth-plugin)"
        )
    return KubeServer(
        context_name,
        Address(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)),
        url=url,
        tls=parts.scheme == "https",
        prefix=parts.path.rstrip("/"),
        tls_name=cluster.get("tls-server-name"),
        verify=not cluster.get("insecure-skip-tls-verify"),
        pems=pems,
        authorization=_authorization(user, user_at),
        plugin=dict(user["exec"]) if user.get("exec") else None,
        directory=user_at,
        cluster={key: value for key, value in cluster.items() if key != "extensions"},
        namespace=str(context.get("namespace") or "default"),
        proxy=_proxy(str(cluster["proxy-url"]), context_name) if cluster.get("proxy-url") else None,
    )


def _proxy(text: str, context: str) -> KubeProxy:
    try:
        url = urlsplit(text)
        scheme, port = _PROXIES[url.scheme]
        if not url.hostname:
            raise ValueError
        names = (None if name is None else unquote(name) for name in (url.username, url.password))
        return KubeProxy(scheme, url.hostname, url.port or port, *names)
    except (ValueError, KeyError):
        raise BadKubeconfig(
            f"the proxy-url of context '{_printable_name(context)}' is not a URL; allowed: http://HOST:PORT, https://…, socks5://…"
        ) from None


def _authorization(user: Mapping[str, Any], directory: Path) -> str:
    if user.get("tokenFile"):
        return f"Bearer {_text(directory / Path(str(user['tokenFile'])).expanduser())}"
    if user.get("token"):
        return f"Bearer {user['token']}"
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _find_entry(
    documents: list[tuple[Path, dict[str, Any]]], kinds: str, kind: str, name: str
) -> tuple[Path, dict[str, Any]]:
    entries = [(file, entry) for file, document in documents for entry in document.get(kinds) or ()]
    for file, entry in entries:
        if entry["name"] == name:
            return file.parent, dict(entry[kind])
    names = ", ".join(sorted(_printable_name(str(entry["name"])) for _, entry in entries)[:20])
    raise BadKubeconfig(KUBECONFIG_ENTRY_MISSING(kind=kind, name=_printable_name(name), names=names or "none"))


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(_text(file))
    except (yaml.YAMLError, RecursionError):  # the error text may quote the file
        document = ""
    if document is None:  # an empty file is no mistake
        return {}
    if not isinstance(document, dict):
        raise BadKubeconfig(f"{file} is not a kubeconfig")
    return document


def _text(file: Path) -> str:
    try:
        return regularfile.read(file, _MOST).decode().strip()
    except UnicodeDecodeError:
        problem = "it is not text"
    except OSError as error:
        problem = str(error.strerror)
    except ValueError as error:
        problem = f"it {error}"
    raise BadKubeconfig(f"{file} cannot be read: {problem}")


def _printable_name(name: str) -> str:
    return one_line(name, 100)


def tls_context(server: KubeServer, pems: Mapping[str, str | Path]) -> ssl.SSLContext:
    """Return the TLS context: the server's CA, and the client's certificate. Raises BadKubeconfig. It uses files."""
    try:
        with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:  # ssl reads own certificates from files only
            files = {what: _as_file(Path(directory) / what, pem) for what, pem in pems.items()}
            tls = ssl.create_default_context(cafile=str(files["ca"]) if "ca" in files else None)
            if not server.verify:
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
            if "certificate" in files:
                tls.load_cert_chain(files["certificate"], files.get("key"), password="")
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or "not PEM"
        raise BadKubeconfig(
            f"a certificate or key of context '{_printable_name(server.context)}' cannot be used: {text}"
        ) from None
    return tls


def _as_file(path: Path, pem: str | Path) -> Path:
    path.touch(0o600)
    path.write_bytes(pem.encode() if isinstance(pem, str) else regularfile.read(pem, _MOST))
    return path
