"""What `kproxy lint` says of logins and of names of settings, beside what Kafka, Java and librdkafka say."""

from __future__ import annotations

import io
import logging
import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.rules.clientnames import JAVA_ONLY, LIBRDKAFKA_ONLY
from kproxy.advice.lint.source import SourceFile
from kproxy.dev.devcluster.jars import DEFAULT_VERSION, class_path, fetch_jars, find_java

pytestmark = pytest.mark.integration

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# The value of a sasl.jaas.config, the rule of lint, and a part of what Kafka says.
ENTRIES = {
    f'{MODULE} required username="u" password="p";': ("", "accepted"),
    f"{MODULE} required username='u' password='p' ;": ("", "accepted"),
    f'{MODULE} required username="u" password="p"': ("jaas-semicolon", "not terminated by semi-colon"),
    f'{MODULE} username="u" password="p";': ("jaas-flag", "control flag"),
    MODULE: ("jaas-flag", "control flag not specified"),
    f'{MODULE} required username="u" password="p;': ("jaas-quotes", "refused"),
    f"\"{MODULE} required username='u' password='p';\"": ("jaas-quotes", "refused"),
    f'{MODULE} required username="u", password="p";': ("jaas-quotes", "refused"),
    f'{MODULE} required username password="p";': ("jaas-option", "Value not specified for key 'username'"),
    f'KafkaClient {{ {MODULE} required username="u" password="p"; }};': ("jaas-block", "refused"),
    f'{MODULE} required a="1"; {MODULE} required a="2";': ("jaas-block", "contains 2 login modules, should be 1"),
}
FILES = {
    f'KafkaServer {{ {MODULE} required username="u" password="p" user_u="p"; }};': ("", "accepted"),
    f'KafkaServer {{ {MODULE} required username="u" user_u="p" }};': ("jaas-semicolon", "refused"),
    f'KafkaServer {{ {MODULE} required username="u"; }}': ("jaas-semicolon", "refused"),
    f'KafkaServer {{ {MODULE} username="u"; }};': ("jaas-flag", "refused"),
    f'{MODULE} required username="u";': ("jaas-section", "refused"),
    f'KafkaServer {{ {MODULE} required username="u; }};': ("jaas-quotes", "refused"),
}


@pytest.fixture(scope="module")
def of_java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that ClientLogin.java prints: names, a prefix, and one for each entry and file."""
    directory = tmp_path_factory.mktemp("logins")
    paths = []
    for number, text in enumerate([*ENTRIES, *FILES]):
        paths.append(directory / f"{number}{'.jaas' if text in FILES else ''}")
        paths[-1].write_text(text)
    source = Path(__file__).parent / "java" / "ClientLogin.java"
    jars = class_path(fetch_jars(DEFAULT_VERSION))
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", jars, str(source), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def rules_of(name: str, text: str, kind: FileKind) -> list[str]:
    return [finding.rule for finding in lint([SourceFile(name, text)], LintOptions(kind)).findings]


def test_kafka_refuses_the_entries_that_lint_finds_wrong(of_java: list[str]) -> None:
    for (text, (rule, words)), verdict in zip(ENTRIES.items(), of_java[2:], strict=False):
        assert words in verdict, (text, verdict)
        login = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={text}\n"
        assert rules_of("client.properties", login, FileKind.CLIENT) == ([rule] if rule else []), text


def test_java_refuses_the_files_that_lint_finds_wrong(of_java: list[str]) -> None:
    for (text, (rule, words)), verdict in zip(FILES.items(), of_java[2 + len(ENTRIES) :], strict=True):
        assert words in verdict, (text, verdict)
        assert rules_of("kafka_server_jaas.conf", text, FileKind.JAAS) == ([rule] if rule else []), text


def test_the_prefix_of_a_listener_is_in_lower_case(of_java: list[str]) -> None:
    assert of_java[1] == "listener.name.clients.scram-sha-512."


def test_java_has_its_names_and_not_those_of_librdkafka(of_java: list[str]) -> None:
    names = set(of_java[0].split())
    assert set(JAVA_ONLY) <= names
    assert not set(LIBRDKAFKA_ONLY) & names


def refusal_of(key: str, value: str) -> str:
    """Return what librdkafka says of a setting; empty if it takes it."""
    try:
        confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", key: value})
    except confluent_kafka.KafkaException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", JAVA_ONLY)
def test_librdkafka_refuses_a_name_of_java(key: str) -> None:
    refusal = refusal_of(key, "x")
    assert "No such configuration property" in refusal or "not supported" in refusal


@pytest.mark.parametrize("key", LIBRDKAFKA_ONLY)
def test_librdkafka_takes_its_own_names(key: str) -> None:
    # It may not like the value, but it knows the name.
    assert "No such configuration property" not in refusal_of(key, "true" if key.startswith("enable") else "PLAIN")


def test_librdkafka_refuses_a_scheme_that_is_not_its_protocol() -> None:
    config = "bootstrap.servers=PLAINTEXT://127.0.0.1:1\nsecurity.protocol=ssl\n"
    assert rules_of("client.properties", config, FileKind.LIBRDKAFKA) == ["bootstrap-scheme"]
    log = io.StringIO()
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.StreamHandler(log))
    settings = dict(line.split("=") for line in config.splitlines())
    client = confluent_kafka.Producer(settings, logger=logger)
    client.poll(0)
    assert 'protocol "PLAINTEXT" does not match security.protocol setting "ssl"' in log.getvalue()
