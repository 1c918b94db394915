"""Rules for containers of programs that use Kafka: the variables that their images require or refuse.

Sources: the `configure` scripts of Confluent's images (github.com/confluentinc/kafka-images, schema-registry-images,
kafka-rest-images, ksql-images), Debezium's `docker-entrypoint.sh` (github.com/debezium/container-images), and the
README of Kafdrop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from kproxy.advice.lint.container import Container
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.value import ConfigValue

# The variables without which a container ends at once, by the name of its image. One of several suffices (`|`).
_REQUIRED = (
    ("confluentinc/cp-(kafka|server)-connect(-base)?", "CONNECT_BOOTSTRAP_SERVERS"),
    (
        "(confluentinc/cp-|confluent/)schema-registry",
        "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS|SCHEMA_REGISTRY_KAFKASTORE_CONNECTION_URL",
    ),
    ("confluentinc/cp-kafka-rest", "KAFKA_REST_BOOTSTRAP_SERVERS|KAFKA_REST_ZOOKEEPER_CONNECT"),
    ("confluentinc/(cp-)?ksqldb-server", "KSQL_BOOTSTRAP_SERVERS"),
)
# Lists of URLs.
_HTTP_LISTENERS = ("CONNECT_LISTENERS", "SCHEMA_REGISTRY_LISTENERS", "KAFKA_REST_LISTENERS", "KSQL_LISTENERS")
# The bootstrap server that a program has without its variable.
_DEFAULTS = (
    ("debezium/connect(-base)?", "BOOTSTRAP_SERVERS", "0.0.0.0:9092"),
    ("obsidiandynamics/kafdrop", "KAFKA_BROKERCONNECT", "localhost:9092"),
)

# Possessive: a long value that is none takes no square of its length.
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*+={0,2}\s*")


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    """Report containers that lack a variable which their image requires, and variables that it cannot read."""
    for container in setup.containers:
        if container.image is None or not container.is_complete:
            continue
        repository = re.sub(r"(:[^/]*)?(@.*)?$", "", container.image.text)
        name = "/".join(repository.split("/")[-2:])
        for pattern, choice in _REQUIRED:
            names = choice.split("|")
            if re.fullmatch(pattern, name) and not container.environment.keys() & set(names):
                yield _missing(container, container.image, names)
        yield from _check_http(container)
        if re.fullmatch("obsidiandynamics/kafdrop", name):
            yield from _check_base64(container)
        for pattern, variable, default in _DEFAULTS:
            if re.fullmatch(pattern, name) and variable not in container.environment:
                text = f"{variable} is missing, which means {default}, the container itself"
                line, why = f"{variable}: kafka:9092", "In a container, localhost is the container itself."
                yield finding("variable-missing", container.image, container, text, None, line, why=why)


def _check_http(container: Container) -> Iterator[LintDiagnostic]:
    """Report listeners of the REST servers of these programs that are no URLs."""
    for name in _HTTP_LISTENERS:
        value = container.environment.get(name)
        for index, entry in enumerate(value.entries if value is not None and value.is_known else ()):
            if value is not None and not re.match(r"(?i)https?://", entry):
                text, why = f"'{entry}' in {name} has no http:// before it", "The program does not start."
                url = f"http://{entry.rpartition('://')[2]}"
                edits = value.replace_entry(index, url)
                yield finding("listener-syntax", value, container, text, edits, f"{name}: {url}", why=why)


def _check_base64(container: Container) -> Iterator[LintDiagnostic]:
    """Report files of Kafdrop that are no base64: it decodes these variables into its files."""
    for name in ("KAFKA_PROPERTIES", "KAFKA_TRUSTSTORE", "KAFKA_KEYSTORE"):
        value = container.environment.get(name)
        if value is not None and value.is_known and not _BASE64.fullmatch(value.text):
            why = "Kafdrop decodes it as base64 into a file, and ignores what this gives."
            line = f"{name}: <output of base64 for the file>"
            yield finding("variable-refused", value, container, f"{name} is no base64", None, line, why=why)


def _missing(container: Container, image: ConfigValue, names: Sequence[str]) -> LintDiagnostic:
    """Return the finding for a container without any of these variables; one of them may be misspelt."""
    for name in names:
        others = [word for word in container.environment if word not in names]
        if likely := get_close_matches(name, others, 1, 0.95):
            value, text = container.environment[likely[0]], f"the image does not know {likely[0]}; it knows {name}"
            return finding("variable-spelling", value, container, text, value.rename_key(name))
    text = f"{' or '.join(names)} is missing"
    return finding("variable-missing", image, container, text, None, f"{names[0]}: kafka:9092")
