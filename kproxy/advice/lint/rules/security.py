"""Rules for SASL and TLS of a broker's listeners. They look at which settings exist, and never show a secret."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.advice.lint.endpoint import ListenerEndpoint
from kproxy.advice.lint.findings import LintFinding
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.listeners import line_of, set_or_add
from kproxy.advice.lint.rules.table import new_finding
from kproxy.advice.lint.source import SourceLocation
from kproxy.advice.lint.value import ConfigValue

_ENABLED = "sasl.enabled.mechanisms"
_BETWEEN = "sasl.mechanism.inter.broker.protocol"
_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.engine.factory.class")


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintFinding]:
    if not broker.complete:
        return
    sasl = [one for one in broker.listeners if broker.protocol(one.name).startswith("SASL_")]
    tls = [one for one in broker.listeners if broker.protocol(one.name).endswith("SSL")]
    if sasl:
        yield from mechanisms(broker, sasl)
        yield from jaas(broker, sasl)
    missing = [one.name for one in tls if not _keystore(broker, one)]
    if missing and broker.family is not ImageFamily.BITNAMI:
        at = _at(broker)
        text = f"{', '.join(missing)} has TLS, but ssl.keystore.location is missing"
        line = line_of(broker, "ssl.keystore.location", "<path of the key store>")
        yield new_finding("ssl-keystore-missing", at, broker.name, text, None, line)


def _at(broker: BrokerConfig) -> ConfigValue | SourceLocation:
    keys = ("listeners", "listener.security.protocol.map", "advertised.listeners")
    return next((broker.settings[key] for key in keys if key in broker.settings), broker.location)


def _keystore(broker: BrokerConfig, one: ListenerEndpoint) -> bool:
    prefix = f"listener.name.{one.name.lower()}."
    if broker.service is not None and "KAFKA_SSL_KEYSTORE_FILENAME" in broker.service.environment:
        return True
    return any(f"{prefix}{key}" in broker.settings or key in broker.settings for key in _KEYSTORES)


def mechanisms(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintFinding]:
    kerberos = "sasl.kerberos.service.name" in broker.settings
    without = [one for one in sasl if not broker.mechanisms(one.name) and one.name not in broker.controller_names]
    if without and not kerberos:
        likely = _likely(broker)
        edits = set_or_add(broker, _ENABLED, likely, "listener.security.protocol.map", "listeners") if likely else None
        text = f"{without[0].name} has SASL, but {_ENABLED} is missing"
        yield new_finding(
            "sasl-mechanism-missing",
            _at(broker),
            broker.name,
            text,
            edits,
            line_of(broker, _ENABLED, likely or "SCRAM-SHA-512"),
        )
    between = next((one for one in sasl if one.name == broker.inter_broker), None)
    if between is None or not broker.is_broker:
        return
    enabled = broker.mechanisms(between.name)
    mechanism = (broker.get(_BETWEEN) or "GSSAPI").upper()
    if enabled and mechanism not in enabled and "{" not in mechanism:
        edits = set_or_add(broker, _BETWEEN, enabled[0], _ENABLED, "inter.broker.listener.name")
        said = f"is {mechanism}" if broker.get(_BETWEEN) else "is missing, which means GSSAPI"
        text = f"{_BETWEEN} {said}, but {between.name} has {', '.join(enabled)}"
        at = broker.settings.get(_BETWEEN) or broker.settings.get(_ENABLED) or _at(broker)
        yield new_finding("inter-broker-mechanism", at, broker.name, text, edits, line_of(broker, _BETWEEN, enabled[0]))


def _likely(broker: BrokerConfig) -> str:
    """The mechanism for which there is a JAAS entry, or with which brokers log in."""
    if broker.get(_BETWEEN):
        return broker.get(_BETWEEN)
    found_ = [
        key.split(".")[-4] for key in broker.settings if key.endswith(".sasl.jaas.config") and key.count(".") >= 5
    ]
    return found_[0].upper() if found_ else ""


def jaas(broker: BrokerConfig, sasl: list[ListenerEndpoint]) -> Iterator[LintFinding]:
    """An entry for each listener and mechanism, or a file that KAFKA_OPTS names."""
    service = broker.service
    if broker.family is ImageFamily.PROPERTIES or broker.family is ImageFamily.BITNAMI:
        return  # the file may be in KAFKA_OPTS, and Bitnami's image makes it
    options = service.environment.get("KAFKA_OPTS") if service is not None else None
    if options is not None and ("java.security.auth.login.config" in options.text or not options.is_known):
        return
    for one in sasl:
        prefix = f"listener.name.{one.name.lower()}."
        entries = [key for key in broker.settings if key.startswith(prefix) and key.endswith("sasl.jaas.config")]
        if not entries and "sasl.jaas.config" not in broker.settings:
            mechanism = next(iter(broker.mechanisms(one.name)), "SCRAM-SHA-512").lower()
            key = f"{prefix}{mechanism}.sasl.jaas.config"
            text = f"{one.name} has SASL, but there is no JAAS entry for it"
            line = f"{broker.variable_for(key)}: <login module> required …;"
            yield new_finding("sasl-jaas-missing", _at(broker), broker.name, text, None, line)
