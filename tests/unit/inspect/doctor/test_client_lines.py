"""The settings of a client that a fix has: whole, and without a mistake by kproxy's own lint."""

from __future__ import annotations

import pytest

from kproxy.advice.lint.filekinds import FileKind
from kproxy.advice.lint.linter import LintOptions, lint
from kproxy.advice.lint.source import SourceFile
from kproxy.base.faults import Fault
from kproxy.inspect.doctor.client_versions import ClientVersion
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import ClientIntent, PortProtocol
from tests.unit.inspect.doctor.examined import bad, examination

JAVA = ClientIntent()
RDKAFKA = ClientIntent(client=ClientVersion.parse("librdkafka:2.3.0"))
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


def lines(reason: str, *, intent: ClientIntent = JAVA, tls: bool = False, **more: object) -> list[str]:
    """The fix for a bootstrap server that fails for this reason."""
    server = bad("kafka.example:9093", reason, **more)
    found = diagnose(examination(bootstrap=(server,), answering=None, intent=intent, tls=tls))
    return list(found[0].fix)


def mistakes(fix: list[str]) -> list[str]:
    text = "\n".join(["bootstrap.servers=kafka.example:9093", *fix, ""])
    report = lint([SourceFile("client.properties", text)], LintOptions(kind=FileKind.CLIENT))
    return [finding.text for finding in report.findings if finding.severity.value == "error"]


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("intent", [JAVA, RDKAFKA], ids=["java", "librdkafka"])
def test_a_login(mechanism: str, intent: ClientIntent, tls: bool) -> None:
    fix = lines("", intent=intent, tls=tls, wants_login=True, mechanisms=(mechanism,))
    assert fix[:2] == [f"security.protocol={'SASL_SSL' if tls else 'SASL_PLAINTEXT'}", f"sasl.mechanism={mechanism}"]
    assert any(line.startswith("sasl.jaas.config=") for line in fix) is (intent is not RDKAFKA)
    assert mistakes(fix) == []


def test_a_login_with_one_of_several_mechanisms() -> None:
    fix = lines("", wants_login=True, mechanisms=("GSSAPI", "PLAIN", "SCRAM-SHA-512"))
    assert "sasl.mechanism=SCRAM-SHA-512" in fix
    assert any("GSSAPI, PLAIN, SCRAM-SHA-512" in line for line in fix)


@pytest.mark.parametrize("mechanisms", [None, (), ("X\\x1b[31m",)])
def test_a_login_with_a_mechanism_that_is_not_known(mechanisms: tuple[str, ...] | None) -> None:
    fix = lines("", wants_login=True, mechanisms=mechanisms)
    assert not any(line.startswith("sasl.jaas.config=") for line in fix)
    assert any("administrator knows it" in line for line in fix)


@pytest.mark.parametrize("intent", [JAVA, RDKAFKA], ids=["java", "librdkafka"])
@pytest.mark.parametrize(
    ("reason", "tls", "protocol", "fault"),
    [
        ("tls-untrusted", True, PortProtocol.KAFKA_TLS, Fault.CERTIFICATE_UNTRUSTED),
        ("tls-client-certificate", True, PortProtocol.KAFKA_TLS, Fault.CLIENT_CERTIFICATE_MISSING),
        ("closed", False, PortProtocol.KAFKA_TLS, Fault.PLAINTEXT_TO_TLS),
        ("tls-closed", True, PortProtocol.KAFKA, Fault.TLS_TO_PLAINTEXT),
    ],
)
def test_tls(reason: str, tls: bool, protocol: PortProtocol, fault: Fault, intent: ClientIntent) -> None:
    server = bad("kafka.example:9093", reason, protocol=protocol)
    (finding,) = diagnose(examination(bootstrap=(server,), answering=None, intent=intent, tls=tls))
    assert finding.fault is fault
    settings = [line for line in finding.fix if not line.startswith("openssl")]
    if not any(line.startswith("security.protocol=") for line in settings):
        settings.insert(0, "security.protocol=SSL")
    assert mistakes(settings) == []
    assert any("ssl.truststore" in line for line in settings) <= (intent is not RDKAFKA)
