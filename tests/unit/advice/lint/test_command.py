"""`kproxy lint` as a person runs it: exit codes, output, what it writes, and what it never shows."""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from kproxy.advice.lint import fixes
from kproxy.advice.lint.findings import HIDDEN, redact
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import read_source
from kproxy.base.errors import ConfigError
from kproxy.cli import invoke
from tests.unit.advice.lint import broken, brokenfiles, examples
from tests.unit.advice.lint.broken import APP, PLAIN, changed

GOOD = examples.SERVER["Kafka 4, one node"].removeprefix("\n")
BAD = changed(GOOD, "name=PLAINTEXT\n", "name=INTERNAL\n")
SECRET = "hush-hush-3141"
CASES = [*broken.CASES, *brokenfiles.CASES]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(BAD)
    return path


def test_exit_codes(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.properties"
    good.write_text(GOOD)
    assert invoke(["lint", str(good)]) == 0
    assert "no mistakes found in 1 file" in capsys.readouterr().out
    assert invoke(["lint", str(file)]) == 1
    assert invoke(["lint", str(file), str(tmp_path / "none")]) == 2
    assert "[inter-broker-unknown]" in capsys.readouterr().out
    assert invoke(["lint"]) == 2
    assert invoke(["lint", "--write", str(file)]) == 2
    assert invoke(["lint", "--fix", "--write", "-"]) == 2


@pytest.mark.parametrize("form", ["text", "github", "json"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none", "does not exist"),
        ("directory", "is a directory; name the files in it"),
        ("empty", "is empty"),
        ("blank", "is empty"),
        ("binary", "is not UTF-8 text"),
        ("utf-16", "is not UTF-8 text"),
        ("prose", "is no file that kproxy knows; with --as you can say what it is"),
        ("large", "is larger than 4 MiB"),
        ("loop", "too many levels of symbolic links"),
        ("none/x", "does not exist"),
        ("empty/x", "not a directory"),
    ],
)
def test_a_file_that_cannot_be_linted_is_one_line(
    name: str, why: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "utf-16").write_text(GOOD, encoding="utf-16")
    for content, named in ((b"", "empty"), (b" \n\t\n", "blank"), (b"\x7fELF\0\0", "binary"), (b"hello\n", "prose")):
        (tmp_path / named).write_bytes(content)
    (tmp_path / "large").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    assert invoke(["lint", "--format", form, str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"kproxy: {tmp_path / name}: {why}")
    assert err.count("\n") == 1
    assert "mistakes" not in out
    if form == "text":
        assert out == ""
    elif form == "github":
        assert out.startswith(f"::error file={tmp_path / name},title=not read::{why}")


def test_only_files_that_were_linted_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, empty = tmp_path / "good.properties", tmp_path / "empty"
    good.write_text(GOOD)
    empty.write_text("")
    assert invoke(["lint", str(good), str(empty), str(tmp_path / "none"), str(tmp_path / "none2")]) == 2
    out, err = capsys.readouterr()
    assert "no mistakes found in 1 file\n" in out
    assert err.count("\n") == 3


def test_fix_of_nothing_writes_nothing_and_does_not_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--fix", "--write", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"kproxy: {tmp_path / 'none'}: does not exist\n"


def test_what_a_person_reads(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invoke(["lint", str(file)])
    out = capsys.readouterr().out
    assert f"{file}:5:1: error: inter.broker.listener.name is INTERNAL, but advertised.listeners has PLAINTEXT" in out
    assert "    corrected: inter.broker.listener.name=PLAINTEXT\n" in out
    assert "1 error in 1 file\n" in out


def test_a_rule_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--explain", "advertised-wildcrd"]) == 2
    err = capsys.readouterr().err
    assert "did you mean advertised-wildcard?" in err
    assert err.count("\n") == 1


def test_a_rule_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--explain", "[jaas-flag]", "--format", "json"]) == 0
    rule = json.loads(capsys.readouterr().out)
    assert (rule["id"], rule["severity"], rule["fault"]) == ("jaas-flag", "error", "credentials-unreadable")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert invoke(["lint", "-", "--fix"]) == 1
    out = capsys.readouterr().out
    assert "-:5:1: error:" in out
    assert "+inter.broker.listener.name=PLAINTEXT" in out


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--format", "json", "--fix", str(file)]) == 1
    document = json.loads(capsys.readouterr().out)
    (finding,) = document["findings"]
    assert finding["rule"] == "inter-broker-unknown"
    assert finding["fault"] == "listener-configuration"
    assert (finding["place"], finding["fixable"]) == ({"name": str(file), "line": 5, "column": 1}, True)
    assert document["reach"][0]["host"] == "yes"
    assert "+inter.broker.listener.name=PLAINTEXT" in document["diff"]


def test_annotations_for_github(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["lint", "--format", "github", str(file)]) == 1
    assert f"::error file={file},line=5,col=1,title=inter-broker-unknown::" in capsys.readouterr().out


def test_the_kind_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x"
    path.write_text("message.max.bytes=1\ninter.broker.listener.nam=x\n")
    assert invoke(["lint", str(path)]) == 2
    assert invoke(["lint", "--as", "server", str(path)]) in (0, 1)


def test_the_env_beside_a_compose_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "compose.yml").write_text(changed(PLAIN, "//localhost", "//${HOST}"))
    assert invoke(["lint", str(tmp_path / "compose.yml")]) == 0
    (tmp_path / ".env").write_text("HOST=0.0.0.0\n")
    assert invoke(["lint", str(tmp_path / "compose.yml")]) == 1


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_fix_shows_and_writes_only_when_told(file: Path, ends: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = f"# é keeps\t{ends}{BAD.replace(chr(10), ends)}  #end".encode()
    file.write_bytes(before)
    file.chmod(0o640)
    assert invoke(["lint", "--fix", str(file)]) == 1
    assert file.read_bytes() == before
    assert invoke(["lint", "--fix", "--write", str(file)]) == 0
    assert file.read_bytes() == before.replace(b"name=INTERNAL", b"name=PLAINTEXT")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.properties"
    link.symlink_to(file)
    assert invoke(["lint", "--fix", "--write", str(link)]) == 0
    assert link.is_symlink()
    assert file.read_text() == GOOD


def test_a_file_that_changed_meanwhile_is_not_written(file: Path) -> None:
    fixed = fixes.fix(lint([read_source(str(file))]), LintOptions())
    file.write_text(BAD + "# a line of somebody else\n")
    with pytest.raises(ConfigError, match="changed while kproxy looked at it"):
        fixes.write_files(fixed)
    assert file.read_text().endswith("# a line of somebody else\n")


def test_a_file_that_has_gone_or_is_none(file: Path) -> None:
    fixed = fixes.fix(lint([read_source(str(file))]), LintOptions())
    file.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        fixes.write_files(fixed)
    file.mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        fixes.write_files(fixed)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_fix_changes_nothing_else(case: object) -> None:
    """Each line that no finding is about is still there, in its order."""
    from kproxy.advice.lint.source import SourceFile
    from tests.unit.advice.lint.broken import Case

    assert isinstance(case, Case)
    sources = [SourceFile(name, text) for name, text in case.files.items()]
    fixed = fixes.fix(lint(sources, LintOptions(advertise=case.host)), LintOptions(advertise=case.host))
    assert len(list(fixes.diff_lines(fixed))) <= 60
    for old, new in fixed.changed:
        assert abs(old.text.count("\n") - new.text.count("\n")) <= 8
    again = fixes.fix(fixed.after, LintOptions(advertise=case.host))
    assert again.changed == []


SECRETS = f"""\
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="admin" \\
  password="{SECRET}" \\
  user_admin="{SECRET}";
ssl.keystore.password={SECRET}
listener.name.external.ssl.key.password : {SECRET}
ssl.keystore.key=-----BEGIN PRIVATE KEY----- \\
  {SECRET}
"""
SECRETS_IN_YAML = f"""\
      KAFKA_LISTENER_NAME_X_PLAIN_SASL_JAAS_CONFIG: |
        org.apache.kafka.common.security.plain.PlainLoginModule required
          "{SECRET}";
      KAFKA_SSL_KEYSTORE_PASSWORD: {SECRET}
      KAFKA_OPTS: -Djavax.net.ssl.keyStorePassword={SECRET}
"""


@pytest.mark.parametrize(
    "line",
    [
        "sasl.oauthbearer.client.credentials.client.secret={}",
        "ssl.key.password = {}",
        "  KAFKA_INTER_BROKER_PASSWORD: {}",
        "      - KAFKA_CLIENT_PASSWORDS={},x",
        "environment: {{AWS_SECRET_ACCESS_KEY: {}, KAFKA_LISTENERS: x}}",
        "delegation.token.master.key:{}",
        "ssl.keystore.key={}",
        "bootstrap.servers=SASL_SSL://user:{}@kafka:9092",
        'KAFKA_OPTS: "-Djavax.net.ssl.keyStorePassword={}"',
        '  password="{}" \\',
        "x: org.apache.kafka.common.security.plain.PlainLoginModule required {};",
        '  "api-key": "{}"',
        "- {{name: KAFKA_SSL_KEYSTORE_PASSWORD, value: {}}}",
        '- {{"name": "KAFKA_SSL_KEY_PASSWORD", "value": "{}"}}',
    ],
)
def test_a_line_with_a_secret(line: str) -> None:
    shown = redact(line.format(SECRET))
    assert SECRET not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "line",
    [
        "ssl.keystore.location=/k/all.p12",
        "key.converter=x",
        "advertised.listeners=PLAINTEXT://localhost:9092",
        "PlainLoginModule is for PLAIN, but the mechanism is GSSAPI, whose module is Krb5LoginModule",
        "sasl.password is a setting of librdkafka, which Java ignores; Java's is sasl.jaas.config",
    ],
)
def test_a_line_without_a_secret(line: str) -> None:
    assert redact(line) == line


def test_secrets_of_pods_are_never_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entries = (
        ("KAFKA_SSL_KEYSTORE_PASSWORD", SECRET),
        ("KAFKA_LISTENER_NAME_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG", f'a.PlainLoginModule required password="{SECRET}"'),
    )
    added = "".join(f"            - name: {name}\n              value: '{value}'\n" for name, value in entries)
    line = "            - name: KAFKA_PROCESS_ROLES\n"
    text = changed(
        brokenfiles.STATEFUL, line, added + line, "//$(POD).brokers", "//0.0.0.0", "replicas: 3", "replicas: 1"
    )
    (tmp_path / "pod.yaml").write_text(text)
    assert invoke(["lint", "--fix", str(tmp_path / "pod.yaml")]) == 1
    out = capfd.readouterr().out
    assert "+              value: PLAINTEXT://kafka:9092" in out
    assert "[jaas-semicolon]" in out
    assert SECRET not in out


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_secrets_are_never_shown(form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server, compose = tmp_path / "server.properties", tmp_path / "compose.yml"
    server.write_text(BAD.replace("inter.broker", f"{SECRETS}inter.broker") + SECRETS)
    text = changed(PLAIN + APP, "      KAFKA_LISTENERS", f"{SECRETS_IN_YAML}      KAFKA_LISTENERS")
    compose.write_text(text.replace("BOOTSTRAP_SERVERS: kafka", f"BOOTSTRAP_SERVERS: PLAINTEXT://a:{SECRET}@kafka"))
    assert invoke(["lint", "--fix", "--format", form, str(server), str(compose)]) == 1
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err
    assert "inter-broker-unknown" in captured.out


def test_the_table_fits_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "compose.yml"
    long = "a-very-long-name-of-a-host.in-a-very-long-domain.example.com"
    path.write_text(changed(examples.COMPOSE["Apache, three combined nodes"], "//localhost:19092", f"//{long}:19092"))
    invoke(["lint", str(path)])
    table = capsys.readouterr().out.split("Who can connect:\n")[1].split("\n\n")[0].splitlines()
    assert len(table) > 6
    assert max(map(len, table)) <= 80
    assert any(long in line for line in table)
