"""The lines that mend an advertised address: whole, linted, and for each broker its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import SourceFile
from kproxy.base.address import Address
from kproxy.base.faults import Fault
from kproxy.inspect.doctor import lint_check
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.findings import DoctorDiagnostic
from tests.harness.clusters.pasted import bootstrap, by_broker, pasted
from tests.unit.inspect.doctor.examined import bad, examination, good, key, told

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@kafka-1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://kafka-1:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
"""The broker of KRaft's own example, which is its controller too."""


def separate(node: int) -> dict[str, str]:
    """A broker that is not its controller: only the map names the controllers' listener."""
    return {
        "process.roles": "broker",
        "node.id": str(node),
        "controller.quorum.voters": "9@controller:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "IN://:29092,OUT://:9092",
        "advertised.listeners": f"IN://inner-{node}:29092,OUT://kafka-{node}:9092",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "ssl.keystore.location": "/keys/broker.p12",
    }


def examined(
    settings: Mapping[int, Mapping[str, str | None]],
    here: dict[int, str],
    *nodes: Contact,
    answering: str = "",
    **more: Any,
) -> Examination:
    """Brokers with these settings, that are reached at these addresses. The first of these was asked."""
    contacts = nodes or [bad(f"kafka-{node}:9092", "resolve", node) for node in (settings or here)]
    server = answering or next(iter(here.values()))
    return examination(
        *contacts,
        bootstrap=(good(server, next(iter(here))),),
        broker_settings={key(node): told(dict(values)) for node, values in settings.items()},
        working_addresses={key(node): Address.parse(address) for node, address in here.items()},
        settings=settings.get(next(iter(here))),
        **more,
    )


def first(found: Examination) -> DoctorDiagnostic:
    return next(one for one in diagnose(found) if one.is_error)


def is_right(files: dict[str, dict[str, str]]) -> bool:
    """Assert that `kproxy lint` finds no mistake in these files together."""
    text = ["".join(f"{name}={value}\n" for name, value in file.items()) for file in files.values()]
    report = lint([SourceFile(f"{name}.properties", one) for name, one in zip(files, text, strict=True)])
    assert not [one.text for one in report.findings if one.severity.value != "note"]
    return True


def test_the_listener_of_the_controllers_stays() -> None:
    finding = first(examined({1: COMBINED}, {1: "farm.example:9092"}))
    assert finding.fault is Fault.CONTAINER_NAME_ADVERTISED
    lines = by_broker(finding.fix)["broker 1"]
    assert lines == {
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
        "advertised.listeners": "PLAINTEXT://kafka-1:9092,EXTERNAL://farm.example:9094",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT",
    }
    assert is_right({"broker-1": pasted(COMBINED, lines)})
    assert finding.fix[0].startswith("# server.properties: each in the place of the line that is there")
    assert not any("Apache's image has no defaults" in line for line in finding.fix)
    assert bootstrap(finding.fix, "") == "farm.example:9094"
    assert any("clients reach port 9094 of broker 1 at farm.example:9094" in line for line in finding.fix)


def test_settings_that_are_nowhere_set() -> None:
    """Kafka's default map has the controllers' listener as PLAINTEXT; a map that is set must name it."""
    values = {**COMBINED, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL"}
    del values["advertised.listeners"], values["inter.broker.listener.name"]
    lines = by_broker(first(examined({1: values}, {1: "farm.example:9092"})).fix)["broker 1"]
    assert lines["advertised.listeners"] == "PLAINTEXT://kafka-1:9092,EXTERNAL://farm.example:9094"
    assert lines["listener.security.protocol.map"].endswith(",CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT")
    assert "inter.broker.listener.name" not in lines
    assert is_right({"broker-1": pasted(values, lines)})


def test_three_brokers_behind_three_forwards() -> None:
    settings = {node: separate(node) for node in (1, 2, 3)}
    finding = first(
        examined(settings, {node: f"localhost:1909{node}" for node in (1, 2, 3)}, answering="localhost:19091")
    )
    lines = by_broker(finding.fix)
    files = {name: pasted(settings[int(name[-1])], one) for name, one in lines.items()}
    assert list(files) == ["broker 1", "broker 2", "broker 3"]
    assert is_right(files)
    for node in (1, 2, 3):
        mended = lines[f"broker {node}"]
        assert mended["advertised.listeners"] == (
            f"IN://inner-{node}:29092,OUT://kafka-{node}:9092,EXTERNAL://localhost:1909{node}"
        )
        assert mended["listener.security.protocol.map"] == "IN:PLAINTEXT,OUT:SSL,CONTROLLER:PLAINTEXT,EXTERNAL:SSL"
        assert f"# and let localhost:1909{node} lead to port 9094 of broker {node}, in the place of port 9092" in (
            finding.fix
        )
    assert bootstrap(finding.fix, "as before") == "as before"
    assert finding.fix[0].startswith("# these lines serve clients on this machine only")


def test_brokers_on_one_machine_get_ports_of_their_own() -> None:
    settings = {
        node: {**separate(node), "listeners": f"IN://127.0.0.1:2909{node},OUT://127.0.0.1:909{node}",
               "advertised.listeners": f"IN://127.0.0.1:2909{node},OUT://kafka-{node}:9092"}
        for node in (1, 2, 3, 4)
    }  # fmt: skip
    fix = first(examined(settings, {node: f"farm.example:909{node}" for node in settings})).fix
    told_ports = [one["listeners"].rpartition("OUT")[2] for one in by_broker(fix).values()]
    assert told_ports == [f"://127.0.0.1:909{n},EXTERNAL://127.0.0.1:{p}" for n, p in
                          ((1, 9095), (2, 9096), (3, 19094), (4, 9097))]  # fmt: skip


def test_a_broker_that_was_not_reached() -> None:
    finding = first(examined({1: separate(1)}, {1: "farm.example:9092"},
                             *[bad(f"kafka-{node}:9092", "resolve", node) for node in (1, 2, 3)]))  # fmt: skip
    lines = by_broker(finding.fix)
    assert lines["broker 1"]["advertised.listeners"].endswith(",EXTERNAL://farm.example:9094")
    assert (
        lines["broker 2"]
        == lines["broker 3"]
        == {
            "listeners": "…,EXTERNAL://:9094",
            "advertised.listeners": "…,EXTERNAL://HOST:9094",
            "listener.security.protocol.map": "…,EXTERNAL:SSL",
        }
    )
    assert any("broker 2, broker 3: kproxy did not get there" in line for line in finding.fix)
    assert any("for each another host or port" in line for line in finding.fix)


def test_settings_that_this_user_may_not_see() -> None:
    here = {1: "a.example:9092", 2: "b.example:9092"}
    finding = first(examined({}, here))
    lines = by_broker(finding.fix)
    assert lines["broker 2"]["advertised.listeners"] == "…,EXTERNAL://b.example:9094"
    assert any("this user may not see the settings (that needs DescribeConfigs" in line for line in finding.fix)
    assert is_right({f"broker-{node}": pasted(separate(node), lines[f"broker {node}"]) for node in (1, 2)})
    assert bootstrap(finding.fix, "") == "a.example:9094,b.example:9094"


def test_a_listener_that_only_this_client_needs() -> None:
    """localhost, told to clients of the port that is published: only the address changes, and only there."""
    values = {**COMBINED, "listeners": "PLAINTEXT://:29092,HOST://:9092,CONTROLLER://:9093",
              "advertised.listeners": "PLAINTEXT://kafka-1:29092,HOST://localhost:9092",
              "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT"}  # fmt: skip
    node = bad("localhost:9092", "refused", 1)
    finding = first(examined({1: values}, {1: "farm.example:9092"}, node))
    assert finding.fault is Fault.LOOPBACK_ADVERTISED
    lines = by_broker(finding.fix)["broker 1"]
    assert lines == {"advertised.listeners": "PLAINTEXT://kafka-1:29092,HOST://farm.example:9092"}
    assert is_right({"broker-1": pasted(values, lines)})
    assert bootstrap(finding.fix, "same") == "same"

    # It stays where brokers use it, where two have the address, and where no other machine would reach the new one.
    inner = {**values, "inter.broker.listener.name": "HOST"}
    twice = {**values, "advertised.listeners": "PLAINTEXT://kafka-1:1,TWO://localhost:9092,HOST://localhost:9092",
             "listeners": f"{values['listeners']},TWO://:2", "listener.security.protocol.map":
             f"{values['listener.security.protocol.map']},TWO:PLAINTEXT"}  # fmt: skip
    for settings, here in (
        (inner, "farm.example:9092"), (twice, "farm.example:9092"), (values, "127.0.0.1:19092")
    ):  # fmt: skip
        lines = by_broker(first(examined({1: settings}, {1: here}, node)).fix)["broker 1"]
        assert "HOST://localhost:9092,EXTERNAL://" in lines["advertised.listeners"]


def test_one_broker_of_three_that_is_wrong() -> None:
    nodes = [bad("kafka-1:9092", "resolve", 1), *[good(f"kafka-{node}:9092", node, node) for node in (2, 3)]]
    settings = {node: separate(node) for node in (1, 2, 3)}
    here = {1: "a.example:9092", 2: "kafka-2:9092", 3: "kafka-3:9092"}
    lines = by_broker(first(examined(settings, here, *nodes)).fix)
    assert lines == {"broker 1": {"advertised.listeners": "IN://inner-1:29092,OUT://a.example:9092"}}

    # Not where brokers use it: then all get one more listener, as brokers without it are not there for its clients.
    settings = {node: {**one, "inter.broker.listener.name": "OUT"} for node, one in settings.items()}
    lines = by_broker(first(examined(settings, here, *nodes)).fix)
    assert [one["advertised.listeners"].rpartition(",")[2] for one in lines.values()] == [
        "EXTERNAL://a.example:9094", "EXTERNAL://kafka-2:9094", "EXTERNAL://kafka-3:9094",
    ]  # fmt: skip


def test_an_address_that_is_right_for_this_machine_alone() -> None:
    here = examined({1: COMBINED | {"advertised.listeners": "PLAINTEXT://localhost:9092"}}, {1: "localhost:9092"},
                    good("localhost:9092", 1, 1))  # fmt: skip
    (note,) = diagnose(here)
    assert not note.is_error
    assert by_broker(note.fix)["broker 1"]["advertised.listeners"] == "PLAINTEXT://localhost:9092,EXTERNAL://HOST:9094"


def test_an_address_behind_a_hop_is_none_for_this_machine() -> None:
    fix = first(examined({1: COMBINED}, {1: "farm.example:9092"}, via=("ssh://bastion",))).fix
    assert by_broker(fix)["broker 1"]["advertised.listeners"].endswith(",EXTERNAL://HOST:9094")
    assert bootstrap(fix, "") == "HOST:9094"

    settings = {node: separate(node) for node in (1, 2)}
    fix = first(examined(settings, {1: "a.example:9092", 2: "b.example:9092"}, via=("ssh://bastion",))).fix
    told_addresses = [one["advertised.listeners"].rpartition(",")[2] for one in by_broker(fix).values()]
    assert told_addresses == ["EXTERNAL://HOST-1:9094", "EXTERNAL://HOST-2:9094"]
    assert bootstrap(fix, "") == "HOST-1:9094,HOST-2:9094"


def test_settings_of_one_listener_alone() -> None:
    own = {"listener.name.out.ssl.keystore.location": "/keys/out.p12", "listener.name.out.ssl.keystore.password": None}
    values = {name: value for name, value in separate(1).items() if name != "ssl.keystore.location"}
    found = examined({1: values}, {1: "farm.example:9092"})
    finding = first(replace(found, broker_settings={key(1): told({**values, **own})}))
    lines = by_broker(finding.fix)["broker 1"]
    assert lines["listener.name.external.ssl.keystore.location"] == "/keys/out.p12"
    assert "listener.name.external.ssl.keystore.password" not in lines
    said = "with the values of listener.name.out.ssl.keystore.password, which kproxy does not show"
    assert any(said in line for line in finding.fix)
    assert is_right({"broker-1": pasted({**values, "listener.name.out.ssl.keystore.location": "/keys/out.p12"}, lines)})


def test_lines_that_lint_refuses_are_not_printed() -> None:
    """The listener has TLS, and nothing shows where its certificate is."""
    values = {name: value for name, value in separate(1).items() if name != "ssl.keystore.location"}
    without = {**values, "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    worse = lint_check.mistakes({"broker 1": without}, {"broker 1": values})
    assert worse == {"broker 1": ["OUT has TLS, but ssl.keystore.location is missing"]}
    taken = {**COMBINED, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}
    assert lint_check.mistakes({"broker 1": taken}, {"broker 1": taken}) == {}


def test_a_mistake_in_the_form_of_the_print_counts() -> None:
    """A variable that its image does not read is no mistake in a file of properties."""
    before = {"broker 1": {"listeners": "A://:9092", "advertised.listeners": "A://kafka-1:9092", "node.id": "1"}}
    after = {"broker 1": {**before["broker 1"], "advertised.listeners": "A://0.0.0.0:9092"}}
    found = lint_check.mistakes_of_variables(before, after, "confluentinc/cp-kafka", "KAFKA_")
    assert list(found) == ["broker 1"]
    assert lint_check.mistakes_of_variables(after, after, "confluentinc/cp-kafka", "KAFKA_") == {}
    assert lint_check.mistakes_of_variables({}, {}, "bitnami/kafka", "KAFKA_CFG_") == {}


def test_what_was_tried_of_the_lines_is_printed() -> None:
    whole = first(examined({1: COMBINED}, {1: "farm.example:9092"})).fix
    assert any("kproxy's own lint finds no mistake in these lines; they have not run" in line for line in whole)
    parts = first(examined({}, {1: "farm.example:9092"})).fix
    assert not any("finds no mistake" in line for line in parts)
    assert any("kproxy could not check them" in line for line in parts)


@pytest.mark.parametrize(
    ("host", "port", "service"),
    [
        ("b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com", 9094, "Amazon MSK"),
        ("lkc-1.eu-west-1.aws.confluent.cloud", 9092, "Confluent Cloud"),
    ],
)
def test_addresses_of_a_service_are_not_changed(host: str, port: int, service: str) -> None:
    finding = first(examined({1: COMBINED}, {1: "farm.example:9092"}, bad(f"{host}:{port}", "resolve", 1)))
    assert (finding.fix, finding.line) == ((), "")
    assert f"These are addresses of {service}" in finding.advice


def test_a_dynamic_setting_wins() -> None:
    found = examined({1: COMBINED}, {1: "farm.example:9092"})
    dynamic = told(dict(COMBINED), dynamic=frozenset({"advertised.listeners"}))
    fix = first(replace(found, broker_settings={key(1): dynamic})).fix
    assert any("has advertised.listeners as a dynamic setting" in line for line in fix)


@pytest.mark.parametrize(
    "values",
    [
        {"listeners": "PLAINTEXT://$(reboot):9092"},
        {"listeners": "PLAINTEXT://kafka-1:9092\\nx=y"},
        {"advertised.listeners": "PLAINTEXT://kafka-1:9092,OUT://`id`:1"},
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:$HOME"},
        {"listeners": "PLAINTEXT://:9092," * 5000 + "x"},
        {"listeners": "PLAINTEXT://:99999999"},
        {"listeners": ",".join(f"L{port}://:{port}" for port in range(1, 65536))},
        {"listeners": ""},
    ],
)
def test_settings_that_are_not_copied(values: dict[str, str]) -> None:
    """A broker may say anything; what is printed here is pasted into files and shells."""
    fix = first(examined({1: {**COMBINED, **values}}, {1: "farm.example:9092"})).fix
    assert by_broker(fix)["broker 1"]["listeners"] == "…,EXTERNAL://:9094"
    assert not any(text in line for line in fix for text in ("$", "`", "\n", "x=y"))


def test_a_value_that_is_not_copied() -> None:
    values = separate(1) | {
        "listener.name.out.ssl.truststore.location": "/a; rm -rf $HOME",
        "listener.name.out.$(reboot)": "1", "listener.name.out.a b": None,
    }  # fmt: skip
    fix = first(examined({1: values}, {1: "farm.example:9092"})).fix
    assert not any(text in line for line in fix for text in ("rm -rf", "reboot", "a b"))
    assert any("values of listener.name.out.ssl.truststore.location" in line for line in fix)


@pytest.mark.parametrize(
    ("logs", "image", "prefix"),
    [
        ("/bitnami/kafka/data", "bitnami/kafka:4.0", "KAFKA_CFG_"),
        ("/var/lib/kafka/data", "confluentinc/cp-kafka:7.9.1", "KAFKA_"),
        ("/tmp/kraft-combined-logs", "apache/kafka:4.0.0", "KAFKA_"),
    ],
)
def test_the_variables_of_a_container(logs: str, image: str, prefix: str) -> None:
    """A Compose file of what was printed is right, beside what the broker had; for Apache's image, alone.
    That image keeps its data where Kafka does anyway, so that the lines are properties."""
    values = COMBINED | {"log.dirs": logs, "offsets.topic.replication.factor": "1",
                         "transaction.state.log.replication.factor": "1"}  # fmt: skip
    fix = first(examined({1: values}, {1: "farm.example:9092"})).fix
    printed = by_broker(fix)["broker 1"]
    if image.startswith("apache"):
        assert fix[0].startswith("# server.properties: ")
        (needs,) = [line for line in fix if line.startswith("# Apache's image has no defaults")]
        variables = dict(word.split("=", 1) for word in needs.partition("needs these too: ")[2].split())
        assert variables["KAFKA_PROCESS_ROLES"] == "broker,controller"
        variables |= {_variable(name, prefix): value for name, value in printed.items()}
    else:
        assert fix[0] == "# variables of its container: each in the place of the line that is there, if there is one"
        variables = {_variable(name, prefix): value for name, value in values.items()} | printed
        assert len(variables) == len(values), "a variable has another name"
    lines = "".join(f"      {name}: '{value}'\n" for name, value in variables.items())
    compose = (
        f"services:\n  kafka-1:\n    image: {image}\n    ports: ['9092:9092', '9094:9094']\n    environment:\n"
        f"      CLUSTER_ID: MkU3OEVBNTcwNTJENDM2Qk\n{lines}"
    )
    mistakes = lint([SourceFile("compose.yaml", compose)], LintOptions()).findings
    assert [one.text for one in mistakes if one.severity.value == "error"] == []


def _variable(name: str, prefix: str) -> str:
    return prefix + name.replace(".", "_").upper()


def test_a_cluster_of_strimzi() -> None:
    values = {"listeners": "REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092,EXTERNAL-9094://0.0.0.0:9094"}
    fix = first(examined({1: values}, {1: "farm.example:9092"})).fix
    new = [line for line in fix if not line.startswith("# ")]
    assert new == ["- name: kproxy1", "  port: 9095", "  type: nodeport", "  tls: false"]
    assert lint_check.strimzi([["- {name: PLAIN, port: 9092, type: internal, tls: false}"], new])


def test_the_wrong_line_is_whose_it_is() -> None:
    """The name is right for others: this machine resolves it to itself."""
    node = bad("kafka-1.example:9092", "refused", 1, resolved=("127.0.0.1",))
    finding = first(examined({1: COMBINED}, {1: "farm.example:9092"}, node))
    assert finding.fault is Fault.NAME_RESOLVES_WRONGLY
    assert finding.line == ""


@pytest.mark.parametrize("fault", ["tls-version", "sasl", "limit", "loop"])
def test_what_no_other_address_would_mend(fault: str) -> None:
    found = examined({1: COMBINED}, {1: "farm.example:9092"}, bad("kafka-1:9092", fault, 1, refused=fault == "sasl"))
    finding = first(replace(found, tls=fault == "tls-version"))
    assert (finding.line, finding.fix) == ("", ())


def test_the_same_lines_for_another_cause_are_printed_once() -> None:
    nodes = [bad("kafka:9092", "resolve", node) for node in (1, 2)]
    values = {
        node: separate(node) | {"advertised.listeners": f"IN://inner-{node}:1,OUT://kafka:9092"} for node in (1, 2)
    }
    findings = [
        one for one in diagnose(examined(values, {1: "a.example:9092", 2: "b.example:9092"}, *nodes)) if one.is_error
    ]
    assert [one.fault for one in findings] == [Fault.CONTAINER_NAME_ADVERTISED, Fault.SAME_ADDRESS_TWICE]
    assert findings[0].fix == findings[1].fix


def test_the_examples_are_right() -> None:
    """So only the lines that are printed can be wrong."""
    assert is_right({"broker-1": COMBINED})
    assert is_right({f"broker-{node}": separate(node) for node in (1, 2, 3)})
