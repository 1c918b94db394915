"""Rules for container images: misspelt variables, required variables, and variables that the image refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from kproxy.advice.lint import images
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.rules.table import combine, finding
from kproxy.advice.lint.value import ConfigValue, LineLayout
from kproxy.base.diagnostic import Severity

# The settings whose spelling matters here. Any other name may be a plugin's.
KNOWN = images.words("""
    listeners advertised.listeners listener.security.protocol.map inter.broker.listener.name
    controller.listener.names controller.quorum.voters controller.quorum.bootstrap.servers process.roles node.id
    broker.id zookeeper.connect security.inter.broker.protocol sasl.enabled.mechanisms
    sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol offsets.topic.replication.factor
    transaction.state.log.replication.factor transaction.state.log.min.isr log.dirs auto.create.topics.enable
    num.partitions default.replication.factor min.insync.replicas ssl.keystore.location ssl.truststore.location
    ssl.client.auth group.initial.rebalance.delay.ms
""")
_ABOUT_LISTENERS = [key for key in KNOWN if "listener" in key or key in ("zookeeper.connect", "process.roles")]
# Each is compared with all names.
_MOST_VARIABLES = 1000
_REFUSED_PROPERTIES = {"advertised.port", "advertised.host", "host", "port"}


def check(broker: BrokerConfig, setup: Setup) -> Iterator[LintDiagnostic]:
    if broker.family is ImageFamily.PROPERTIES:
        yield from check_properties(broker)
    if not broker.environment:
        return
    yield from check_spelling(broker)
    yield from check_quotes(broker)
    if broker.family is ImageFamily.CONFLUENT:
        yield from check_confluent(broker)
    if broker.family in (ImageFamily.CONFLUENT, ImageFamily.WURSTMEISTER):
        yield from check_service_links(broker)
    if broker.family in (ImageFamily.CONFLUENT, ImageFamily.APACHE):
        yield from check_refused(broker)
    if broker.family is ImageFamily.APACHE:
        yield from check_apache(broker)
    if broker.family is ImageFamily.BITNAMI:
        yield from check_bitnami(broker)
    if broker.family is ImageFamily.WURSTMEISTER:
        yield from check_wurstmeister(broker)


def check_spelling(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    right = {broker.variable_for(key): key for key in KNOWN}
    for word, value in islice(broker.environment.items(), _MOST_VARIABLES):
        likely = _likely_variable(broker, word, right)
        if likely is None or likely == word:
            continue
        edits = value.remove() if likely in broker.environment else value.rename_key(likely)
        text = f"the image does not know {word}; it knows {likely}"
        yield finding("variable-spelling", value, broker, text, edits)


def check_properties(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report misspelt names in a file of properties, as far as they are about listeners."""
    for key, value in islice(broker.settings.items(), _MOST_VARIABLES):
        dotted = re.sub("[_-]", ".", key).lower()
        names = get_close_matches(dotted, _ABOUT_LISTENERS, 1, 1.0 if dotted in _ABOUT_LISTENERS else 0.93)
        if key in KNOWN or not names or names[0] in broker.settings:
            continue
        text, why = f"Kafka does not know {key}; it knows {names[0]}", "Kafka ignores a name that it does not know."
        yield finding("variable-spelling", value, broker, text, value.rename_key(names[0]), why=why)


def check_quotes(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report values in quotes in a list of variables, which belong to the value there."""
    listeners = [broker.settings.get(key) for key in ("listeners", "advertised.listeners")]  # they have their own rule
    for name, value in islice(broker.environment.items(), _MOST_VARIABLES):
        is_quoted = value.layout is LineLayout.ITEM and re.fullmatch(r"""(["']).*\1""", value.text)
        if is_quoted and name.startswith("KAFKA_") and not any(value is other for other in listeners):
            text = f"the quotes are a part of the value of {value.key}"
            line = f"- {value.key}=<the same without quotes>"  # it may be a secret
            yield finding("variable-quotes", value, broker, text, value.replace(value.text[1:-1]), line)


def _likely_variable(broker: BrokerConfig, word: str, right: dict[str, str]) -> str | None:
    """Return the correct name of a misspelt variable; None if it is correct or unknown."""
    if word in right or images.NOT_PROPERTIES.fullmatch(word):
        return None
    name = images.property_name(broker.family, word)
    if name in KNOWN or (name is not None and (name.startswith("listener.name.") or name in _REFUSED_PROPERTIES)):
        return None
    bare = re.sub(r"[._\-]+", "_", re.sub(r"(?i)^kafka[._](cfg[._])?", "", word)).upper()
    by_bare_name = {key.replace(".", "_").upper(): key for key in KNOWN}
    key = by_bare_name.get(bare)
    if not re.match(r"(?i)kafka[._]", word):
        # Without the prefix, accept only names that no other program uses.
        return broker.variable_for(key) if key is not None and "listener" in key else None
    if key is None:
        close = get_close_matches(bare, by_bare_name, 1, 0.9)
        # A word before a name makes it another setting, such as ldap.ssl.truststore.location of Confluent's server.
        key = next((by_bare_name[name] for name in close if not bare.endswith(f"_{name}")), None)
    return broker.variable_for(key) if key is not None else None


def check_confluent(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    if not broker.complete:
        return
    if broker.is_broker and "advertised.listeners" not in broker.settings:
        endpoint = next(iter(broker.for_clients(broker.listeners)), None)
        name, port = (endpoint.name, endpoint.port) if endpoint is not None else ("PLAINTEXT", 9092)
        published = next((binding.host_port for binding in broker.published(endpoint)), None)
        text = f"{name}://localhost:{published}" if published else f"{name}://{broker.name}:{port}"
        edits = broker.set_or_add("advertised.listeners", text, "listeners", "process.roles", "zookeeper.connect")
        yield _missing_variable(broker, "KAFKA_ADVERTISED_LISTENERS", text, edits)
    if broker.roles:
        if "CLUSTER_ID" not in broker.environment:
            setting = broker.settings["process.roles"]
            text = "MkU3OEVBNTcwNTJENDM2Qk"
            yield _missing_variable(broker, "CLUSTER_ID", text, setting.insert_after([("CLUSTER_ID", text)]))
    elif "zookeeper.connect" not in broker.settings:
        if broker.kraft_only or broker.version is None:
            yield _missing_variable(broker, "KAFKA_PROCESS_ROLES", "broker,controller", None)
        else:
            yield _missing_variable(broker, "KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181", None)


def check_wurstmeister(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report a container without the listeners that its image requires."""
    if not lacks_listeners(broker):
        return
    right = {broker.variable_for(key): key for key in KNOWN}
    words = islice(broker.environment, _MOST_VARIABLES)
    # `check_spelling` reports a misspelt one.
    if all(_likely_variable(broker, word, right) != "KAFKA_LISTENERS" for word in words):
        line = f"PLAINTEXT://:{broker.get('port') or 9092}"
        edits = broker.set_or_add("listeners", line, "advertised.listeners") if broker.copies == 1 else None
        yield _missing_variable(broker, "KAFKA_LISTENERS", line, edits)


def lacks_listeners(broker: BrokerConfig) -> bool:
    """Check for a container of wurstmeister's image that ends because it has no listeners.

    Source: start-kafka.sh (github.com/wurstmeister/kafka-docker) since April 2018, which is Kafka 1.1.
    """
    given = broker.environment.keys() & {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_HOST_NAME", "HOSTNAME_COMMAND"}
    is_new = broker.version is None or broker.version >= (1, 1)
    return broker.family is ImageFamily.WURSTMEISTER and broker.complete and is_new and not given


def check_service_links(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report a Service whose variables Kubernetes adds to those of the image."""
    is_set = "KAFKA_PORT" in broker.environment
    if broker.container is not None and "kafka" in broker.container.linked_services and not is_set:
        text = "the Service kafka gives this container the variable KAFKA_PORT"
        location = broker.container.image or broker.location
        yield finding("service-links", location, broker, text, None, "enableServiceLinks: false")


def _missing_variable(broker: BrokerConfig, variable: str, text: str, edits: object) -> LintDiagnostic:
    assert edits is None or isinstance(edits, list)
    message = f"{variable} is missing"
    return finding("variable-missing", broker.location, broker, message, edits, f"{variable}: {text}")


def check_refused(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    value = broker.settings.get("advertised.listeners")
    if value is not None and broker.roles == ["controller"] and value.text:
        text = f"the image refuses {value.key} on a node that is only a controller"
        yield finding("variable-refused", value, broker, text, value.remove())
    if broker.family is not ImageFamily.CONFLUENT:
        return
    for name in ("advertised.host.name", "advertised.host", "advertised.port", "host.name", "host", "port"):
        if name in broker.settings:
            old = broker.settings[name]
            text = f"the image refuses {old.key}; it takes KAFKA_ADVERTISED_LISTENERS"
            has_advertised = "advertised.listeners" in broker.settings
            host, port = (
                broker.get("advertised.host.name") or broker.get("advertised.host"),
                broker.get("advertised.port"),
            )
            edits = old.remove()
            if not has_advertised and name.startswith("advertised.host") and host:
                edits = combine(
                    old.rename_key("KAFKA_ADVERTISED_LISTENERS"), old.replace(f"PLAINTEXT://{host}:{port or 9092}")
                )
            severity = Severity.WARNING if name.endswith(".name") else None
            yield finding("variable-refused", old, broker, text, edits, severity=severity)


def check_apache(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    """Report the settings that lack a default: with one variable set, this image has no other defaults."""
    if not broker.settings or not broker.complete or broker.roles or "zookeeper.connect" in broker.settings:
        return
    first = min(broker.settings.values(), key=lambda value: value.start)
    wanted = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{broker.name}:9093",
    }
    if broker.copies > 1:  # each has an id of its own, which these lines cannot give
        wanted |= {"node.id": "<the number of the pod>", "controller.quorum.voters": "<ID@HOST:9093 of each pod>"}
    lines = [(broker.variable_for(key), text) for key, text in wanted.items() if key not in broker.settings]
    if "listeners" not in broker.settings:
        entries = [f"{endpoint.name}://:{endpoint.port_text}" for endpoint in broker.listeners]
        lines.append(("KAFKA_LISTENERS", ",".join([*entries, "CONTROLLER://:9093"])))
        if "advertised.listeners" not in broker.settings:
            lines.append(("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://localhost:9092"))
    text = f"{first.key} is set, and KAFKA_PROCESS_ROLES is not"
    edits = first.insert_after(lines) if broker.copies == 1 else None
    yield finding("image-defaults-lost", first, broker, text, edits, [f"{k}: {v}" for k, v in lines])


def check_bitnami(broker: BrokerConfig) -> Iterator[LintDiagnostic]:
    if not broker.complete:
        return
    if broker.is_controller and "controller.listener.names" in broker.settings and "listeners" not in broker.settings:
        name = broker.controller_names[0] if broker.controller_names else "CONTROLLER"
        text = f"PLAINTEXT://:9092,{name}://:9093" if broker.is_broker else f"{name}://:9093"
        edits = broker.set_or_add("listeners", text, "controller.listener.names")
        yield _missing_variable(broker, "KAFKA_CFG_LISTENERS", text, edits)
    allow_setting = broker.environment.get("ALLOW_PLAINTEXT_LISTENER")
    if broker.version is None or broker.version >= (3, 5):
        return
    plain = any(broker.protocol(endpoint.name) == "PLAINTEXT" for endpoint in broker.listeners)
    if plain and (
        allow_setting is None or (allow_setting.is_known and allow_setting.text.lower() not in ("yes", "true", "1"))
    ):
        setting: ConfigValue | None = allow_setting or next(iter(broker.environment.values()), None)
        edits = None
        if setting is not None:
            edits = (
                setting.replace("yes") if allow_setting else setting.insert_after([("ALLOW_PLAINTEXT_LISTENER", "yes")])
            )
        text = "ALLOW_PLAINTEXT_LISTENER is not yes, and a listener has PLAINTEXT"
        yield finding(
            "plaintext-not-allowed", setting or broker.location, broker, text, edits, "ALLOW_PLAINTEXT_LISTENER: 'yes'"
        )
