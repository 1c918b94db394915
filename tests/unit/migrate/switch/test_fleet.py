"""Finding kproxies: a list, a name, pods; and asking them with TLS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from kproxy.base.errors import AdminError, ConfigError
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.fleet import Kproxy, KproxyFleet, command_to_json, open_fleet
from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.participant import Command, CommandType, ParticipantState
from tests.harness.servers.fakekproxy import FakeKproxy as Fake
from tests.harness.servers.fakekproxy import serving

UPSTREAMS = {"blue": "A", "green": "B"}


def named(kproxies: KproxySelection, **more: Any) -> list[str]:
    with open_fleet(SwitchSection(kproxies, "green", **more)) as those:
        return [one.name for one in those.kproxies]


def test_a_list_and_a_name() -> None:
    assert named(KproxySelection(("127.0.0.1:5", "https://localhost:6"))) == ["127.0.0.1:5", "https://localhost:6"]
    assert "127.0.0.1:7" in named(KproxySelection(dns="localhost:7"))
    with pytest.raises(ConfigError, match=r"nowhere\.invalid cannot be resolved"):
        named(KproxySelection(dns="nowhere.invalid:7"))


def test_files_that_are_no_good(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"switch\.token-file: .*cannot be read"):
        named(KproxySelection(("a:1",)), token_file=tmp_path / "none")
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"switch\.ca: "):
        named(KproxySelection(("127.0.0.1:1",)), ca=tmp_path / "ca")


def test_a_wrong_token_is_said_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another-token-of-nobody")
    (tmp_path / "token").chmod(0o600)
    with serving(Fake(UPSTREAMS)) as fake:
        section = SwitchSection(KproxySelection((fake.address,)), "green", token_file=tmp_path / "token")
        with open_fleet(section) as those:
            (_, answer) = next(those.request_all(lambda one: one.read_reply()))
    assert isinstance(answer, AdminError)
    assert "refuses this token" in str(answer)
    assert "another-token" not in str(answer)


def test_nobody_is_there() -> None:
    with open_fleet(SwitchSection(KproxySelection(("127.0.0.1:1",)), "green")) as those:
        (_, answer) = next(those.request_all(lambda one: one.read_reply()))
    assert isinstance(answer, AdminError)


def test_commands_as_kproxy_takes_them() -> None:
    from kproxy.proxy.switching.asjson import parse_command

    for one in (
        Command(CommandType.HOLD, "x", "000001-a", "green", 20.0, 0), Command(CommandType.HOLD, "x", "000001-a", "green", 20.0),
        Command(CommandType.UNDO, "x", "000001-a", force=True), Command(CommandType.CLAIM, "x", "000001-a"),
    ):  # fmt: skip
        assert parse_command({"cluster": "default", **command_to_json(one)}) == ("default", one)


class Parts:
    """The client of a kproxy that has a part already; `routed_elsewhere`: it cannot be dissolved."""

    def __init__(self, *, routed_elsewhere: bool) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._routed_elsewhere = routed_elsewhere
        self._has_part = True

    def post(self, _: str, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.bodies.append(body)
        problem = ""
        if body["do"] == "join":
            problem = "part wave-a is routed to green" if self._routed_elsewhere else ""
            self._has_part = bool(problem)
        elif self._has_part:
            problem = "there is a part wave-a already, with other clients"
        state = asjson.state_as_json(ParticipantState("blue"))
        return {"problem": problem, "cluster": {"name": "default", **state, "upstreams": {}}}


def test_a_part_that_has_other_clients_is_made_anew_only_on_the_side_of_all_others() -> None:
    client = Parts(routed_elsewhere=False)
    Kproxy("kp", client, "default/wave-a").make_part(["x"], anew=True)  # type: ignore[arg-type]
    assert [body["do"] for body in client.bodies] == ["part", "join", "part"]
    for anew, words in ((False, "with other clients"), (True, "is routed to green")):
        client = Parts(routed_elsewhere=True)
        with pytest.raises(AdminError, match=words):
            Kproxy("kp", client, "default/wave-a").make_part(["x"], anew=anew)  # type: ignore[arg-type]


def test_an_empty_fleet() -> None:
    with KproxyFleet([]) as none:
        assert list(none.request_all(lambda one: one.read_reply())) == []


# Kubernetes


def pod(name: str, ip: str | None, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"phase": phase, "podIP": ip}}


@contextmanager
def api(status: int, answer: object, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[Any]]]:
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            said = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(tmp_path: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    file = tmp_path / "kubeconfig"
    said = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "prod"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(said))
    return file


def test_pods(tmp_path: Path) -> None:
    items = [pod("kp-1", "10.0.0.2"), pod("kp-0", "10.0.0.1"), pod("old", None, "Succeeded")]
    with api(200, {"items": items}) as (port, asked):
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{port}", {"token": "t0ken"})
        assert named(KproxySelection(kubernetes="app=kproxy", kubeconfig=file)) == ["kp-0", "kp-1"]
        assert asked == [("/api/v1/namespaces/prod/pods?labelSelector=app%3Dkproxy", "Bearer t0ken")]
        named(KproxySelection(kubernetes="a=b", namespace="other", kubeconfig=file))
        assert asked[1][0].startswith("/api/v1/namespaces/other/pods")


def test_pods_with_a_client_certificate(tmp_path: Path) -> None:
    ca = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    mine = ca.issue_cert("me@example.org")
    key = base64.b64encode(mine.private_key_pem.bytes()).decode()
    chain = base64.b64encode(mine.cert_chain_pems[0].bytes()).decode()
    trust = base64.b64encode(ca.cert_pem.bytes()).decode()
    user = {"client-certificate-data": chain, "client-key-data": key}
    with api(200, {"items": [pod("kp-0", "10.0.0.1")]}, context) as (port, _):
        url = f"https://127.0.0.1:{port}"
        file = kubeconfig(tmp_path, url, user, **{"certificate-authority-data": trust})
        assert named(KproxySelection(kubernetes="a=b", kubeconfig=file)) == ["kp-0"]


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (200, {"items": []}, "namespace prod has no pod with labels a=b"),
        (200, {"items": [pod("kp-0", None, "Pending")]}, "pod kp-0 does not run yet"),
        (200, {"items": [7]}, "does not answer as Kubernetes does"),
        (200, [], "does not answer as Kubernetes does"),
        (200, b"<html>", "does not answer as Kubernetes does"),
        (403, {}, "HTTP 403; allowed: a user that may list pods"),
        (500, {}, "HTTP 500"),
    ],
    ids=["none", "pending", "nonsense", "list", "html", "forbidden", "broken"],
)
def test_kubernetes_says_something_else(tmp_path: Path, status: int, answer: object, words: str) -> None:
    with api(status, answer) as (port, _):
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{port}", {})
        with pytest.raises(ConfigError) as caught:
            named(KproxySelection(kubernetes="a=b", kubeconfig=file))
    assert words in str(caught.value)


def test_a_kubeconfig_that_runs_a_program(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1", {"exec": {"command": "x"}})
    with pytest.raises(ConfigError, match="runs a program to log in"):
        named(KproxySelection(kubernetes="a=b", kubeconfig=file))
    with pytest.raises(ConfigError, match="no answer from Kubernetes"):
        named(KproxySelection(kubernetes="a=b", kubeconfig=kubeconfig(tmp_path, "http://127.0.0.1:1", {})))
    with pytest.raises(ConfigError, match="cannot be read"):
        named(KproxySelection(kubernetes="a=b", kubeconfig=tmp_path / "none"))
