"""Rules for the files of Spring and Quarkus: names of settings that the framework does not know.

Sources: `KafkaProperties` of Spring Boot, `KafkaBinderConfigurationProperties` of Spring Cloud Stream's binder, the
guide of Quarkus for Kafka (quarkus.io/guides/kafka).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.value import ConfigValue

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
# The frameworks pass these names on to Kafka as they are.
_PASSED_ON = re.compile(r"(spring\..*\.(?:properties|configuration)\.)((?:bootstrap|security|sasl|ssl)[.-].+)")


def check(source: SourceFile, values: Mapping[str, ConfigValue]) -> Iterator[LintDiagnostic]:
    """Report the settings of a file whose names the framework does not know."""
    for key, value in values.items():
        right = _right_name(key)
        if right != key:
            above = key.removesuffix(value.key)  # the keys of YAML that the name is below
            edits = value.rename_key(right.removeprefix(above)) if right.startswith(above) else None
            text = f"the framework does not know {key}; it knows {right}"
            yield finding("client-setting-spelling", value, source, text, edits, right, why=_IGNORED)


def _right_name(key: str) -> str:
    passed = _PASSED_ON.fullmatch(key)
    if passed is not None:
        return passed[1] + passed[2].replace("-", ".")
    return next((match.expand(right) for wrong, right in _NAMES if (match := wrong.fullmatch(key))), key)
