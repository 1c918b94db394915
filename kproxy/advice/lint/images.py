"""Container images of Kafka: the variables that they read and require, and their default settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.advice.lint.model import ImageFamily
from kproxy.advice.lint.value import ConfigValue


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for long lists of settings."""
    return tuple(text.split())


# Confluent's images that contain a Kafka broker.
_CONFLUENT = {"cp-kafka", "cp-server", "cp-enterprise-kafka", "confluent-local"}
# The last minor version of each major version of Kafka.
_NEWEST_MINORS = {"0": 11, "1": 1, "2": 8, "3": 9}
# Variables of Confluent's and Apache's images that do not set properties.
NOT_PROPERTIES = re.compile(
    r"KAFKA_(VERSION|HOME|DEBUG|HEAP_OPTS?|OPTS|JMX_\w+|LOG4J\w*|TOOLS_LOG4J\w*|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS"
    r"|CLASSPATH|CREATE_TOPICS|SSL_\w+_(FILENAME|CREDENTIALS)|REST_\w+|CLUSTER_ID)"
)
# Bitnami's image also accepts these without CFG.
_ALIASES = words("""
    advertised.listeners broker.id node.id controller.quorum.voters process.roles default.replication.factor
    inter.broker.listener.name listeners listener.security.protocol.map offsets.topic.replication.factor
    transaction.state.log.min.isr transaction.state.log.replication.factor zookeeper.connect
""")

# The default settings of each image.
_KRAFT_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
}
_SINGLE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_BITNAMI = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
_CONFLUENT_LOCAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:29092,CONTROLLER://localhost:29093,PLAINTEXT_HOST://0.0.0.0:9092",
    "advertised.listeners": "PLAINTEXT://localhost:29092,PLAINTEXT_HOST://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:29093",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
}


@dataclass(frozen=True, slots=True)
class Image:
    """A known image."""

    family: ImageFamily
    version: tuple[int, int] | None
    """Kafka's version, if the tag shows it."""
    kraft_only: bool


def recognise_image(reference: str) -> Image | None:
    """Return the image that a reference names; None if it is no known image of Kafka."""
    repository, tag = _split_reference(reference)
    maker, _, name = repository.rpartition("/")
    maker = maker.rpartition("/")[2]
    if maker == "apache" and name in ("kafka", "kafka-native"):
        return Image(ImageFamily.APACHE, _version(tag), kraft_only=True)
    if maker == "confluentinc" and name in _CONFLUENT:
        version = _kafka_version(_version(tag))
        family = ImageFamily.CONFLUENT_LOCAL if name == "confluent-local" else ImageFamily.CONFLUENT
        return Image(family, version, kraft_only=version is not None and version >= (4, 0))
    if maker in ("bitnami", "bitnamilegacy", "bitnamisecure") and name == "kafka":
        version = _version(tag)
        return Image(ImageFamily.BITNAMI, version, kraft_only=version is not None and version >= (4, 0))
    if maker == "wurstmeister" and name == "kafka":
        return Image(ImageFamily.WURSTMEISTER, _version(tag.rpartition("-")[2]), kraft_only=False)
    return None


def _split_reference(reference: str) -> tuple[str, str]:
    """Return the repository and the tag of an image reference."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag


def _version(tag: str) -> tuple[int, int] | None:
    """Return the version in a tag. A tag with a major version alone, such as `3`, is the newest of them."""
    if tag in _NEWEST_MINORS:
        return (int(tag), _NEWEST_MINORS[tag])
    match = re.match(r"(\d+)\.(\d+)", tag)
    return (int(match[1]), int(match[2])) if match else None


def _kafka_version(platform: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the version of Kafka in a version of Confluent Platform."""
    if platform is None:
        return None
    major, minor = platform
    if major >= 8:
        return (major - 4, minor)
    if major == 7:
        return (3, minor)
    return (2, {6: 6, 5: 0}.get(major, 0) + minor) if major in (5, 6) else (1, 0)


def property_name(family: ImageFamily, variable: str) -> str | None:
    """Return the property that a variable sets; None if the image does not take it for a property."""
    if family is ImageFamily.BITNAMI:
        if variable.startswith("KAFKA_CFG_"):
            return variable.removeprefix("KAFKA_CFG_").lower().replace("_", ".")
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
        return name if variable.startswith("KAFKA_") and name in _ALIASES else None
    if not variable.startswith("KAFKA_") or NOT_PROPERTIES.fullmatch(variable):
        return None
    name = variable.removeprefix("KAFKA_").lower()
    if family is ImageFamily.WURSTMEISTER:
        return name.replace("_", ".")
    # Three underscores are a dash, two an underscore, one a dot.
    parts = {"___": "-", "__": "_", "_": "."}
    return re.sub("_{1,3}", lambda match: parts[match[0]], name)


def settings_of(family: ImageFamily, environment: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the properties that an image makes of its variables."""
    settings: dict[str, ConfigValue] = {}
    for word, value in environment.items():
        name = property_name(family, word)
        if name and (name not in settings or word.startswith("KAFKA_CFG_")):
            settings[name] = value
    return settings


def likely_family(environment: Mapping[str, object]) -> ImageFamily:
    """Return the maker of an image that is not named, as its variables show it."""
    if any(word.startswith("KAFKA_CFG_") for word in environment):
        return ImageFamily.BITNAMI
    return ImageFamily.WURSTMEISTER if "KAFKA_ADVERTISED_HOST_NAME" in environment else ImageFamily.OTHER


def defaults(family: ImageFamily, settings: Mapping[str, object]) -> Mapping[str, str]:
    """Return the settings that a broker of this image has by default, beside those that are set."""
    if family is ImageFamily.APACHE:
        return {} if settings else {**_KRAFT_DEFAULTS, **_SINGLE_BROKER}
    if family is ImageFamily.CONFLUENT_LOCAL:
        return {**_CONFLUENT_LOCAL, **_SINGLE_BROKER}
    if family is ImageFamily.BITNAMI:
        kept_defaults = {key: text for key, text in _KRAFT_DEFAULTS.items() if key.startswith(("listener.", "inter."))}
        return {**(kept_defaults if "process.roles" in settings else {}), **_SINGLE_BROKER, **_BITNAMI}
    return _SINGLE_BROKER if family is ImageFamily.WURSTMEISTER else {}
