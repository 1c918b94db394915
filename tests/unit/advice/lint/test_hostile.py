"""What can go wrong with a file: each is said, none does harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kproxy.advice.lint import fixes, output
from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import UnreadableError, decode_source, read_source
from tests.unit.advice.lint import examples
from tests.unit.advice.lint.helpers import printed, report, shown

GOOD = examples.SERVER["Kafka 4, one node"].removeprefix("\n")


def bomb() -> str:
    """Aliases of aliases: some bytes that would be gigabytes if anybody expanded them."""
    lines = ["services:", "  a: &a0 {image: apache/kafka}"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    return "\n".join(lines)


def merging_bomb() -> str:
    lines = ["x-0: &m0 {k0: v}"]
    lines += [f"x-{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}], k{n}: v}}" for n in range(1, 50)]
    return "\n".join([*lines, "services: {kafka: {image: apache/kafka, environment: *m49}}"])


SYNTAX = [
    ("a tab", "services:\n  a:\n\timage: x\n", 3, "indent with spaces"),
    ("an open bracket", "services:\n  a: [1, 2\n", 3, "not YAML"),
    ("an unknown alias", "services:\n  a: *b\n", 2, "not YAML"),
    ("an open quote", 'services:\n  a: "b\n', 3, "not YAML"),
    ("a control character", "services:\n  a: \x07\n", 2, "not text"),
    ("depth", "services: " + "[" * 5000, 1, "nested"),
    ("depth of mappings", "services:\n" + "".join(" " * n + f"k{n}:\n" for n in range(1, 200)), 61, "nested"),
    ("many nodes", "services: [" + "a," * 300_000 + "]", 1, "too large"),
]


@pytest.mark.parametrize(("name", "text", "line", "said"), SYNTAX, ids=[name for name, *_ in SYNTAX])
def test_yaml_that_is_none(name: str, text: str, line: int, said: str) -> None:
    (finding,) = report({"compose.yml": text}).findings
    assert (finding.rule, finding.line) == ("syntax", line)
    assert said in finding.text


def bomb_of_settings() -> str:
    """An application.yml whose aliases are the aliases of aliases."""
    lines = ["kafka:", "  bootstrap.servers: k:9092", "a0: &k0 {bootstrap.servers: 'k:9092'}"]
    lines += [f"a{n}: &k{n} {{{', '.join(f'b{m}: *k{n - 1}' for m in range(9))}}}" for n in range(1, 30)]
    return "\n".join([*lines, "spring: *k29", ""])


def test_aliases_in_settings_are_bounded() -> None:
    found = report({"application.yml": bomb_of_settings()})
    assert any("all but its first" in line for line in found.unchecked), found.unchecked
    assert len(printed(found)) < 500_000


@pytest.mark.parametrize(
    "text", [bomb(), merging_bomb(), "services: &a\n  <<: *a\n  kafka: *a\n", "services: &a [*a]\n"]
)
def test_aliases_are_never_expanded(text: str) -> None:
    found = report({"compose.yml": text})
    assert all(len(finding.text) < 500 for finding in found.findings)


PROPERTIES = [
    ("a bad escape", "node.id=1\nlisteners=\\u12\n", "syntax", 2),
    ("a byte order mark", "\ufeff" + GOOD, "byte-order-mark", 1),
]


@pytest.mark.parametrize(("name", "text", "rule", "line"), PROPERTIES, ids=[name for name, *_ in PROPERTIES])
def test_properties_that_java_reads_otherwise(name: str, text: str, rule: str, line: int) -> None:
    found = report({"server.properties": text}, kind=FileKind.SERVER)
    assert (rule, line) in {(finding.rule, finding.line) for finding in found.findings}, shown(found)


def test_a_device_that_never_ends() -> None:
    with pytest.raises(UnreadableError, match="larger"):
        read_source("/dev/zero")


def test_a_file_must_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(GOOD)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(UnreadableError, match="must not be read"):
        read_source(str(file))


def test_latin_1_as_java_reads_it() -> None:
    source = decode_source("server.properties", b"# Stra\xdfe\n" + GOOD.encode())
    assert list(lint([source]).findings) == []
    (finding,) = lint([decode_source("compose.yml", b"services:\n  a: \xdf\n")]).findings
    assert (finding.rule, finding.line, finding.text) == ("syntax", 2, "the file is not UTF-8 text")


def test_a_large_file_is_read_in_one_pass() -> None:
    text = GOOD + "# " + "x" * 1000 + "\n" + "".join(f"other.{n}=\\\n  {'y' * 50}\n" for n in range(20_000))
    assert list(report({"server.properties": text}).findings) == []


MANY = {
    "listeners": "listeners=" + ",".join(f"L{n}://h:{n}" for n in range(100_000)),
    "spaces in a list": "listeners=A://x:1" + " " * 1_000_000 + "b,B://x:1",
    "continued lines": "listeners=A://x:1" + "\\\n" * 500_000 + ",A://x:1",
    "one key": "node.id=1\n" * 20_000,
    "secrets": "listeners=A://x:1,A://x:1 # " + "password" * 100_000,
    "protocols": "listener.security.protocol.map=" + ",".join(f"L{n}:X" for n in range(100_000)),
    "servers": "bootstrap.servers=" + ",".join(f"h{n}:9092" for n in range(100_000)),
    "spaces in Spark": "spark.master x\n" + " " * 1_000_000 + "\nspark.kafka.bootstrap.servers" + " " * 500_000 + "\t",
    "services": "services:\n" + "".join(f"  k{n}: {{image: apache/kafka}}\n" for n in range(20_000)),
    "port ranges": "services:\n  kafka: {image: apache/kafka, ports: [" + "'1-65535:1-65535'," * 10_000 + "]}",
    "variables": "KAFKA_LISTENERS=A://x:1\n" + "".join(f"KAFKA_X{n}=$A{n}\n" for n in range(50_000)),
    "one variable": "KAFKA_LISTENERS=" + "$A" * 500_000,
    "clients": "".join(f"c{n}.bootstrap.servers=h{n}:9092\n" for n in range(50_000)),
    "JAAS entries": "KafkaServer {\n" + "a.PlainLoginModule required a=b;\n" * 50_000 + "};",
    "JAAS options": "sasl.jaas.config=a.PlainLoginModule required " + "a=b " * 300_000 + ";",
    "JAAS quotes": "sasl.jaas.config=a.PlainLoginModule required " + '"' * 500_000,
    "JAAS sections": "a{b.PlainLoginModule required;" * 50_000,
    "open braces": "sasl.jaas.config=" + "${" * 500_000,
    "placeholders": "bootstrap.servers=" + "<" * 1_000_000,
    "a host of digits": "bootstrap.servers=" + "1." * 500_000 + ":9092",
    "connectors": '[{"connector.class": "x"}' + ', {"a.bootstrap.servers": "k:1"}' * 20_000 + "]",
    "pods": "apiVersion: v1\nkind: List\nitems:\n"
    + "- {kind: Pod, spec: {containers: [{image: apache/kafka, env: [{name: KAFKA_LISTENERS, value: 'A://x:1'}]}]}}\n"
    * 5000,
    "services of pods": "apiVersion: v1\nkind: List\nitems:\n"
    + "- {kind: Service, metadata: {name: a}, spec: {selector: {a: b}}}\n" * 9000
    + "- {kind: Pod, metadata: {labels: {a: b}}, spec: {containers: [{image: apache/kafka}]}}\n" * 2000,
    "replicas": "apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: " + "9" * 100_000 + "}\n",
    "listeners of Redpanda": "redpanda:\n  kafka_api: [" + "{name: a, address: b, port: 1}, " * 20_000 + "]\n",
    "flags of Redpanda": "services:\n  r: {command: '" + "--kafka-addr a://b:1 " * 100_000 + "'}\n",
    "variables of a chart": "extraEnvVars:\n" + "- {name: KAFKA_CFG_LISTENERS, value: 'A://x:1'}\n" * 20_000,
    "spaces in a client's file": "security.protocol=SSL\n" + " " * 1_000_000 + "x\n" + "w" * 1_000_000 + "\n",
    "open arithmetic": "configurationOverrides:\n  a: '" + "$((" * 500_000 + "'\nbrokers: 1\n",
    "open substitutions": "apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{name: A, value: '"
    + "$(" * 500_000
    + "'}]}]}\n",
    "a long word in a login": "metadata.broker.list=k:1\nsasl.jaas.config=" + "a" * 1_000_000 + "\n",
    "braces": "services:\n  kafka: {image: '" + "${" * 500_000 + "'}",
}


@pytest.mark.parametrize("name", MANY)
def test_much_of_one_thing_takes_no_quadratic_time(name: str) -> None:
    """Each of these would take an hour otherwise: the limit of the test run is the assertion."""
    found = report({"server.properties" if "=" in MANY[name].partition(chr(10))[0] else "file": MANY[name] + "\n"})
    assert dict(found.unreadable) == {}
    fixed = fixes.fix(found, LintOptions())
    assert len("\n".join(fixes.diff_lines(fixed))) < 50_000_000
    assert len(printed(found)) < 5_000_000


def test_nothing_from_a_file_moves_the_cursor() -> None:
    evil = "\x1b[2J\u202e"
    text = GOOD.replace("PLAINTEXT://localhost", f"PLAINTEXT://{evil}", 1)
    found = report({f"a{evil}.properties": text.replace("node.id=1", f"node.id={evil}")}, kind=FileKind.SERVER)
    found = type(found)(found.sources, found.findings, found.reachability, [*found.unchecked, evil], {evil: evil})
    assert found.findings
    for lines in (printed(found), "\n".join(output.annotations_of(found)), output.as_json(found)):
        assert "\x1b" not in lines
        assert "\u202e" not in lines


def test_annotations_cannot_be_forged() -> None:
    text = GOOD.replace("broker,controller", "broker,control\\n::error::forged")
    lines = list(output.annotations_of(report({"x,y:z.properties": text}, kind=FileKind.SERVER)))
    assert lines
    assert all(line.startswith(("::error file=x%2Cy%3Az.properties,", "::warning", "::notice")) for line in lines)
    assert all("\n" not in line for line in lines)
