"""Rules for SASL and TLS of a broker's listeners. They check which settings exist, and never show a secret."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.advice.lint.endpoint import ListenerEndpoint
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import finding

_LISTENER_KEYS = ("listeners", "listener.security.protocol.map", "advertised.listeners")
_ENABLED = "sasl.enabled.mechanisms"
_INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.engine.factory.class")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    if not broker.complete:
        return
    sasl = [endpoint for endpoint in broker.listeners if broker.protocol(endpoint.name).startswith("SASL_")]
    tls = [endpoint.name for endpoint in broker.listeners if broker.protocol(endpoint.name).endswith("SSL")]
    if sasl:
        yield from check_mechanisms(broker, sasl)
        yield from check_jaas(broker, sasl)
    missing = [name for name in tls if not _has_keystore(broker, name)]
    if missing and broker.family is not ImageFamily.BITNAMI:
        text = f"{', '.join(missing)} has TLS, but ssl.keystore.location is missing"
        line = broker.line("ssl.keystore.location", "<path of the key store>")
        yield finding("ssl-keystore-missing", broker.first_setting(*_LISTENER_KEYS), broker, text, None, line)


def _has_keystore(broker: BrokerConfig, listener: str) -> bool:
    prefix = f"listener.name.{listener.lower()}."
    if broker.container is not None and "KAFKA_SSL_KEYSTORE_FILENAME" in broker.container.environment:
        return True
    return any(f"{prefix}{key}" in broker.settings or key in broker.settings for key in _KEYSTORES)


def check_mechanisms(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintDiagnostic]:
    without = [endpoint for endpoint in broker.for_clients(sasl) if not broker.mechanisms(endpoint.name)]
    if without and "sasl.kerberos.service.name" not in broker.settings:
        likely = _likely_mechanism(broker)
        edits = broker.set_or_add(_ENABLED, likely, "listener.security.protocol.map", "listeners") if likely else None
        text = f"{without[0].name} has SASL, but {_ENABLED} is missing"
        line = broker.line(_ENABLED, likely or "SCRAM-SHA-512")
        yield finding("sasl-mechanism-missing", broker.first_setting(*_LISTENER_KEYS), broker, text, edits, line)
    own = next((endpoint.name for endpoint in sasl if endpoint.name == broker.inter_broker), None)
    if own is None or not broker.is_broker:
        return
    enabled, given = broker.mechanisms(own), broker.get(_INTER_BROKER_MECHANISM).upper()
    if enabled and (given or "GSSAPI") not in enabled and "{" not in given:
        edits = broker.set_or_add(_INTER_BROKER_MECHANISM, enabled[0], _ENABLED, "inter.broker.listener.name")
        phrase = f"is {given}" if given else "is missing, which means GSSAPI"
        text = f"{_INTER_BROKER_MECHANISM} {phrase}, but {own} has {', '.join(enabled)}"
        location = broker.first_setting(_INTER_BROKER_MECHANISM, _ENABLED, *_LISTENER_KEYS)
        line = broker.line(_INTER_BROKER_MECHANISM, enabled[0])
        yield finding("inter-broker-mechanism", location, broker, text, edits, line)


def _likely_mechanism(broker: BrokerConfig) -> str:
    """Return the mechanism that brokers log in with, or that has a JAAS entry; empty if none."""
    entries = [key for key in broker.settings if key.endswith(".sasl.jaas.config") and key.count(".") >= 5]
    return broker.get(_INTER_BROKER_MECHANISM) or next((key.split(".")[-4].upper() for key in entries), "")


def check_jaas(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintDiagnostic]:
    """Check that each SASL listener has a JAAS entry, or KAFKA_OPTS a file with it."""
    if broker.family in (ImageFamily.PROPERTIES, ImageFamily.BITNAMI):
        return  # KAFKA_OPTS may name the file, and Bitnami's image creates it
    options = broker.container.environment.get("KAFKA_OPTS") if broker.container is not None else None
    if options is not None and ("java.security.auth.login.config" in options.text or not options.is_known):
        return
    for endpoint in sasl:
        prefix = f"listener.name.{endpoint.name.lower()}."
        entries = [key for key in broker.settings if key.startswith(prefix) and key.endswith("sasl.jaas.config")]
        if not entries and "sasl.jaas.config" not in broker.settings:
            mechanism = next(iter(broker.mechanisms(endpoint.name)), "SCRAM-SHA-512").lower()
            text = f"{endpoint.name} has SASL, but there is no JAAS entry for it"
            line = f"{broker.variable_for(f'{prefix}{mechanism}.sasl.jaas.config')}: <login module> required …;"
            yield finding("sasl-jaas-missing", broker.first_setting(*_LISTENER_KEYS), broker, text, None, line)
