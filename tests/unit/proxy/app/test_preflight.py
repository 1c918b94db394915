"""`kproxy config check` refuses what `kproxy run` would refuse at its start, and says it with its line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from kproxy.cli import invoke
from tests.harness.tls import Authority

HEAD = "bootstrap-servers: kafka:9092\n"
LOGIN = HEAD + "sasl: PLAIN\nsasl-username: alice\n"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("KPROXY_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def store(authority: Authority) -> str:
    """A trust store whose password is `right`."""
    ca = load_pem_x509_certificate(authority.pem.read_bytes())
    Path("store.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"a", None, None, [ca], BestAvailableEncryption(b"right"))
    )
    return "store.p12"


def check(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is wrong with a file of this text."""
    Path("k.yaml").write_text(text)
    code = invoke(["config", "check", "k.yaml"])
    out, err = capsys.readouterr()
    assert (code, err) == ((0, "") if out.startswith("ok:") else (1, ""))
    return [line.replace("error: ", "", 1) for line in out.splitlines() if code]


def test_certificates_each_with_its_line(
    authority: Authority, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.files("one.example")
    authority.files("two.example")
    names = "client-tls-cert: one.example.pem\nclient-tls-key: two.example.key\n"
    assert check(f"{HEAD}tls: true\ntls-ca: none.pem\ntls-cert: ca.pem\n{names}", capsys) == [
        "k.yaml:3: tls-ca: none.pem: cannot be read: No such file or directory",
        "k.yaml:4: tls-cert: ca.pem: ca.pem has no private key",
        "k.yaml:5: client-tls-cert: one.example.pem: the key of two.example.key does not belong to the certificate",
    ]
    assert check(f"{HEAD}tls: true\ntls-ca: {store}\n", capsys) == [
        "k.yaml:3: tls-ca: store.p12: the password is not given, or the file is damaged;"
        " set it with KPROXY_TLS_CA_PASSWORD, or tls-ca-password in a file (-c FILE)"
    ]
    assert check(f"{HEAD}tls: true\ntls-ca: {store}\ntls-ca-password: right\n", capsys) == []
    monkeypatch.setenv("KPROXY_TLS_CA_PASSWORD", "wrong")
    assert check(f"{HEAD}tls: true\ntls-ca: {store}\n", capsys) == [
        "k.yaml:3: tls-ca: store.p12: the password is wrong, or the file is damaged;"
        " set it with KPROXY_TLS_CA_PASSWORD, or tls-ca-password in a file (-c FILE)"
    ]


def test_the_certificate_of_the_admin_endpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.files("kproxy.example")
    _, other = authority.files("other.example")
    text = f"{HEAD}admin-tls-cert: {cert}\nadmin-tls-key: "
    assert check(f"{text}{key}\n", capsys) == []
    (line,) = check(f"{text}{other}\n", capsys)
    assert line == f"k.yaml:2: admin-tls-cert: {cert}: the key of {other} does not belong to the certificate"


def test_of_several_clusters_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    one = "  - name: {}\n    bootstrap-servers: kafka\n    listen: 127.0.0.1:{}\n    tls: true\n    tls-ca: gone.pem\n"
    assert check("clusters:\n" + one.format("a", 10000) + one.format("b", 11000), capsys) == [
        "k.yaml:6: clusters[0].tls-ca: gone.pem: cannot be read: No such file or directory",
        "k.yaml:11: clusters[1].tls-ca: gone.pem: cannot be read: No such file or directory",
    ]


def test_other_mistakes_are_told_beside_them_and_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{HEAD}lissten: x:1\ntls: true\ntls-ca: gone.pem\ntls-cert:\n"
    assert check(text, capsys) == [
        "k.yaml:2: lissten: no such key; did you mean listen?",
        "k.yaml:4: tls-ca: gone.pem: cannot be read: No such file or directory",
        "k.yaml:5: tls-cert: has no value; allowed: FILE",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (LOGIN + "sasl-password-file: gone\n",
         ["k.yaml:4: sasl-password-file: gone cannot be read: No such file or directory"]),
        (LOGIN + "sasl-password-file: .\n", ["k.yaml:4: sasl-password-file: . cannot be read: Is a directory"]),
        (LOGIN + "sasl-password-file: empty\n",
         ["k.yaml:4: sasl-password-file: empty contains neither a password nor a token"]),
        (LOGIN + "sasl-password-file: binary\n",
         ["k.yaml:4: sasl-password-file: binary has bytes that are not UTF-8 text"]),
        (LOGIN + "sasl-password-command: no-such-program x\n",
         ["k.yaml:4: sasl-password-command: the command 'no-such-program' cannot be run: there is no such program"]),
        (HEAD + "forward-command: no-such-program {port}\n",
         ["k.yaml:2: forward-command: the command 'no-such-program' cannot be run: there is no such program"]),
        (LOGIN + 'sasl-password-command: "echo \'x"\n',
         ["k.yaml:4: sasl-password-command: the command for the password or token cannot be parsed: check its quotes"]),
        (HEAD + "sasl: OAUTHBEARER\noauth-token-file: gone\n",
         ["k.yaml:3: oauth-token-file: gone cannot be read: No such file or directory"]),
        (LOGIN.replace("PLAIN", "OAUTHBEARER") + "sasl-password: x\noauth-token-url: https://a/\noauth-ca: gone\n",
         ["k.yaml:6: oauth-ca: gone cannot be read: No such file or directory"]),
        (HEAD + "admin-token-file: gone\n",
         ["k.yaml:2: admin-token-file: gone cannot be read: No such file or directory"]),
        (HEAD + "admin-token-file: binary\n",
         ["k.yaml:2: admin-token-file: binary has something that is not ASCII text"]),
        *((HEAD + f"admin-token-file: {name}\n",
           [f"k.yaml:2: admin-token-file: {name} has no token; allowed: 16 to 4096 characters of ASCII without spaces,"
            " and nothing else"]) for name in ("empty", "short", "two")),
        (HEAD + "admin-token-file: good\n", []),
        (HEAD + "admin-token-file: open\n",
         ["k.yaml:2: admin-token-file: open is open to other users (mode 0644): chmod 600 open"]),
        (HEAD + "admin: off\nadmin-token-file: gone\n", []),
        (HEAD + "exit-with: [gone, 2147483647]\n",
         ["k.yaml:2: exit-with[1]: there is no process 2147483647; allowed: one that runs "
          "(in a pod, shareProcessNamespace shows those of other containers), a URL or a path"]),
    ],
)  # fmt: skip
def test_what_is_not_on_this_machine(text: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").write_bytes(b"\n")
    Path("binary").write_bytes(b"\xff\xfe")
    Path("short").write_text("0123456789abcde\n")
    Path("two").write_text("0123456789abcdef\n0123456789abcdef\n")
    Path("good").write_text("0123456789abcdef\r\n")
    Path("open").write_text("0123456789abcdef\n")
    for name in ("empty", "binary", "short", "two", "good"):
        Path(name).chmod(0o600)
    Path("open").chmod(0o644)
    assert check(text, capsys) == lines


def test_packages_that_are_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.setattr("kproxy.client.sasl.aws.find_spec", lambda _: None)
    (line,) = check(HEAD + "sasl: GSSAPI\n", capsys)
    assert line.startswith("k.yaml:2: sasl: GSSAPI needs a package that is not installed: ")
    (line,) = check(HEAD + "sasl: AWS_MSK_IAM\n", capsys)
    assert line.startswith("k.yaml:2: sasl: AWS_MSK_IAM needs a package that is not installed: ")


def test_commands_are_not_run_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.yaml").write_text(LOGIN + "sasl-password-command: touch ran\n")
    assert invoke(["config", "check", "k.yaml"]) == 0
    assert capsys.readouterr().out == (
        "ok: 1 cluster (default), 1 bootstrap server\nnot run: sasl-password-command of cluster default\n"
    )
    assert not Path("ran").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_only_others_may_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("secret").write_text("x")
    Path("secret").chmod(0)
    assert check(LOGIN + "sasl-password-file: secret\n", capsys) == [
        "k.yaml:4: sasl-password-file: secret cannot be read: Permission denied"
    ]
