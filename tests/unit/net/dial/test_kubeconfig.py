from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from kproxy.base.address import Address
from kproxy.net.dial import kubeconfig
from kproxy.net.dial.kubeconfig import BadKubeconfig, KubeProxy, read_kube_server, tls_context

SECRET = "s3cret-token"


def _write(file: Path, **said: Any) -> Path:
    file.write_text(yaml.safe_dump(said))
    return file


def _entry(kind: str, name: str, **said: Any) -> list[dict[str, Any]]:
    return [{"name": name, kind: said}]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two: the first has the contexts and a user, the second the clusters, and another user of the same name."""
    (tmp_path / "sub").mkdir()
    first = _write(
        tmp_path / "first",
        contexts=_entry("context", "a", cluster="c", user="u") + _entry("context", "b/x:y@z", cluster="d"),
        users=_entry("user", "u", token=SECRET),
        **{"current-context": "a"},
    )
    ca = {"certificate-authority": "ca.pem"}
    second = _write(
        tmp_path / "sub" / "second",
        clusters=_entry("cluster", "c", server="https://api.example:6443/prefix/", **ca)
        + _entry("cluster", "d", server="http://[::1]:8001"),
        users=_entry("user", "u", token="of the second file"),
        **{"current-context": "b/x:y@z"},
    )
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, tmp_path / "none", second))))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return first, second


def test_the_first_file_that_has_an_entry_counts(files: tuple[Path, Path]) -> None:
    server = read_kube_server(None)
    assert server.address == Address("api.example", 6443)
    assert (server.context, server.tls, server.prefix) == ("a", True, "/prefix")
    assert server.authorization == f"Bearer {SECRET}"
    assert server.pems == {"ca": files[1].parent / "ca.pem"}


def test_another_context(files: tuple[Path, Path]) -> None:
    server = read_kube_server("b/x:y@z")
    assert (server.address, server.tls, server.authorization) == (Address("::1", 8001), False, "")


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://p", KubeProxy("http", "p", 80)),
        ("https://[::1]:3128/", KubeProxy("https", "::1", 3128)),
        (f"socks5://me:{SECRET}%40@p", KubeProxy("socks5", "p", 1080, "me", f"{SECRET}@")),
    ],
)
def test_a_proxy(url: str, proxy: KubeProxy, tmp_path: Path) -> None:
    cluster = {"server": "https://x", "proxy-url": url}
    named = {"contexts": [{"name": "a", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": cluster}]}
    (tmp_path / "k").write_text(yaml.safe_dump({"current-context": "a", **named}))
    server = read_kube_server(None, tmp_path / "k")
    assert server.proxy == proxy
    assert SECRET not in repr(server) + str(server.proxy)


def test_nothing_shows_a_secret(files: tuple[Path, Path]) -> None:
    assert SECRET not in repr(read_kube_server(None))


def test_a_context_that_is_not_there(files: tuple[Path, Path]) -> None:
    with pytest.raises(BadKubeconfig, match="no context 'nope' \\(it has: a, b/x:y@z\\)"):
        read_kube_server("nope")


def test_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(BadKubeconfig, match=r"there is no ~/\.kube/config"):
        read_kube_server(None)


def test_in_a_pod_its_service_account_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "namespace").write_text("kafka")
    server = read_kube_server(None)
    assert server.namespace == "kafka"
    assert (server.address, server.authorization) == (Address("fd00::1", 443), f"Bearer {SECRET}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{{{SECRET}: [", "is not a kubeconfig"),
        ("[1]", "is not a kubeconfig"),
        ("", "no current-context"),
        ("{current-context: a}", "has no context 'a'"),
        ("{current-context: a, contexts: 7}", "has a mistake in context 'a'"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c}]}", "mistake in"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {server: 'https://x', proxy-url: 'ftp://p:1'}}]}",
            "the proxy-url of context 'a' is not a URL",
        ),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}],"
            f" clusters: [{{name: c, cluster: {{server: 'https://x', certificate-authority-data: '{SECRET}'}}}}]}}",
            "mistake in",
        ),
    ],
)
def test_files_with_mistakes(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(BadKubeconfig, match=message) as caught:
        read_kube_server(None)
    assert SECRET not in str(caught.value)


def test_certificates_may_be_files_or_text(files: tuple[Path, Path]) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("me")
    ca = files[1].parent / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    pems: dict[str, str | Path] = {
        "ca": ca,
        "certificate": leaf.cert_chain_pems[0].bytes().decode(),
        "key": leaf.private_key_pem.bytes().decode(),
    }
    assert len(tls_context(read_kube_server(None), pems).get_ca_certs()) == 1
    with pytest.raises(BadKubeconfig, match="of context 'a' cannot be used"):
        tls_context(read_kube_server(None), {**pems, "key": SECRET})
