"""Rules for SASL and TLS of a broker's listeners. They check which settings exist, and never show a secret."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.advice.lint.endpoint import ListenerEndpoint
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.value import ConfigValue

_ENABLED = "sasl.enabled.mechanisms"
_INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.engine.factory.class")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    if not broker.complete:
        return
    sasl = [endpoint for endpoint in broker.listeners if broker.protocol(endpoint.name).startswith("SASL_")]
    tls = [endpoint for endpoint in broker.listeners if broker.protocol(endpoint.name).endswith("SSL")]
    if sasl:
        yield from check_mechanisms(broker, sasl)
        yield from check_jaas(broker, sasl)
    missing = [endpoint.name for endpoint in tls if not _has_keystore(broker, endpoint)]
    if missing and broker.family is not ImageFamily.BITNAMI:
        location = _listener_location(broker)
        text = f"{', '.join(missing)} has TLS, but ssl.keystore.location is missing"
        line = broker.line("ssl.keystore.location", "<path of the key store>")
        yield finding("ssl-keystore-missing", location, broker, text, None, line)


def _listener_location(broker: BrokerConfig) -> ConfigValue | SourceLocation:
    keys = ("listeners", "listener.security.protocol.map", "advertised.listeners")
    return next((broker.settings[key] for key in keys if key in broker.settings), broker.location)


def _has_keystore(broker: BrokerConfig, endpoint: ListenerEndpoint) -> bool:
    prefix = f"listener.name.{endpoint.name.lower()}."
    if broker.service is not None and "KAFKA_SSL_KEYSTORE_FILENAME" in broker.service.environment:
        return True
    return any(f"{prefix}{key}" in broker.settings or key in broker.settings for key in _KEYSTORES)


def check_mechanisms(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintDiagnostic]:
    kerberos = "sasl.kerberos.service.name" in broker.settings
    without = [
        endpoint
        for endpoint in sasl
        if not broker.mechanisms(endpoint.name) and endpoint.name not in broker.controller_names
    ]
    if without and not kerberos:
        likely = _likely_mechanism(broker)
        edits = broker.set_or_add(_ENABLED, likely, "listener.security.protocol.map", "listeners") if likely else None
        text = f"{without[0].name} has SASL, but {_ENABLED} is missing"
        yield finding(
            "sasl-mechanism-missing",
            _listener_location(broker),
            broker,
            text,
            edits,
            broker.line(_ENABLED, likely or "SCRAM-SHA-512"),
        )
    broker_listener = next((endpoint for endpoint in sasl if endpoint.name == broker.inter_broker), None)
    if broker_listener is None or not broker.is_broker:
        return
    enabled = broker.mechanisms(broker_listener.name)
    mechanism = (broker.get(_INTER_BROKER_MECHANISM) or "GSSAPI").upper()
    if enabled and mechanism not in enabled and "{" not in mechanism:
        edits = broker.set_or_add(_INTER_BROKER_MECHANISM, enabled[0], _ENABLED, "inter.broker.listener.name")
        phrase = f"is {mechanism}" if broker.get(_INTER_BROKER_MECHANISM) else "is missing, which means GSSAPI"
        text = f"{_INTER_BROKER_MECHANISM} {phrase}, but {broker_listener.name} has {', '.join(enabled)}"
        location = (
            broker.settings.get(_INTER_BROKER_MECHANISM) or broker.settings.get(_ENABLED) or _listener_location(broker)
        )
        yield finding(
            "inter-broker-mechanism", location, broker, text, edits, broker.line(_INTER_BROKER_MECHANISM, enabled[0])
        )


def _likely_mechanism(broker: BrokerConfig) -> str:
    """Return the mechanism that has a JAAS entry, or that brokers log in with; empty if none."""
    if broker.get(_INTER_BROKER_MECHANISM):
        return broker.get(_INTER_BROKER_MECHANISM)
    mechanisms_ = [
        key.split(".")[-4] for key in broker.settings if key.endswith(".sasl.jaas.config") and key.count(".") >= 5
    ]
    return mechanisms_[0].upper() if mechanisms_ else ""


def check_jaas(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintDiagnostic]:
    """Check that each SASL listener has a JAAS entry, or KAFKA_OPTS a file with it."""
    service = broker.service
    if broker.family is ImageFamily.PROPERTIES or broker.family is ImageFamily.BITNAMI:
        return  # KAFKA_OPTS may name the file, and Bitnami's image creates it
    options = service.environment.get("KAFKA_OPTS") if service is not None else None
    if options is not None and ("java.security.auth.login.config" in options.text or not options.is_known):
        return
    for endpoint in sasl:
        prefix = f"listener.name.{endpoint.name.lower()}."
        entries = [key for key in broker.settings if key.startswith(prefix) and key.endswith("sasl.jaas.config")]
        if not entries and "sasl.jaas.config" not in broker.settings:
            mechanism = next(iter(broker.mechanisms(endpoint.name)), "SCRAM-SHA-512").lower()
            key = f"{prefix}{mechanism}.sasl.jaas.config"
            text = f"{endpoint.name} has SASL, but there is no JAAS entry for it"
            line = f"{broker.variable_for(key)}: <login module> required …;"
            yield finding("sasl-jaas-missing", _listener_location(broker), broker, text, None, line)
