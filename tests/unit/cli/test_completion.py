"""What a shell completes, by what bash is told; tests/integration/test_completion.py has the shells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from kproxy.config.options import all_settings
from kproxy.migrate.usage.observed import ObservedUsage, write_usage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.proxy.admin.requests import MARK
from kproxy.users.document import User
from kproxy.users.editing import edit_users
from kproxy.users.verifier import ScramVerifier


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def complete(line: str, **env: str) -> list[str]:
    """What bash is told: `plain,WORD`, or `file,` for it to look for files itself."""
    words = {"COMP_LINE": line, "COMP_WORDBREAKS": " \t\n\"'@><=;|&(:", "_KPROXY_COMPLETE": "bash_complete"}
    own = {name: value for name, value in os.environ.items() if not name.startswith("KPROXY_")}
    command = [sys.executable, "-m", "kproxy"]
    done = subprocess.run(command, env={**own, **words, **env}, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_completion_knows_flags_and_words() -> None:
    levels = ["plain,debug", "plain,info", "plain,warning", "plain,error"]
    assert complete("kproxy run --log-level ") == levels
    assert complete("kproxy run --ready") == ["plain,--ready-requires"]
    assert complete("kproxy run --log-level=de") == ["plain,debug"]
    assert complete("kproxy tap --api prod") == ["plain,Produce"]
    assert complete("kproxy compl") == ["plain,completion"]
    assert complete("") == complete("kproxy ")
    assert complete("kproxy run 'a") == complete("kproxy run \\") == [""]


def test_completion_of_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the first word."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "kproxy").mkdir()
    for name in ("staging", "test", "Bad name"):
        (tmp_path / "kproxy" / f"{name}.yaml").touch()
    for command in ("run", "up", "down", "doctor", "ls", "exec", "config show"):
        assert complete(f"kproxy {command} @") == ["plain,@staging", "plain,@test"]
        assert complete(f"kproxy {command} @s") == ["plain,@staging"]
        assert complete(f"kproxy {command} ") == ["plain,@staging", "plain,@test"]
    assert complete("kproxy run a:1 @") == complete("kproxy run --tls @") == [""]


class _Answering(BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self) -> None:
        assert self.path == "/status"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header(MARK, "1")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[str]:
    """The admin endpoint of a kproxy that answers `_Answering.answer`."""
    with HTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "clusters", "nodes"),
    [
        (
            '{"clusters": [{"name": "orders", "nodes": [{"node": "1"}, {"node": "controller-3"}]}, {"name": "b-1"}]}',
            ["b-1", "orders"],
            ["1", "bootstrap", "controller-3"],
        ),
        ('{"clusters": [{"name": "$(reboot)", "nodes": [{"node": "a\\nb"}]}, {"name": "a,b"}]}', [], ["bootstrap"]),
        ('{"clusters": [1, {"name": 2, "nodes": {"node": "1"}}, {"nodes": [[]]}]}', [], ["bootstrap"]),
        ('{"clusters": {"name": "x"}}', [], ["bootstrap"]),
        ("[" * 100_000, [], ["bootstrap"]),
        ("no JSON", [], ["bootstrap"]),
    ],
)
def test_completion_asks_the_kproxy_at_admin(
    answer: str, clusters: list[str], nodes: list[str], answering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And shows only names that a shell takes as they are, whatever program answers."""
    monkeypatch.setattr(_Answering, "answer", answer.encode())
    assert complete("kproxy tap --cluster ", KPROXY_ADMIN=answering) == ([f"plain,{name}" for name in clusters] or [""])
    assert complete(f"kproxy reload --admin {answering} --accept-cluster ") == complete(
        f"kproxy tap --admin {answering} --cluster "
    )
    assert complete(f"kproxy tap --admin {answering} --node ") == [f"plain,{name}" for name in nodes]


def test_completion_shows_no_error() -> None:
    """No kproxy answers, or --admin is no address."""
    assert complete("kproxy tap --admin 127.0.0.1:1 --cluster ") == complete("kproxy tap --admin x --cluster ") == [""]


def test_completion_of_families() -> None:
    assert complete("kproxy config check kproxy.yaml pro") == ["plain,produce"]


def write_users(path: Path, *names: str) -> None:
    verifier = ScramVerifier.from_password("SCRAM-SHA-512", "secret", iterations=4096)
    with edit_users(path) as users:
        users.update({name: User(name, {"SCRAM-SHA-512": verifier}, {}) for name in names})


def test_completion_of_users(tmp_path: Path) -> None:
    """Of a users file. Names that a shell would not take as they are, and files with mistakes, are left out."""
    path = tmp_path / "users.yaml"
    write_users(path, "alice", "alice@example.com", "bob", "$(reboot)")
    everyone = ["plain,alice", "plain,alice@example.com", "plain,bob"]
    for command in ("add", "login", "remove"):
        assert complete(f"kproxy users {command} {path} ") == everyone
    assert complete(f"kproxy users remove {path} bob alice@ex") == ["plain,@example.com"]
    assert complete("kproxy users remove ~/users.yaml b", HOME=str(tmp_path)) == ["plain,bob"]
    path.chmod(0o644)
    assert complete(f"kproxy users remove {path} ") == complete(f"kproxy users remove {tmp_path}/none ") == [""]
    path.chmod(0o600)
    path.write_text("users: [")
    assert complete(f"kproxy users remove {path} ") == [""]


def test_completion_of_users_of_a_configuration(tmp_path: Path) -> None:
    """Those of its users file, and those whom its rules name."""
    write_users(tmp_path / "users.yaml", "alice", "bob")
    path = tmp_path / "kproxy.yaml"
    path.write_text(
        f"bootstrap-servers: a:1\nclient-sasl: SCRAM-SHA-512\nusers-file: {tmp_path}/users.yaml\n"
        "rules: [user=alan user=team-* allow topic orders-*]\n"
    )
    assert complete(f"kproxy config check {path} --as al") == ["plain,alan", "plain,alice"]
    assert complete("kproxy config check --as al") == [""]
    path.write_text("rules: 1\n")
    assert complete(f"kproxy config check {path} --as al") == complete("kproxy config check none --as al") == [""]


def test_completion_of_observed_clients(tmp_path: Path) -> None:
    """Of the file that `kproxy migrate observe` writes beside the file of the migration; else what a name can be of."""
    path = tmp_path / "move.yaml"
    path.write_text("{name: shop, source: {bootstrap-servers: 'a:1'}, target: {bootstrap-servers: 'b:1'}}")
    switch = f"kproxy migrate switch {path} --only "
    kinds = ["plain,group=", "plain,client-id=", "plain,transactional-id="]
    assert complete(switch) == complete("kproxy migrate switch --only ") == kinds
    assert complete(f"{switch}g") == ["plain,group="]
    assert complete(f"{switch}group=") == complete(f"{switch}group=o") == [""]
    uses = {("groups", "orders"): 1.0, ("groups", "$(reboot)"): 1.0, ("transactions", "tx-1"): 1.0}
    seen = RecordedClient("", "", "10.0.0.1", "billing", "java", 1.0, 2.0, uses)
    unnamed = replace(seen, client_id="", uses={("groups", "offers"): 1.0, ("reads", "topic"): 1.0})
    observed = tmp_path / "kproxy-observed-shop.json"
    write_usage(ObservedUsage(1.0, 2.0, (seen, unnamed)), observed)
    names = ["plain,client-id=billing", "plain,group=offers", "plain,group=orders", "plain,transactional-id=tx-1"]
    assert complete(switch) == complete(f"kproxy migrate rollback {path} --only ") == names
    assert complete(f"{switch}group=or") == complete(f"{switch.strip()}=group=or") == ["plain,orders"]
    assert complete(f"{switch}group=none") == [""]
    observed.write_text("[")
    assert complete(switch) == kinds


def test_completion_of_files() -> None:
    """Of every option that takes one, and of `exit-with`, which may."""
    flags = [setting.flag for setting in all_settings() if Path in setting.kind.native and setting.flag]
    assert {"--tls-ca", "--client-config", "--sasl-password-file"} < set(flags)
    for flag in (flags[0], flags[-1], "--tls-ca", "--exit-with"):
        kind = "dir," if flag == "--state-dir" else "file,"
        assert [line[: len(kind)] for line in complete(f"kproxy run {flag} c")] == [kind], flag
    assert complete("kproxy run --connect-timeout ") == [""]
