"""What an examination means: one finding for each cause, the first to mend first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kproxy.advice import remedies
from kproxy.base.faults import Fault
from kproxy.client.ask.contents import ClusterContents
from kproxy.inspect.doctor.causes import cause_of
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import Certificate, Examination, OtherListener, PortProtocol
from kproxy.inspect.doctor.report import client_messages
from tests.unit.inspect.doctor.examined import bad, examination, good, identity, key, topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def faults(found: Examination) -> list[str]:
    return [one.fault for one in diagnose(found, NOW) if one.is_error]


def test_nothing_is_wrong() -> None:
    found = examination(good("kafka-1.example:9092", 1, 1), good("kafka-2.example:9092", 2, 2))
    assert faults(found) == []


def test_a_hop_explains_all_that_lies_behind_it() -> None:
    nodes = [bad(f"kafka-{n}.example:9092", "proxy", n, via_failed=True) for n in (1, 2)]
    found = examination(*nodes, bootstrap=(bad("a.example:1", "resolve"),), via=("socks5://p:1",))
    assert faults(found) == [Fault.HOP_FAILED]


def test_one_cause_of_many_addresses_is_said_once() -> None:
    nodes = [bad(f"kafka-{n}.example.com:9092", "resolve", n) for n in range(1, 7)]
    (finding,) = [one for one in diagnose(examination(*nodes), NOW) if one.is_error]
    assert (finding.fault, len(finding.subjects)) == (Fault.NAME_NOT_RESOLVED, 6)
    assert "and 3 more" in finding.text
    assert finding.line == "advertised.listeners=NAME://kafka-1.example.com:9092"
    assert finding.fix


def test_a_bootstrap_server_of_several_that_fails_is_no_problem() -> None:
    servers = (bad("a.example:1", "refused", resolved=("192.0.2.9",)), good("b.example:2", 1))
    found = examination(good("kafka-1.example:9092", 1, 1), bootstrap=servers)
    assert faults(found) == []
    assert next(one.fault for one in diagnose(found, NOW) if not one.is_error) is Fault.PORT_CLOSED


def test_servers_of_different_clusters() -> None:
    other = good("b.example:2", 1, identity=identity(1, "other"))
    found = examination(good("k:1", 1, 1), bootstrap=(good("a.example:1", 1), other))
    assert faults(found) == [Fault.MIXED_BOOTSTRAP]


def test_brokers_with_one_address() -> None:
    found = examination(good("lb.example:9092", 1, 1), good("lb.example:9092", 1, 2))
    assert faults(found) == [Fault.WRONG_NODE, Fault.SAME_ADDRESS_TWICE]


def test_the_listener_that_would_serve() -> None:
    """A client that asked another one has only asked the wrong one: no broker has to change."""
    settings = {
        "listeners": "IN://:29092,OUT://:9092",
        "advertised.listeners": "IN://kafka1:29092,OUT://kafka.example:9094",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_SSL",
    }
    out = good("kafka.example:9094", 1)
    works = OtherListener(out, (good("kafka.example:9094", 1, 1),))
    node = bad("kafka1:29092", "resolve", 1)
    found = examination(node, settings=settings, other_listeners=(works,))
    (finding,) = [one for one in diagnose(found, NOW) if one.is_error]
    assert (finding.fault, finding.symptom) == (Fault.WRONG_LISTENER, Fault.CONTAINER_NAME_ADVERTISED)
    assert finding.fix == ("bootstrap.servers=kafka.example:9094", "security.protocol=SASL_SSL")
    assert "the listener IN." in finding.text

    # It answers, but advertises an address that does not work: then no client here can use it.
    broken = replace(works, nodes=(bad("kafka9:1", "resolve", 1),))
    found = examination(node, settings=settings, other_listeners=(broken,))
    assert faults(found) == [Fault.CONTAINER_NAME_ADVERTISED]


def test_the_cluster_s_own_troubles() -> None:
    contents = ClusterContents("c", -1, (), (topic("t", -1, 1, -1, replicas=(1, 3)),))
    found = examination(good("kafka-1.example:9092", 1, 1), contents=contents)
    assert faults(found) == [Fault.BROKER_MISSING, Fault.NO_CONTROLLER, Fault.NO_LEADER]


def test_an_address_that_works_on_this_machine_only_is_a_note() -> None:
    here = good("localhost:9092", 1, resolved=("127.0.0.1",))
    found = examination(good("localhost:9092", 1, 1), bootstrap=(here,))
    assert faults(found) == []
    assert diagnose(found, NOW)[0].fault is Fault.LOOPBACK_ADVERTISED


def test_a_certificate_that_soon_ends_is_a_note() -> None:
    soon = Certificate(("k",), "CN=ca", NOW - timedelta(days=300), NOW + timedelta(days=7))
    found = examination(good("kafka-1.example:9092", 1, 1, certificate=soon), tls=True)
    assert faults(found) == []
    assert "ends in 7 days" in next(one.text for one in diagnose(found, NOW) if one.fault is Fault.CERTIFICATE_EXPIRED)


@pytest.mark.parametrize(
    ("reason", "more", "found", "fault"),
    [
        ("resolve", {"problem": "… (no answer from DNS)"}, {}, Fault.DNS_SILENT),
        ("resolve", {}, {}, Fault.NAME_NOT_RESOLVED),
        ("refused", {}, {}, Fault.PORT_CLOSED),
        ("timeout", {}, {}, Fault.FILTERED),
        ("unreachable", {"resolved": ("2001:db8::1",)}, {}, Fault.IPV6_ONLY),
        ("unreachable", {"resolved": ("203.0.114.1",)}, {}, Fault.NO_ROUTE),
        ("limit", {}, {}, Fault.TOO_MANY_FILES),
        ("loop", {}, {}, Fault.PROXY_LOOP),
        ("silent", {"protocol": PortProtocol.NOTHING}, {}, Fault.SILENT),
        ("silent", {"protocol": PortProtocol.PROXY}, {}, Fault.NOT_KAFKA),
        ("closed", {"protocol": PortProtocol.CLOSED}, {}, Fault.CLOSED),
        ("closed", {"protocol": PortProtocol.KAFKA_TLS}, {}, Fault.PLAINTEXT_TO_TLS),
        ("closed", {"protocol": PortProtocol.TLS}, {}, Fault.PLAINTEXT_TO_TLS),
        ("upstream-speaks-http", {"protocol": PortProtocol.HTTP}, {}, Fault.NOT_KAFKA),
        ("timeout", {"protocol": PortProtocol.KAFKA}, {"tls": True}, Fault.TLS_TO_PLAINTEXT),
        ("tls-closed", {"protocol": PortProtocol.KAFKA}, {"tls": True}, Fault.TLS_TO_PLAINTEXT),
        ("tls-plaintext", {"protocol": PortProtocol.SSH}, {"tls": True}, Fault.NOT_KAFKA),
        ("tls-name", {}, {"tls": True}, Fault.CERTIFICATE_NAME),
        ("tls-untrusted", {}, {"tls": True}, Fault.CERTIFICATE_UNTRUSTED),
        ("tls-expired", {}, {"tls": True}, Fault.CERTIFICATE_EXPIRED),
        ("tls-version", {}, {"tls": True}, Fault.TLS_VERSION),
        ("tls-client-certificate", {}, {"tls": True}, Fault.CLIENT_CERTIFICATE_MISSING),
        (
            "tls-client-certificate", {}, {"tls": True, "certificate_given": True}, Fault.CLIENT_CERTIFICATE_REFUSED,
        ),
        ("tls", {"protocol": PortProtocol.KAFKA_TLS}, {"tls": True, "certificate_given": True}, Fault.TLS_FAILED),
        ("sasl", {"refused": True}, {"login": "PLAIN"}, Fault.CREDENTIALS_REFUSED),
        ("sasl", {"problem": "SASL: the broker has not enabled PLAIN: …"}, {}, Fault.SASL_MECHANISM),
        ("sasl", {"problem": "SASL: the broker's listener does not support SASL: …"}, {}, Fault.LOGIN_NOT_OFFERED),
        ("sasl", {"problem": "SASL: Kerberos gives no login to …: Clock skew too great"}, {}, Fault.CLOCK),
        ("sasl", {"problem": "SASL: Kerberos gives no login to …: no such key"}, {}, Fault.KERBEROS),
        ("sasl", {"problem": "SASL: the command 'x' ended with code 1"}, {}, Fault.CREDENTIALS_UNREADABLE),
    ],
)  # fmt: skip
def test_why_a_server_cannot_be_used(
    reason: str, more: dict[str, object], found: dict[str, object], fault: Fault
) -> None:
    failed = bad("kafka.example.com:9092", reason, **more)
    examined = examination(bootstrap=(failed,), **found)
    cause = cause_of(failed, examined, NOW)
    assert cause is not None
    assert cause.fault is fault
    assert faults(examined) == [fault]
    assert remedies.remedy_of(fault).fix


def test_a_login_that_is_needed() -> None:
    wants = bad("kafka.example:1", "", wants_login=True, mechanisms=("SCRAM-SHA-512",))
    (finding,) = diagnose(examination(bootstrap=(wants,), answering=None), NOW)
    assert finding.fault is Fault.LOGIN_NEEDED
    assert "sasl.mechanism=SCRAM-SHA-512" in finding.fix


def test_an_address_that_leads_to_others() -> None:
    mixed = good("lb.example:9092", 1, 1, others=(key(2),))
    assert faults(examination(mixed)) == [Fault.MIXING_LOAD_BALANCER]
    elsewhere = good("kafka-1.example:9092", 1, 1, identity=identity(1, "other"))
    assert faults(examination(elsewhere)) == [Fault.WRONG_CLUSTER]
    both = good("a:9092", 1, 1, other_clusters=("other",))
    assert faults(examination(both)) == [Fault.MIXED_CLUSTERS]
    assert not both.is_right


def test_two_clusters_at_a_bootstrap_server_explain_all_else() -> None:
    lost = bad("kafka-2.example:9092", "resolve", 2)
    (finding,) = diagnose(examination(lost, bootstrap=(good("a:9092", 1, other_clusters=("other",)),)))
    assert (finding.fault, finding.line, finding.fix, finding.is_error) == (Fault.MIXED_CLUSTERS, "", (), True)
    assert "different Kafka clusters, with the ids c, other" in finding.text


def test_what_clients_say_has_the_address_that_failed() -> None:
    node = bad("kafka-1.example.com:9092", "resolve", 1)
    (finding,) = [one for one in diagnose(examination(node), NOW) if one.is_error]
    found = dict(reversed(list(client_messages(finding))))
    assert found["librdkafka"] == "Failed to resolve 'kafka-1.example.com:9092': …"
    assert found["kafka-python"] == "DNS lookup failed for kafka-1.example.com:9092"
    assert "bootstrap" not in found["Java"]
    programs = [program for program, _ in client_messages(finding)]
    assert all(programs.count(one) <= 2 for one in programs)


def test_a_load_balancer_whose_turn_was_another_broker_s() -> None:
    mixed = good("lb.example:9092", 2, 1, others=(key(1),))
    (finding,) = [one for one in diagnose(examination(mixed), NOW) if one.is_error]
    assert finding.fault is Fault.MIXING_LOAD_BALANCER
    assert "(broker 2, broker 1)" in finding.text
