"""Rules for SASL and TLS of a broker's listeners. They check which settings exist, and never show a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproxy.advice.lint.endpoint import ListenerEndpoint
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.base.diagnostic import Severity

_LISTENER_KEYS = ("listeners", "listener.security.protocol.map", "advertised.listeners")
_ENABLED = "sasl.enabled.mechanisms"
_INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.engine.factory.class")


_PREFIX = re.compile(r"listener\.name\.(?P<name>[^.]+)\.(?P<rest>.+)")
_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "gssapi", "oauthbearer", "aws_msk_iam")
# kafka-run-class.sh gives Java all of them.
_JAVA_OPTIONS = ("KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    yield from check_prefixes(broker)
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
    if "KAFKA_SSL_KEYSTORE_FILENAME" in broker.environment:
        return True
    return any(f"{prefix}{key}" in broker.settings or key in broker.settings for key in _KEYSTORES)


# In variables of images, each underscore of SCRAM_SHA_512 becomes a dot; three of them are a hyphen.
_DOTTED = re.compile(r"(listener\.name\.[^.]+\.)scram\.sha\.(256|512)\.", re.IGNORECASE)


def check_prefixes(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Check the prefixes of listeners and mechanisms, without which Kafka ignores a setting."""
    names = {endpoint.name for endpoint in broker.listeners} | set(broker.controller_names)
    has_listeners = "listeners" in broker.settings or broker.listeners_derived
    for key, value in list(broker.settings.items()):
        match = _PREFIX.fullmatch(key)
        if match is None:
            if key == "sasl.jaas.config" and not any(other.endswith(f".{key}") for other in broker.settings):
                sasl = next((name for name in names if broker.protocol(name).startswith("SASL_")), "")
                mechanism = next(iter(broker.mechanisms(sasl)), "PLAIN").lower()
                right = f"listener.name.{(sasl or 'NAME').lower()}.{mechanism}.{key}"
                edits = value.rename_key(broker.variable_for(right)) if sasl else None
                text = f"{value.key} has no prefix of a listener and a mechanism"
                yield finding("jaas-prefix-missing", value, broker, text, edits, right)
            continue
        name, (mechanism, _, rest) = match["name"], match["rest"].partition(".")
        is_mechanism = mechanism.lower() in _MECHANISMS
        right = f"listener.name.{name.lower()}.{mechanism.lower() if is_mechanism else mechanism}" + (
            rest and f".{rest}"
        )
        if (dotted := _DOTTED.match(key)) is not None:
            right = f"{dotted[1].lower()}scram-sha-{dotted[2]}.{key[dotted.end() :]}"
            text = f"{value.key} has the mechanism with dots: Kafka reads {right}"
            fix = broker.variable_for(right)
            yield finding("listener-prefix", value, broker, text, value.rename_key(fix), fix)
        elif key != right:
            text = f"{value.key} has capitals in its prefix: Kafka reads {right}"
            yield finding("listener-prefix", value, broker, text, value.rename_key(right), right)
        elif name.upper() not in names and has_listeners and broker.family is ImageFamily.PROPERTIES:
            text = f"{value.key} is for a listener {name.upper()}, but listeners has {', '.join(sorted(names))}"
            yield finding("listener-prefix", value, broker, text, severity=Severity.WARNING)


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
    """Check that each SASL listener has a JAAS entry, or Java's options a file with it."""
    if broker.family in (ImageFamily.PROPERTIES, ImageFamily.BITNAMI):
        return  # KAFKA_OPTS may name the file, and Bitnami's image creates it
    options = [broker.environment[name] for name in _JAVA_OPTIONS if name in broker.environment]
    if any("java.security.auth.login.config" in option.text or not option.is_known for option in options):
        return
    for endpoint in sasl:
        prefix = f"listener.name.{endpoint.name.lower()}."
        entries = [key for key in broker.settings if key.startswith(prefix) and key.endswith("sasl.jaas.config")]
        if not entries and "sasl.jaas.config" not in broker.settings:
            mechanism = next(iter(broker.mechanisms(endpoint.name)), "SCRAM-SHA-512").lower()
            text = f"{endpoint.name} has SASL, but there is no JAAS entry for it"
            line = f"{broker.variable_for(f'{prefix}{mechanism}.sasl.jaas.config')}: <login module> required …;"
            yield finding("sasl-jaas-missing", broker.first_setting(*_LISTENER_KEYS), broker, text, None, line)
