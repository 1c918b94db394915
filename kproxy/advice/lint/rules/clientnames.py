"""Rules for the names of clients' settings: those of the other library, and the types of stores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.client import ClientConfig, ClientLibrary
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.images import words
from kproxy.advice.lint.rules.table import finding
from kproxy.base.diagnostic import Severity

# What one library has and the other has not, among the settings of connections and logins. The tests ask both.
JAVA_ONLY = words("""
    sasl.jaas.config sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.truststore.certificates ssl.keystore.type
    ssl.keystore.key ssl.keystore.certificate.chain ssl.enabled.protocols ssl.protocol
""")
LIBRDKAFKA_ONLY = words("""
    sasl.mechanisms sasl.username sasl.password sasl.kerberos.keytab sasl.kerberos.principal ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem enable.ssl.certificate.verification
""")
# These show which library reads the file; none of them is about a connection.
_JAVA_SIGNS = re.compile(
    r"(key|value)\.(de)?serializer|(key|value)\.converter|partitioner\.class|interceptor\.classes"
    r"|partition\.assignment\.strategy|client\.dns\.lookup|key\.deserializer"
)
_LIBRDKAFKA_SIGNS = words("""
    metadata.broker.list message.timeout.ms queue.buffering.max.messages queue.buffering.max.ms socket.timeout.ms debug
    socket.keepalive.enable broker.address.family log_level statistics.interval.ms batch.num.messages
    request.required.acks enable.partition.eof queued.min.messages queued.max.messages.kbytes fetch.error.backoff.ms
    api.version.request broker.version.fallback message.send.max.retries topic.metadata.refresh.interval.ms
    reconnect.backoff.jitter.ms log.connection.close
""")
_MEANT = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.kerberos.keytab": "sasl.jaas.config",
    "sasl.kerberos.principal": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "enable.ssl.certificate.verification": "ssl.endpoint.identification.algorithm for the name only",
}
# Settings of Confluent's serializers, which librdkafka and the programs beside it do not know in its own file.
_REGISTRY = re.compile(r"schema\.registry\..+|basic\.auth\..+")
_PEM = re.compile(r".+\.(pem|crt|cer|cert)", re.IGNORECASE)


def check(client: ClientConfig) -> Iterator[LintDiagnostic]:
    if "brokers" in client.settings:
        return  # a program with names of its own, such as Redpanda Console
    java = [key for key in JAVA_ONLY if key in client.settings]
    librdkafka = [key for key in LIBRDKAFKA_ONLY if key in client.settings]
    library = client.library
    if library is ClientLibrary.UNKNOWN and client.container is None:
        library = _likely_library(client)
    if library is ClientLibrary.UNKNOWN:
        yield from _check_mixture(client, java, librdkafka)
    elif library is ClientLibrary.JAVA:
        yield from _check_java(client, librdkafka)
    else:
        for key in java:
            value = client.settings[key]
            line = f"{_MEANT[key]} instead" if key in _MEANT else "(without this line)"
            text = f"{value.key} is a setting of Java's clients, which librdkafka refuses"
            yield finding("foreign-setting", value, client, text, None, line)
        yield from _check_registry(client)
    if library is not ClientLibrary.LIBRDKAFKA:
        yield from _check_stores(client)
        yield from _check_passwords(client)


def _check_registry(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Report settings of a Schema Registry in a file that librdkafka itself reads."""
    if client.library is ClientLibrary.LIBRDKAFKA and client.container is None:
        for key, value in client.settings.items():
            if _REGISTRY.fullmatch(key):
                text = f"{value.key} is a setting of a serializer, which librdkafka refuses"
                edits, why = value.remove(), "librdkafka refuses a file with a setting that it does not know."
                yield finding("foreign-setting", value, client, text, edits, "(without this line)", why=why)


def _check_passwords(client: ClientConfig) -> Iterator[LintDiagnostic]:
    """Report the password of a PEM store: only its key may have one (`DefaultSslEngineFactory` of Kafka)."""
    for store in ("truststore", "keystore"):
        password, kind = client.settings.get(f"ssl.{store}.password"), client.settings.get(f"ssl.{store}.type")
        if password is not None and password.text and kind is not None and kind.text.strip().upper() == "PEM":
            text = f"{kind.key} is PEM, and {password.key} is set"
            why = "Java's clients refuse a password for a PEM store. A key in it has ssl.key.password."
            yield finding("store-type", password, client, text, password.remove(), "(without this line)", why=why)


def _check_java(client: ClientConfig, librdkafka: list[str]) -> Iterator[LintDiagnostic]:
    if "sasl.jaas.config" in client.settings:
        # A file that both libraries read has both logins, and Java ignores the other one.
        is_only = client.settings["sasl.mechanism"].key.endswith("s") if "sasl.mechanism" in client.settings else False
        kept = "sasl.mechanisms" if is_only else ""
        librdkafka = [key for key in librdkafka if not key.startswith("sasl.") or key == kept]
    if "ssl.truststore.location" in client.settings or "ssl.truststore.certificates" in client.settings:
        librdkafka = [key for key in librdkafka if not key.startswith(("ssl.ca", "enable.ssl"))]
    for key in librdkafka:
        value = client.settings[key]
        text = f"{value.key} is a setting of librdkafka, which Java ignores; Java's is {_MEANT[key]}"
        edits = value.rename_key("sasl.mechanism") if key == "sasl.mechanisms" else None
        yield finding("foreign-setting", value, client, text, edits, _java_line(client, key))


def _java_line(client: ClientConfig, key: str) -> str:
    if _MEANT[key] == "sasl.jaas.config":
        mechanism = client.get("sasl.mechanism").upper()
        module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        if "kerberos" in key or mechanism == "GSSAPI":
            return "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required ...;"
        return f'sasl.jaas.config=org.apache.kafka.common.security.{module} required username="..." password="...";'
    return f"{_MEANT[key]}=..."


def _likely_library(client: ClientConfig) -> ClientLibrary:
    """Tell from the other settings which library reads these; unknown if nothing shows it, or both."""
    logins = [key for key in LIBRDKAFKA_ONLY if key.startswith("sasl.") and key in client.settings]
    if "sasl.jaas.config" in client.settings and not logins:
        return ClientLibrary.JAVA  # librdkafka could not log in
    is_java = any(_JAVA_SIGNS.fullmatch(key) for key in client.settings)
    is_librdkafka = any(key in client.settings for key in _LIBRDKAFKA_SIGNS)
    if is_java != is_librdkafka:
        return ClientLibrary.JAVA if is_java else ClientLibrary.LIBRDKAFKA
    return ClientLibrary.UNKNOWN


def _check_mixture(client: ClientConfig, java: list[str], librdkafka: list[str]) -> Iterator[LintDiagnostic]:
    """Report names of both libraries for one purpose, where nothing shows which library reads them."""
    for purpose in ("sasl", "ssl"):
        javas = [key for key in java if key.startswith(purpose)]
        others = [key for key in librdkafka if key.startswith(purpose)]
        if javas and others:
            value, other = client.settings[javas[0]], client.settings[others[0]]
            text = f"{value.key} is a setting of Java's clients, and {other.key} is one of librdkafka"
            line = f"for Java {_MEANT[others[0]]}, for librdkafka {_MEANT.get(javas[0], 'neither')}"
            yield finding("foreign-setting", value, client, text, None, line, severity=Severity.WARNING)


def _check_stores(client: ClientConfig) -> Iterator[LintDiagnostic]:
    for store in ("truststore", "keystore"):
        value = client.settings.get(f"ssl.{store}.location")
        kind = client.settings.get(f"ssl.{store}.type")
        if value is None or not value.is_known or not _PEM.fullmatch(value.text):
            continue
        if kind is None or (kind.is_known and kind.text.upper() != "PEM"):
            given = "is missing" if kind is None else f"is {kind.text}"
            text = f"ssl.{store}.location looks like a PEM file, but ssl.{store}.type {given}"
            pair = (value.key.replace("location", "type"), "PEM")
            edits = value.insert_after([pair]) if kind is None else kind.replace("PEM")
            yield finding("store-type", value, client, text, edits, f"{pair[0]}=PEM")
