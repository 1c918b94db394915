"""The kinds of files, recognised by their content or chosen by the user."""

from __future__ import annotations

import re
from enum import Enum

from kproxy.advice.lint.source import BOM, SourceFile


class FileKind(Enum):
    """The kind of a file; the values are those of `--as`."""

    SERVER = "server"
    ENV = "env"  # variables of a container, KEY=VALUE
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"  # workloads, and the resources of Strimzi and CFK
    HELM = "helm"  # values of a chart
    REDPANDA = "redpanda"
    CLIENT = "client"
    LIBRDKAFKA = "librdkafka"
    JAAS = "jaas"
    CONNECT = "connect"
    CONNECTOR = "connector"  # JSON
    APPSETTINGS = "appsettings"  # JSON of .NET
    SPARK = "spark"
    APPLICATION = "application"  # Spring, Quarkus, AKHQ, kafka-ui: properties or YAML


# The kind of a file in which all these expressions match; the first kind counts.
_CONTENTS: tuple[tuple[FileKind, str, str], ...] = (
    (FileKind.KUBERNETES, "^apiVersion:", "^kind:"),
    (
        FileKind.APPSETTINGS,
        r"\A\s*(//[^\n]*\n\s*)*\{",
        r'"[Bb]ootstrapServers"[ \t]*:|"[Ss]ecurityProtocol"[ \t]*:[ \t]*"(?i:sasl|ssl|plain)'
        r'|"ConnectionStrings"[ \t]*:\s*\{[^{}]*"[^"{}]*[Kk]afka[^"{}]*"[ \t]*:',
    ),
    (FileKind.CONNECTOR, r"\A\s*[\[{]", r'"(connector\.class|[\w.-]*bootstrap[._-]?servers)"[ \t]*:'),
    (FileKind.COMPOSE, r"""^["']?services["']?[ ]*:""", ""),
    (FileKind.COMPOSE, r"\A\s*\{", r'"services"[ \t]*:'),
    (
        FileKind.COMPOSE,  # version 1 of the format, or some services of a file
        r"^[\w-]{1,99}:[ ]*\r?\n(?:[ ]+\S[^\n]{0,300}\n){0,3}"
        r"[ ]+image:[ ]*[\"']?[\w.:/-]{1,300}[\"']?[ ]*(?:#[^\n]*)?\r?$",
        r"^[ ]+environment:",
    ),
    (
        FileKind.REDPANDA,
        r"^redpanda:",
        r"^[ ]+(kafka_api|advertised_kafka_api|seed_servers|rpc_server|data_directory):",
    ),
    (
        FileKind.HELM,
        r"^(externalAccess|extraEnvVars|cp-kafka|configurationOverrides|listeners|controller|broker|kraft|extraConfig"
        r"(Yaml)?|config|heapOpts|replicaCount|advertisedListeners):[ ]*([{\[|>#].*)?\r?$|^advertisedListeners:",
        r"^(replicaCount|externalAccess|extraEnvVars|cp-kafka|configurationOverrides|listeners|controller|kraft|brokers"
        r"|auth|sasl|image|advertisedListeners):",
    ),
    (
        FileKind.HELM,  # the values of a chart that has the chart of Kafka in it
        r"^(kafka|cp-kafka)[ ]*:[ ]*(#.*)?\r?$",
        r"^[ ]+(externalAccess|extraEnvVars|advertisedListeners|configurationOverrides|kraft|controller):"
        r"[ ]*([{\[#].*)?\r?$",
    ),
    (FileKind.SPARK, r"^[ \t]*spark\.\S", ""),
    (
        FileKind.APPLICATION,
        r"^[ \t]*(%[\w-]+\.)?(spring\.(cloud\.stream\.)?kafka\.|mp\.messaging\.|quarkus\."
        r"|kafka\.(bootstrap|clusters|sasl|security)|kafka-streams\.|akhq\.)|^[\"']?(%[\w-]+[\"']?|spring|akhq|kafka|quarkus|mp|micronaut|kafka-streams)"
        r"[\"']?:[ ]*([{#].*)?\r?$",
        r"(?i)bootstrap|brokers|jaas|security[.-]?protocol",
    ),
    (
        FileKind.SERVER,
        r"^[ \t]*(listeners|advertised\.listeners|process\.roles|broker\.id|node\.id|zookeeper\.connect|log\.dirs?"
        r"|listener\.security\.protocol\.map|inter\.broker\.listener\.name|controller\.quorum\.voters"
        r"|advertised\.(?:host\.name|port))[ \t]*[=: ]",
        # The listeners of ksqlDB, Schema Registry and the REST Proxy are those of an HTTP server.
        r"\A(?![\s\S]*^[ \t]*listeners[ \t]*[=: ][ \t]*https?://)",
    ),
    (FileKind.CONNECT, r"^[ \t]*(key\.converter|connector\.class)", ""),
    (
        FileKind.ENV,
        r"^[ \t]*(export[ ]+)?(KAFKA_(CFG_)?((ADVERTISED_)?LISTENERS|LISTENER_\w+|NODE_ID|PROCESS_ROLES|BROKER_ID"
        r"|ZOOKEEPER_CONNECT|CONTROLLER_\w+)|[A-Z0-9_]*BOOTSTRAP_?SERVERS?|([A-Z0-9]+_)*BROKERS|KAFKA_BROKER_?CONNECT"
        r"|[A-Z0-9_]*SASL_JAAS_CONFIG)[ ]*=",
        "",
    ),
    (
        FileKind.JAAS,
        r"^[ \t]*([\w.]{1,99}[ \t]*\{[ \t]*)?[\w.]{1,300}LoginModule\b",
        r"\A(?![\s\S]*jaas[._-]config)",
    ),
    (FileKind.LIBRDKAFKA, r"^[ \t]*metadata\.broker\.list", ""),
    (
        FileKind.CLIENT,
        r"^[ \t]*(bootstrap\.servers|security\.protocol|sasl\.(?:jaas|mechanism)|ssl\.)|\.bootstrap\.servers[ \t]*[=:]",
        r"\A(?![\s\S]*^[ \t]*(?:[\w.-]+[ \t]*)?[{}][ \t]*\r?$)",  # HOCON, Akka's and Lightbend's form
    ),
)
# For a file whose content does not show its kind.
_NAMES = (
    (FileKind.COMPOSE, r"(docker-)?compose[\w.-]*\.ya?ml"),
    (FileKind.SERVER, r".*(server|broker).*\.(properties|conf)"),
    (FileKind.CLIENT, r".*client.*\.(properties|conf)"),
)
# A key with a mapping or a list below it: properties have no such line.
_YAML = re.compile(r"^[ ]*[\w.-]+:[ ]*(#.*)?\r?$", re.MULTILINE)
_YAML_NAME = re.compile(r".*\.ya?ml", re.DOTALL)
_APPSETTINGS_NAME = re.compile(r"appsettings(\.[\w-]+)?\.json")
# The files that kcat reads by itself, and those that are called after it.
_LIBRDKAFKA_NAMES = re.compile(r"(.*[._-])?(kcat|kafkacat|librdkafka)[\w-]*(\.(conf|config|cfg))?")


def recognise_kind(source: SourceFile) -> FileKind | None:
    """Return the kind of a file; None if kproxy does not know it."""
    text = source.text.removeprefix(BOM)
    filename = re.split(r"[/\\]", source.name)[-1].lower()
    if _APPSETTINGS_NAME.fullmatch(filename) and re.search(r"(?i)bootstrap\.servers|kafka", text):
        return FileKind.APPSETTINGS
    for kind, *signs in _CONTENTS:
        if all(re.search(sign, text, re.MULTILINE) for sign in signs):
            if kind in (FileKind.SERVER, FileKind.ENV) and _YAML_NAME.fullmatch(filename) and _YAML.search(text):
                continue
            if kind in (FileKind.CLIENT, FileKind.LIBRDKAFKA, FileKind.CONNECT) and _YAML.search(text):
                return FileKind.APPLICATION
            is_librdkafka = kind is FileKind.CLIENT and _LIBRDKAFKA_NAMES.fullmatch(filename)
            return FileKind.LIBRDKAFKA if is_librdkafka else kind
    return next((kind for kind, name in _NAMES if re.fullmatch(name, filename, re.DOTALL)), None)
