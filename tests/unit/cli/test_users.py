"""`kproxy users`, as a person runs it: passwords from standard input, no secret in the output, errors in one line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kproxy.cli import invoke
from kproxy.users.usersfile import read_users_file
from kproxy.users.verifier import ScramVerifier

PASSWORD = "s3cret-of-these-tests"


class Stdin:
    """Standard input that is no terminal."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str | Path, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of `kproxy users`."""
    monkeypatch.setattr("sys.stdin", Stdin(stdin))
    code = invoke(["users", *map(str, words)])
    output = capsys.readouterr()
    assert PASSWORD not in output.out + output.err
    return code, output.out, output.err


def test_a_user_from_the_first_to_the_last_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    given = f"{PASSWORD}\nnext line".encode()
    assert run(monkeypatch, capsys, "add", file, "alice", stdin=given) == (
        0, "added: alice (SCRAM-SHA-256, SCRAM-SHA-512)\n", "",
    )  # fmt: skip
    alice = read_users_file(file).users["alice"]
    assert all(verifier.is_of(PASSWORD) for verifier in alice.verifiers.values())
    login: list[str | Path] = ["login", file, "alice", "green", "--username", "sa-4711", "--mechanism", "PLAIN"]
    assert run(monkeypatch, capsys, *login, stdin=given) == (0, "set: alice logs in to green as sa-4711\n", "")
    token: list[str | Path] = ["login", file, "alice", "blue", "--mechanism", "OAUTHBEARER"]
    assert run(monkeypatch, capsys, *token, stdin=given)[0] == 0
    again: list[str | Path] = ["add", file, "alice", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192"]
    assert run(monkeypatch, capsys, *again, stdin=b"other\r\n") == (0, "changed: alice (SCRAM-SHA-512)\n", "")
    alice = read_users_file(file).users["alice"]
    assert alice.verifiers["SCRAM-SHA-512"].is_of("other")
    assert alice.logins["green"].password == alice.logins["blue"].token == PASSWORD
    code, output, _ = run(monkeypatch, capsys, "list", file, "--json")
    assert (code, json.loads(output)) == (
        0,
        {
            "users": [
                {
                    "name": "alice",
                    "mechanisms": {"SCRAM-SHA-512": {"iterations": 8192}},
                    "logins": {
                        "green": {"username": "sa-4711", "mechanism": "PLAIN", "has_token": False},
                        "blue": {"username": "", "mechanism": "OAUTHBEARER", "has_token": True},
                    },
                }
            ]
        },
    )
    assert "green as sa-4711" in run(monkeypatch, capsys, "list", file)[1]
    assert run(monkeypatch, capsys, "check", file) == (
        0, "ok: 1 user, 1 with a password, 1 with logins for upstreams\n", "",
    )  # fmt: skip
    for name, more in (("alise", "; did you mean alice?"), ("bob", f": kproxy users list {file}")):
        assert run(monkeypatch, capsys, "remove", file, name)[2] == f"kproxy: {file} has no user {name}{more}\n"
    assert run(monkeypatch, capsys, "remove", file, "alice") == (0, "removed: alice\n", "")
    assert read_users_file(file).users == {}


@pytest.mark.parametrize(
    ("words", "stdin", "problem"),
    [
        (["add", "F", ""], b"x", "the name is no name of a user; allowed: 1 to 255 printable characters"),
        (["add", "F", "a", "--iterations", "100"], b"x",
         "--iterations: 100 is out of range; allowed: 4096 to 16384, as in Kafka"),
        (["add", "F", "a"], b"", "the password on standard input is empty; allowed: one line"),
        (["add", "F", "a"], b"\xff", "the password on standard input is not UTF-8 text"),
        (["add", "F", "a"], b"x" * 70000,
         "the password on standard input is too long, or is not text; allowed: one line"),
        (["add", "F", "a"], b"a\0b", "the password on standard input is too long, or is not text; allowed: one line"),
        (["remove", "F", "a"], b"", "F has no users: kproxy users add F a"),
        (["login", "F", "alice", "green"], b"x", "F has no users: kproxy users add F alice"),
        (["list", "F"], b"", "F: does not exist; allowed: a users file ('kproxy users add' makes one)"),
        (["check", "F"], b"", "F: does not exist; allowed: a users file ('kproxy users add' makes one)"),
        (["import", "F"], b"hello\n", "standard input: no SCRAM verifier that can be used: "
         "it is none of what the commands in --help print"),
        (["import", "F"], b"SCRAM credential configs for user-principal 'a' are SCRAM-SHA-256=iterations=4096\n",
         "standard input: no SCRAM verifier that can be used: "
         "kafka-configs --bootstrap-server prints no keys; see --help for what does"),
        (["import", "F", "none"], b"", "none: does not exist"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], stdin: bytes,
    problem: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, errors = run(monkeypatch, capsys, *words, stdin=stdin)
    assert code == 2
    assert errors.partition(" (see 'kproxy")[0].rstrip("\n") == f"kproxy: {problem}"
    assert list(tmp_path.iterdir()) == []


def test_the_mistakes_of_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(f"users:\n  a:\n    SCRAM-SHA-256: {PASSWORD}\n  b: {PASSWORD}\n")
    file.chmod(0o600)
    code, output, _ = run(monkeypatch, capsys, "check", file)
    assert code == 1
    assert [line.partition(": error: ")[0] for line in output.splitlines()] == [f"{file}:3", f"{file}:4"]
    file.chmod(0o644)
    assert run(monkeypatch, capsys, "check", file) == (
        2, "", f"kproxy: {file} is open to other users (mode 0644): chmod 600 {file}\n",
    )  # fmt: skip


def test_import_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    verifier = ScramVerifier.from_password("SCRAM-SHA-256", PASSWORD).text()
    described = tmp_path / "described"
    described.write_text(
        f"Configs for user-principal 'alice' are SCRAM-SHA-256={verifier}\n"
        f"Configs for user-principal 'bob' are SCRAM-SHA-256={verifier.replace('iterations=4096', 'iterations=1')}\n"
        "Configs for user-principal 'carol' are consumer_byte_rate=1024\n"
    )
    run(monkeypatch, capsys, "add", file, "dave", stdin=b"x")
    assert run(monkeypatch, capsys, "import", file, described) == (
        1,
        "imported 1 user: 1 added, 0 changed\n"
        "warning: bob: left out: its verifier of SCRAM-SHA-256 has 1 iterations; allowed: 4096 to 1000000\n"
        "note: carol: left out: no SCRAM verifier, only other settings such as quotas\n",
        "",
    )
    assert list(read_users_file(file).users) == ["dave", "alice"]
    records = (
        '{"type":"USER_SCRAM_CREDENTIAL_RECORD","data":{"name":"dave","mechanism":1}}\n'
        '{"type":"REMOVE_USER_SCRAM_CREDENTIAL_RECORD","data":{"name":"dave","mechanism":1}}\n'
    )
    code, output, _ = run(monkeypatch, capsys, "import", file, described, "-", stdin=records.encode())
    assert code == 1
    assert f"note: dave: removed there, and still in {file}: kproxy users remove\n" in output
    assert list(read_users_file(file).users) == ["dave", "alice"]
