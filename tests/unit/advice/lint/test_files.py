"""What is read from files: Java's rules for properties, YAML with its places, Compose's ports and variables."""

from __future__ import annotations

import re

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.advice.lint import fixes, properties
from kproxy.advice.lint.compose import parse_short_ports
from kproxy.advice.lint.endpoint import host_kind
from kproxy.advice.lint.linter import LintOptions
from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.value import ConfigValue, LineLayout, ValueStyle
from kproxy.advice.lint.variables import interpolate, parse_env
from kproxy.base import yamltree
from kproxy.base.diagnostic import Severity
from tests.unit.advice.lint import examples
from tests.unit.advice.lint.broken import ONE_NODE, PLAIN, STRIMZI, STRIMZI_1, changed
from tests.unit.advice.lint.helpers import report, shown, wrong


def read(text: str) -> dict[str, str]:
    return {key: value.text for key, value in properties.parse(SourceFile("x", text)).values.items()}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("  a  :  b c  ", "a", "b c"),
        ("a b", "a", "b"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\r\n\t c", "a", "bc"),
        ("a=b\\\\\n", "a", "b\\"),
        ("a\\ b=c", "a b", "c"),
        ("a\\=b=c", "a=b", "c"),
        ("a=\\u0062\\t\\n\\z", "a", "b\t\nz"),
        ("a", "a", ""),
        ("# x\\\na=b", "a", "b"),
        ("! x\ra=b", "a", "b"),
        ("a==b", "a", "=b"),
    ],
)
def test_a_line_as_java_reads_it(text: str, key: str, value: str) -> None:
    assert read(text)[key] == value.strip()


PIECES = st.lists(st.sampled_from(["a", "B.c", "=", ":", " ", "\t", "\\", "\n", "\r\n", "#", "!", "\\u0041", "é", ","]))


@given(PIECES.map("".join))
def test_any_text_is_read_as_java_does(text: str) -> None:
    try:
        expected = dict(javaproperties.loads(text))
    except javaproperties.InvalidUEscapeError:
        return
    assert read(text) == {key: value.strip() for key, value in expected.items()}


@given(PIECES.map("".join))
def test_each_value_is_where_it_says(text: str) -> None:
    source = SourceFile("x", text)
    for value in properties.parse(source).values.values():
        edits = value.replace("new")
        if edits is None:
            assert value.style is ValueStyle.FIXED
            continue
        after = properties.parse(source.with_edits(edits)).values
        assert after[value.key].text == "new"
        assert {key: one.text for key, one in after.items() if key != value.key} == {
            key: one for key, one in read(text).items() if key != value.key
        }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("$A-$B", "1-${B}"),
        ("${B:-x}", "x"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${B:-${A}}", "1"),
        ("${B:?say}", "${B}"),
        ("${A:+y}", "y"),
        ("$$A", "$A"),
        ("cost: 5$", "cost: 5$"),
        ("${B", "${B}"),
        ("${A:-}}", "1}"),
        ("${!}", "${?}"),
        ("${B:-" * 50 + "x" + "}" * 50, None),
    ],
)
def test_variables_as_compose_replaces_them(text: str, expected: str | None) -> None:
    found = interpolate(text, {"A": "1", "EMPTY": ""})
    assert expected is None or found == expected


def test_an_env_file() -> None:
    text = "# c\nA=1\nexport B = 'x $A'\nC=\"y $A\" # d\nD=z # e\nnot a line\nE=\n"
    assert parse_env(text) == {"A": "1", "B": "x $A", "C": "y 1", "D": "z", "E": ""}


def test_a_variable_has_its_value_or_is_not_judged() -> None:
    text = changed(ONE_NODE, "//localhost:9092", "//${HOST}:${PORT:-9092}")
    assert list(report({"compose.yml": text}).findings) == []
    assert [row.host for row in report({"compose.yml": text}).reachability] == ["not known", "no"]
    known = report({"compose.yml": text}, env={"HOST": "0.0.0.0"})
    assert [one.rule for one in known.findings] == ["advertised-wildcard"], shown(known)
    assert known.findings[0].line == 11


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9092", [("", None, 9092)]),
        ("9092:9093", [("", 9092, 9093)]),
        ("127.0.0.1:9092:9093/tcp", [("127.0.0.1", 9092, 9093)]),
        ("[::1]:9092:9093", [("::1", 9092, 9093)]),
        ("127.0.0.1::9093", [("127.0.0.1", None, 9093)]),
        ("9092-9094:19092-19094", [("", 9092, 19092), ("", 9093, 19093), ("", 9094, 19094)]),
        ("9092-9094:9092", [("", None, 9092)]),
        ("${PORT}:9092", [("", None, 9092)]),
        ("9092:9092/udp", []),
        ("0:9092", [("", None, 9092)]),
        ("x:y", [("", None, None)]),
        ("70000:9092", [("", None, 9092)]),
    ],
)
def test_ports_in_the_short_syntax(text: str, expected: list[tuple[str, int | None, int | None]]) -> None:
    value = ConfigValue(text, SourceFile("x", text), 0, len(text), ValueStyle.PLAIN, LineLayout.BARE)
    assert [(one.host_ip, one.host_port, one.container_port) for one in parse_short_ports(value)] == expected


@pytest.mark.parametrize(
    ("host", "kind"),
    [("", "empty"), ("[::]", "wildcard"), ("0.0.0.0", "wildcard"), ("LOCALHOST", "loopback"), ("127.1.2.3", "loopback"),
     ("::1", "loopback"), ("10.0.0.1", "ip"), ("fe80::1%eth0", "ip"), ("kafka", "name"), ("${X}", "unknown")],
)  # fmt: skip
def test_what_a_host_is(host: str, kind: str) -> None:
    assert host_kind(host).value == kind


@pytest.mark.parametrize("file", ["compose.yml", "kafka.yaml"])
def test_a_byte_order_mark_in_yaml_makes_no_difference(file: str) -> None:
    texts = examples.COMPOSE if file == "compose.yml" else examples.KUBERNETES
    for text in texts.values():
        found = report({file: "\ufeff" + text.removeprefix("\n")})
        assert (list(found.findings), dict(found.unreadable)) == ([], {}), shown(found)


def test_the_latest_image_may_be_too_new_for_zookeeper() -> None:
    found = report(
        {"compose.yml": changed(examples.COMPOSE["cp-all-in-one with ZooKeeper"], "kafka:6.2.0", "kafka:latest")}
    )
    assert list(found.findings) == []
    assert list(found.unchecked) == [
        "broker: whether its image is old enough to have a ZooKeeper mode: since Confluent Platform 8.0, it has none"
    ]


def test_a_service_that_waits_for_the_broker_may_be_a_client() -> None:
    app = "  app:\n    image: shop/app\n    depends_on: [kafka]\n"
    found = report({"compose.yml": f"{PLAIN}{app}"})
    assert [(one.rule, one.severity, one.text) for one in found.findings] == [
        (
            "loopback-advertised",
            Severity.NOTE,
            "PLAINTEXT advertises localhost, and app depends on kafka",
        )
    ]
    # A client is judged as such, and a service that does not wait is none of it.
    client = f"{app}    environment: {{BOOTSTRAP_SERVERS: 'outside.example.com:9092'}}\n"
    assert list(report({"compose.yml": f"{PLAIN}{client}"}).findings) == []
    assert list(report({"compose.yml": f"{PLAIN}{app.replace('[kafka]', '[]')}"}).findings) == []


def test_what_is_not_known_is_not_judged() -> None:
    text = """
    services:
      one: {image: my/own-kafka, environment: {KAFKA_ADVERTISED_LISTENERS: "PLAINTEXT://0.0.0.0:9092"}}
      two: {image: "${IMAGE}", environment: [KAFKA_LISTENERS=x]}
      three:
        image: apache/kafka:4.0.0
        env_file: kafka.env
        environment: {KAFKA_NODE_ID: 1}
    """
    found = report({"compose.yml": text})
    assert list(found.findings) == []
    assert list(found.unchecked) == [
        "compose.yml: service one: its image my/own-kafka is not one that kproxy knows",
        "compose.yml: service two: its image is ${IMAGE}, which has no value here",
        "compose.yml: service three: the settings in env_file",
    ]


@pytest.mark.parametrize(("given", "right"), [("PLAINTEXT://ksql:8088", "http://ksql:8088"), (":8088", "http://:8088")])
def test_the_listeners_of_a_rest_server_are_urls(given: str, right: str) -> None:
    app = f"    image: confluentinc/cp-ksql-server:5.0.0\n    environment:\n      KSQL_LISTENERS: {given}\n"
    found = report({"compose.yml": f"services:\n  ksql:\n{app}      KSQL_BOOTSTRAP_SERVERS: broker.example.com:9092\n"})
    assert [(one.rule, one.corrected_lines(found.sources)) for one in found.findings] == [
        ("listener-syntax", [f"      KSQL_LISTENERS: {right}"])
    ]


def test_a_broker_on_the_network_of_its_host_may_be_in_a_virtual_machine() -> None:
    text = changed(PLAIN, "image: apache/kafka:4.0.0", "image: apache/kafka:4.0.0\n    network_mode: host")
    assert list(report({"compose.yml": text}).unchecked) == [
        "compose.yml: service kafka: the network of Docker Desktop's host, which is that of a virtual machine unless "
        "its settings turn host networking on"
    ]


@pytest.mark.parametrize(
    ("servers", "finding", "unchecked"),
    [
        (
            "<broker endpoint>",
            [],
            "service ksql: KSQL_BOOTSTRAP_SERVERS: a placeholder or a variable without a value here",
        ),
        ("kafka", ["bootstrap-syntax"], ""),
    ],
)
def test_bootstrap_servers_of_a_known_program_are_addresses(servers: str, finding: list[str], unchecked: str) -> None:
    image = "image: confluentinc/ksqldb-server:0.10.0"
    text = f"services:\n  ksql:\n    {image}\n    environment:\n      KSQL_BOOTSTRAP_SERVERS: {servers}\n"
    found = report({"compose.yml": text})
    assert ([one.rule for one in found.findings], list(found.unchecked)) == (finding, [unchecked] if unchecked else [])


@pytest.mark.parametrize(
    ("image", "severity"), [("redpandadata/console:3.1.1", Severity.WARNING), ("provectuslabs/kafka-ui", Severity.NOTE)]
)
def test_what_a_scheme_means_depends_on_the_program(image: str, severity: Severity) -> None:
    name = "KAFKA_BROKERS" if "console" in image else "KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS"
    variables = f"environment:\n      {name}: PLAINTEXT://kafka.example.com:9092\n"
    found = report({"compose.yml": f"services:\n  ui:\n    image: {image}\n    {variables}"})
    assert [(one.rule, one.severity) for one in found.findings] == [("bootstrap-scheme", severity)]


def test_redpanda_on_all_addresses_should_say_what_it_advertises() -> None:
    listener = "redpanda:\n  kafka_api:\n    - {name: internal, address: 0.0.0.0, port: 9092}\n"
    found = report({"redpanda.yaml": listener})
    assert [(one.rule, one.severity, one.fix) for one in found.findings] == [
        (
            "advertised-wildcard",
            Severity.NOTE,
            ("advertised_kafka_api: [{name: internal, address: <host that clients reach>, port: 9092}]",),
        )
    ]
    assert list(report({"redpanda.yaml": listener.replace("0.0.0.0", "10.0.0.5")}).findings) == []


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ("bootstrap-servers: kafka.example.com:9093", True),
        ("bootstrap-servers: kafka.example.com:9092", False),
        ("bootstrap-servers: kafka.example.com:9093\n    security.protocol: SSL", False),
        ("bootstrap-servers: kafka.example.com:9093\n    ssl.bundle: kafka", False),
        ("client-id: shop", False),
    ],
)
def test_spring_does_not_derive_tls_from_a_store(settings: str, found: bool) -> None:
    text = f"spring:\n  kafka:\n    {settings}\n    ssl.trust-store-location: file:trust.jks\n"
    rules = [one.rule for one in report({"application.yml": text}).findings]
    assert rules == (["client-protocol"] if found else [])


@pytest.mark.parametrize("key", ["spring.kafka.jaas.login-module", "spring.cloud.stream.kafka.binder.jaas.loginModule"])
def test_a_login_module_of_spring_is_a_class_of_kafka(key: str) -> None:
    wrong = f"{key}=com.sun.security.auth.module.ScramLoginModule"
    found = report({"application.properties": f"spring.kafka.bootstrap-servers=kafka.example.com:9092\n{wrong}\n"})
    right = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert [(one.rule, one.text.rpartition(" ")[2]) for one in found.findings] == [("jaas-module", right)]
    after = fixes.fix(found, LintOptions()).after
    assert (list(after.findings), f"{key}={right}" in after.sources[0].text) == ([], True)


def test_compose_makes_names_of_the_project() -> None:
    for host, rules in (
        ("shop-kafka-1", ["loopback-advertised"]),
        ("shop_kafka_1", ["loopback-advertised"]),
        ("shop-kafka-app", []),
        ("kafka-1", []),
    ):
        app = f"  app:\n    image: my/app\n    environment:\n      BOOTSTRAP_SERVERS: {host}:9092\n"
        assert [one.rule for one in report({"compose.yml": f"{PLAIN}{app}"}).findings] == rules
    # A service has its name for itself.
    other = (
        changed(PLAIN, "services:\n", "")
        .replace("\n  kafka:", "\n  shop-kafka-1:")
        .replace("@kafka:", "@shop-kafka-1:")
    )
    other = other.replace("9092:9092", "9094:9092").replace("//localhost:9092", "//shop-kafka-1:9092")
    app = "  app:\n    image: my/app\n    environment:\n      BOOTSTRAP_SERVERS: shop-kafka-1:9092\n"
    found = report({"compose.yml": f"{PLAIN}{other}{app}"})
    assert "loopback-advertised" not in {one.rule for one in found.findings}, shown(found)


@pytest.mark.parametrize(
    ("variable", "rules"),
    [
        ("KAFKA_BROKER_ID: 1", ["variable-missing"]),
        ("KAFKA_ADVERTISED_HOST_NAME: 10.0.0.5", []),
        ("HOSTNAME_COMMAND: hostname", []),
        ("KAFKA_LISTENERS: PLAINTEXT://:9092", ["canonical-host-name"]),
        ("KAFKA_LISTERNERS: PLAINTEXT://:9092", ["variable-spelling"]),
    ],
)
def test_wurstmeisters_image_requires_listeners_or_a_host(variable: str, rules: list[str]) -> None:
    service = "    image: wurstmeister/kafka:2.13-2.8.1\n    ports: ['9092:9092']\n"
    text = (
        f"services:\n  kafka:\n{service}    environment:\n      KAFKA_ZOOKEEPER_CONNECT: zoo:2181\n      {variable}\n"
    )
    assert [one.rule for one in report({"compose.yml": text}).findings] == rules


def test_bitnamis_image_without_a_name_to_advertise() -> None:
    """Its own example is so, and serves containers."""
    text = examples.COMPOSE["Bitnami with ZooKeeper"]
    lines = [line for line in text.split("\n") if "ADVERTISED_LISTENERS=" not in line]
    found = report({"compose.yml": "\n".join(lines)})
    assert [(one.rule, one.severity) for one in found.findings] == [("canonical-host-name", Severity.NOTE)]
    right = "CLIENT://kafka:9092,EXTERNAL://localhost:9093"
    assert found.findings[0].corrected_lines(found.sources)[-1].strip() == f"- KAFKA_CFG_ADVERTISED_LISTENERS={right}"
    lines = [line for line in lines if not re.search("LISTENERS=CLIENT|PROTOCOL_MAP=|INTER_BROKER", line)]
    plain = "\n".join(lines).replace("9093:9093", "9092:9092")
    found = report({"compose.yml": plain})
    assert [(one.rule, one.severity, one.fix) for one in found.findings] == [
        ("canonical-host-name", Severity.NOTE, ("KAFKA_CFG_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092",))
    ]
    named = plain.replace("    ports:", "    hostname: localhost\n    ports:")
    assert list(report({"compose.yml": named}).findings) == []


def test_wurstmeisters_image_asks_docker_for_its_port() -> None:
    variables = "KAFKA_ADVERTISED_HOST_NAME: 10.0.0.5\n      KAFKA_ZOOKEEPER_CONNECT: zoo:2181\n"
    text = (
        f"services:\n  kafka:\n    image: wurstmeister/kafka\n    ports: ['9092']\n    environment:\n      {variables}"
    )
    assert [one.rule for one in report({"compose.yml": text}).findings] == ["published-port-random"]
    for mount in (
        "/var/run/docker.sock:/var/run/docker.sock:ro",
        "{type: bind, source: /x, target: /var/run/docker.sock}",
    ):
        found = report({"compose.yml": f"{text}    volumes:\n      - {mount}\n"})
        assert list(found.findings) == []
    text += "      KAFKA_ADVERTISED_PORT: 9093\n    volumes: ['/var/run/docker.sock:/var/run/docker.sock']\n"
    found = report({"compose.yml": text.replace("['9092']", "['9094:9092']")})
    assert [one.rule for one in found.findings] == ["published-port-differs"]


def test_a_word_before_a_name_makes_another_setting() -> None:
    word = "KAFKA_LDAP_SSL_TRUSTSTORE_LOCATION"
    text = changed(PLAIN, "KAFKA_NODE_ID: 1", f"KAFKA_NODE_ID: 1\n      {word}: /x")
    assert list(report({"compose.yml": text}).findings) == []
    text = text.replace(word, "KAFKA_SSL_TRUSTSTORE_LOCATIONS")
    assert [one.rule for one in report({"compose.yml": text}).findings] == ["variable-spelling"]


def test_kafdrop_takes_its_files_as_base64() -> None:
    service = (
        "    image: obsidiandynamics/kafdrop\n    environment:\n      KAFKA_BROKERCONNECT: kafka.example.com:9093\n"
    )
    for value, rules in (
        ("./kafka.properties", ["variable-refused"]),
        ("c2VjdXJpdHk9U1NMCg==", []),
        ("${FILE}", []),
        (f'"{" " * 300_000}-"', ["variable-refused"]),
    ):
        text = f"services:\n  drop:\n{service}      KAFKA_PROPERTIES: {value}\n"
        assert [one.rule for one in report({"compose.yml": text}).findings] == rules


def test_an_anchor_may_be_given_twice() -> None:
    """An alias then means the last one before it. Anchors end with their document."""
    for single in (True, False):
        root = yamltree.parse("a: &x 1\nb: &x [2]\nc: *x\nd: &x 3\ne: *x\n", single=single)[0]
        assert yamltree.as_values(root) == {"a": "1", "b": ["2"], "c": ["2"], "d": "3", "e": "3"}
    with pytest.raises(yamltree.YamlError, match="undefined alias"):
        yamltree.parse("a: &x 1\nb: &x 2\n---\nc: *x\n")


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("bash -c 'echo 1'", []),
        ("[bash, -c, 'confluent-hub install x && /etc/confluent/docker/run']", ["variable-missing"]),
        ("", ["variable-missing"]),
    ],
)
def test_a_shell_in_place_of_an_images_own_program(command: str, rules: list[str]) -> None:
    text = f"services:\n  a:\n    image: confluentinc/cp-schema-registry:7.0.0\n    command: {command}\n"
    assert [one.rule for one in report({"compose.yml": text}).findings] == rules


def test_a_service_with_replicas_counts_as_several_brokers() -> None:
    """So its replication factor is right, and what all of them have in common is wrong."""
    factor = "REPLICATION_FACTOR: "
    text = changed(ONE_NODE, "    ports:", "    scale: 3\n    ports:", f"{factor}1", f"{factor}3")
    found = report({"compose.yml": text})
    assert {one.rule for one in found.findings} == {"duplicate-node-id", "same-address-twice"}, shown(found)


@pytest.mark.parametrize("file", ["compose.yml", "-"])
def test_services_without_the_word_services(file: str) -> None:
    text = """
        # cut out of a file
        kafka:
          image: confluentinc/cp-kafka:7.3.0
          ports: ["9094:9092"]
          environment:
            KAFKA_BROKER_ID: 1
            KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
            KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
        """
    assert "is published at port 9094" in shown(report({file: text}))
    # An image of Helm is a mapping.
    assert "published" not in shown(report({file: "kafka:\n  image:\n    repository: x\n  environment: {}\n"}))


def test_two_clusters_in_one_file_are_two() -> None:
    other = (
        ONE_NODE.removeprefix("\nservices:").replace("broker", "other").replace("other,controller", "broker,controller")
    )
    other = (
        other.replace("9092:9092", "8092:9092").replace("localhost:9092", "localhost:8092").replace("bGlud", "cGlud")
    )
    found = report({"compose.yml": ONE_NODE + other})
    assert list(found.findings) == [], shown(found)


def test_a_machines_own_name_is_a_note() -> None:
    found = report({"server.properties": changed(
        examples.SERVER["a broker only"], "listeners=PLAINTEXT://localhost:9092", "listeners=PLAINTEXT://:9092",
        "advertised.listeners=PLAINTEXT://localhost:9092\n", "")})  # fmt: skip
    assert [(one.rule, one.severity) for one in found.findings] == [("canonical-host-name", Severity.NOTE)]
    assert not found.has_mistakes


def test_strimzi_without_zookeeper_and_with_tls_for_certificates() -> None:
    old = changed(STRIMZI_1, "spec:\n", "spec:\n  zookeeper:\n    replicas: 3\n")
    assert [(one.rule, one.line) for one in wrong(report({"kafka.yaml": old}))] == [("operator-version", 5)]
    plain = changed(STRIMZI, "        tls: true\n        authentication", "        tls: false\n        authentication")
    assert [one.rule for one in wrong(report({"kafka.yaml": plain}))] == ["operator-authentication"]


def test_a_second_published_port_with_a_host_listener_is_a_note() -> None:
    found = report({"compose.yml": changed(ONE_NODE, "- '9092:9092'", "- '9092:9092'\n      - '19092:19092'")})
    assert [(one.rule, one.severity) for one in found.findings] == [("container-name-advertised", Severity.NOTE)]


def test_who_can_connect() -> None:
    found = report({"compose.yml": examples.COMPOSE["three listeners: containers, the host, other machines"]})
    assert [(row.listener, row.same_network, row.host, row.other_hosts) for row in found.reachability] == [
        ("DOCKER", "yes", "no", "no"),
        ("HOST", "no", "yes", "no"),
        ("LAN", "yes", "yes", "yes"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{% if quorum %}\nprocess.roles=broker\n{% else %}\nbroker.id=1\n{% endif %}\nlisteners=PLAINTEXT://:9092\n",
        "KafkaClient {\n{% if old %}\n  X required;\n{% endif %}\n  a.PlainLoginModule required u={{ u }};\n};\n",
        "{{- if .Values.tls }}\nsecurity.protocol=SSL\n{{- end }}\nbootstrap.servers=k:9092\n",
    ],
)
def test_a_template_is_not_judged(text: str) -> None:
    read = report({"x.properties": text})
    assert list(read.findings) == []
    assert "is a template" in read.unreadable["x.properties"]


def test_values_with_a_part_of_a_template_are_judged() -> None:
    """Bitnami's own values have one."""
    text = "replicaCount: 3\nexternalAccess: {enabled: true, service: {type: NodePort}}\nlisteners: {}\nconfig: |\n"
    found = report({"values.yaml": f"{text}  {{{{- if .Values.x }}}}\n  a=b\n  {{{{- end }}}}\n"})
    assert (found.unreadable, [one.rule for one in found.findings]) == ({}, ["chart-external-access"])
    found = report({"values.yaml": f"{{{{- if .Values.x }}}}\n{text}{{{{- end }}}}\n"})
    assert "is a template" in found.unreadable["values.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "static_resources:\n  listeners:\n    - name: a\n      address: x\n    - name: b\n      address: y\n",
        "- name: wait\n  command: kafka-topics --bootstrap-server k:9092 --command-config client.properties\n"
        "  listeners: x\n  entries:\n  - name: again\n",
    ],
)
def test_yaml_of_another_program_is_not_read_as_properties(text: str) -> None:
    assert list(report({"envoy.yaml": text}).findings) == []


def test_connectors_of_debezium_1_get_a_note() -> None:
    text = """{"config": {"connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "database.server.name": "shop", "database.history.kafka.bootstrap.servers": "kafka:9092"}}"""
    read = report({"register.json": text})
    assert {(one.rule, one.severity) for one in read.findings} == {("connector-setting-renamed", Severity.NOTE)}
    both = text.replace('"database.server.name": "shop"', '"database.server.name": "shop", "topic.prefix": "shop"')
    assert [one.text.partition(" ")[0] for one in wrong(report({"register.json": both}))] == [
        "database.history.kafka.bootstrap.servers"
    ]


def test_a_command_that_starts_a_broker_is_judged() -> None:
    """Unlike one for tools: see the healthy files."""
    text = (
        "services:\n  kafka:\n    image: confluentinc/cp-kafka:7.9.0\n    command: sh -c /etc/confluent/docker/run\n"
        "    environment:\n      KAFKA_BROKER_ID: 1\n      KAFKA_ZOOKEEPER_CONNECT: zk:2181\n"
    )
    assert "variable-missing" in {one.rule for one in wrong(report({"compose.yml": text}))}


_TWO_LISTENERS = """
services:
  zookeeper: {image: wurstmeister/zookeeper}
  kafka:
    image: wurstmeister/kafka:2.13-2.8.1
    ports: ["9092:9092", "9093:9093"]
    environment:
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_LISTENERS: INTERNAL://:9092,EXTERNAL://:9093
      KAFKA_ADVERTISED_LISTENERS: INTERNAL://:9092,EXTERNAL://:9093
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: INTERNAL
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
"""


def test_the_listener_between_brokers_gets_the_containers_name() -> None:
    read = report({"compose.yml": _TWO_LISTENERS})
    found = [str(one.corrected_lines(read.sources)) for one in read.findings if one.rule == "canonical-host-name"]
    assert [re.findall(r"//(\w*):909", lines) for lines in found] == [["", "localhost"], ["kafka", ""]]


@pytest.mark.parametrize("name", ["KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_HEAP_OPTS"])
def test_each_variable_with_options_of_java_may_name_the_jaas_file(name: str) -> None:
    text = _TWO_LISTENERS.replace(
        "EXTERNAL:PLAINTEXT", "EXTERNAL:SASL_PLAINTEXT\n      KAFKA_SASL_ENABLED_MECHANISMS: PLAIN"
    )
    option = f"      {name}: -Djava.security.auth.login.config=/etc/kafka/jaas.conf\n"
    assert "sasl-jaas-missing" in {one.rule for one in wrong(report({"compose.yml": text}))}
    assert "sasl-jaas-missing" not in {one.rule for one in wrong(report({"compose.yml": text + option}))}


def test_an_image_of_ones_own_counts_with_what_its_variables_say() -> None:
    text = changed(PLAIN, "image: apache/kafka:4.0.0", "build: .")
    app = "  app: {image: app, environment: {BOOTSTRAP_SERVERS: kafka:9092}}\n"
    found = report({"compose.yml": text + app})
    assert [one.rule for one in found.findings] == ["loopback-advertised"]
    assert list(found.unchecked) == ["compose.yml: service kafka: what its own image sets"]


@pytest.mark.parametrize(("tag", "is_read"), [("2.13-2.8.1", True), ("latest", True), ("3.1.0", False)])
def test_the_old_setting_for_the_advertised_host(tag: str, is_read: bool) -> None:
    text = f"""
    services:
      zookeeper: {{image: wurstmeister/zookeeper}}
      kafka:
        image: wurstmeister/kafka:{tag}
        hostname: kafka
        ports: ["9092:9092"]
        environment: {{KAFKA_ADVERTISED_HOST_NAME: kafka, KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181}}
    """
    assert ("container-name-advertised" in shown(report({"compose.yml": text}))) is is_read


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ('{name: KAFKA_SSL_KEYSTORE_PASSWORD, value: "a${bcd}e$f"}', False),
        ('{name: KAFKA_SSL_KEYSTORE_PASSWORD, value: "${SECRET}"}', True),
        ('{name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://${HOSTNAME}:9092"}', True),
        ('{name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$SECRET:9092"}', True),
        ('{name: KAFKA_ADVERTISED_LISTENERS, value: "PLAINTEXT://$(SECRET):9092"}', False),
    ],
)
def test_a_part_of_a_password_is_no_variable_of_kubernetes(variable: str, found: bool) -> None:
    text = f"""
    apiVersion: v1
    kind: Pod
    metadata: {{name: kafka}}
    spec:
      containers:
        - name: kafka
          image: confluentinc/cp-kafka:7.9.0
          env: [{{name: SECRET, valueFrom: {{secretKeyRef: {{name: a, key: b}}}}}},
            {{name: KAFKA_LISTENERS, value: "PLAINTEXT://:9092"}}, {variable}]
    """
    findings = shown(report({"kafka.yaml": text}))
    assert ("kubernetes-dollar" in findings) is found
    assert "bcd" not in findings


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ("zk1: {image: a/b}", True),
        ("x: {image: bitnami/zookeeper:3.8}", True),
        ("x: {image: 'registry.example:5000/cp-zookeeper'}", True),
        ("ui: {image: a/zookeeper-exporter}", False),
    ],
)
def test_what_is_zookeeper(service: str, found: bool) -> None:
    text = _TWO_LISTENERS.replace("zookeeper: {image: wurstmeister/zookeeper}", service).replace(
        "zookeeper:2181", "localhost:2181"
    )
    assert ("zookeeper-loopback" in shown(report({"compose.yml": text}))) is found
