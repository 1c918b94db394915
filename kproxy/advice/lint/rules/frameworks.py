"""Rules for the files of Spring and Quarkus: names that the framework does not know, and stores for TLS without TLS.

Sources: `KafkaProperties` of Spring Boot, `KafkaBinderConfigurationProperties` of Spring Cloud Stream's binder, the
guide of Quarkus for Kafka (quarkus.io/guides/kafka).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.rules import jaas
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.value import ConfigValue
from kproxy.base.diagnostic import Severity
from kproxy.base.faults import Fault

_SPRING = r"spring\.kafka\.(?:(?:consumer|producer|admin|streams)\.)?"
_BINDER = r"spring\.cloud\.stream\.kafka\."
_IGNORED = "The framework ignores a name that it does not know, and the client has Kafka's default."
# A wrong name, and the right one.
_NAMES = tuple(
    (re.compile(rf"((?:.*\.)?){wrong}"), rf"\g<1>{right}")
    for wrong, right in (
        (rf"({_SPRING})bootstrap(?:\.servers?|-server)", r"\g<2>bootstrap-servers"),
        (rf"({_SPRING})(sasl\..+)", r"\g<2>properties.\g<3>"),
        (rf"{_BINDER}binders\.(.+)", r"spring.cloud.stream.kafka.binder.\g<2>"),
        (r"quarkus\.kafka\.bootstrap[.-]servers", "kafka.bootstrap.servers"),
    )
)
_STORE = re.compile(rf"{_SPRING}ssl\.(?:trust|key)-?store-?(?:location|certificates|key)", re.IGNORECASE)
_MODULE = re.compile(r"spring\.(?:kafka|cloud\.stream\.kafka\.binder)\.jaas\.login-?module", re.IGNORECASE)
_SERVERS = re.compile(r"spring\.(?:kafka\.(?:.*\.)?bootstrap-servers|cloud\.stream\.kafka\.(?:.*\.)?brokers)")
_PROTOCOL = re.compile(r"security[.-]?protocol|ssl\.bundle$")
# The frameworks pass these names on to Kafka as they are.
_PASSED_ON = re.compile(r"(spring\..*\.(?:properties|configuration)\.)((?:bootstrap|security|sasl|ssl)[.-].+)")


def check(source: SourceFile, values: Mapping[str, ConfigValue]) -> Iterator[LintDiagnostic]:
    """Report settings that the framework does not know, and what it passes on to Kafka in vain."""
    yield from _check_stores(source, values)
    for key, value in values.items():
        right = _right_name(key)
        if right != key:
            above = key.removesuffix(value.key)  # the keys of YAML that the name is below
            edits = value.rename_key(right.removeprefix(above)) if right.startswith(above) else None
            text = f"the framework does not know {key}; it knows {right}"
            yield finding("client-setting-spelling", value, source, text, edits, right, why=_IGNORED)
        if _MODULE.fullmatch(key) and (wanted := jaas.right_class(value.text)):
            yield finding("jaas-module", value, source, jaas.no_class(value.text), value.replace(wanted))


def _check_stores(source: SourceFile, values: Mapping[str, ConfigValue]) -> Iterator[LintDiagnostic]:
    """Report stores for TLS in a file of Spring without a protocol, where something else shows that TLS is wanted."""
    store = next((value for key, value in values.items() if _STORE.fullmatch(key)), None)
    servers = [value.text for key, value in values.items() if _SERVERS.fullmatch(key)]
    is_wanted = any(re.search(r":(9093|9094|443)\b", text) for text in servers) or "spring.kafka.ssl.protocol" in values
    if store is None or not servers or not is_wanted or any(map(_PROTOCOL.search, values)):
        return
    text = f"{store.key} is set, but security.protocol is missing, which means PLAINTEXT"
    line, why, fault = "spring.kafka.security.protocol=SSL", "The client uses no TLS.", Fault.PLAINTEXT_TO_TLS
    yield finding("client-protocol", store, source, text, None, line, severity=Severity.WARNING, fault=fault, why=why)


def _right_name(key: str) -> str:
    passed = _PASSED_ON.fullmatch(key)
    if passed is not None:
        return passed[1] + passed[2].replace("-", ".")
    return next((match.expand(right) for wrong, right in _NAMES if (match := wrong.fullmatch(key))), key)
