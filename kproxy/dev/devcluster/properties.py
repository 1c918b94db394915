"""The configuration files of controllers and brokers, as text. Pure."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError

CLIENT = "CLIENT"
INTERNAL = "INTERNAL"
CONTROLLER = "CONTROLLER"
_TAKEN_NAMES = {CLIENT, INTERNAL, CONTROLLER}

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener that every broker has.

    `advertised` and `bound` are templates for HOST:PORT with `{id}`, the node id, and `{port}`, a free port of
    127.0.0.1; in `advertised` it is the port that was bound.
    """

    name: str
    advertised: str = "127.0.0.1:{port}"
    protocol: str = "PLAINTEXT"
    bound: str = "127.0.0.1:{port}"

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"listener {self.name}: '{self.protocol}' is not one of {', '.join(PROTOCOLS)}")
        self.advertise(1, 1)
        self.bind(1, 1)

    def advertise(self, node: int, port: int) -> Address:
        """Return the advertised address of one node. Raises ConfigError if the template does not make an address."""
        return self._fill_in(self.advertised, node, port)

    def bind(self, node: int, free_port: int) -> Address:
        """Return the address on which one node listens. Raises ConfigError if the template does not make an address."""
        return self._fill_in(self.bound, node, free_port)

    def _fill_in(self, template: str, node: int, port: int) -> Address:
        try:
            return Address.parse(template.format(id=node, port=port))
        except (ValueError, LookupError) as error:
            raise ConfigError(
                f"listener {self.name}: '{template}' is not a template for HOST:PORT with {{id}} and {{port}} ({error})"
            ) from None


@dataclass(frozen=True, slots=True)
class NodeListener:
    """One listener of one node: its bound and its advertised address."""

    name: str
    bound: Address
    advertised: Address
    protocol: str = "PLAINTEXT"


def new_uuid() -> str:
    """Return a random id in Kafka's form: 16 bytes in URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the storage tool would take it for an option
            return text


def check_node_ids(brokers: int | Sequence[int], controller: int) -> list[int]:
    """Return the brokers' node ids: 1 to N for a number, otherwise the given ones.

    Raises ConfigError if they are invalid.
    """
    ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
    problems = []
    if not ids:
        problems.append("a cluster needs at least one broker")
    problems += [f"node id {node} is not allowed: 0 to 2147483647" for node in ids if not 0 <= node < 2**31]
    problems += [
        f"node id {node} is given more than once" for node in sorted({node for node in ids if ids.count(node) > 1})
    ]
    if controller in ids:
        problems.append(f"node id {controller} is the controller's: give the broker another")
    if problems:
        raise ConfigError(*problems)
    return ids


def check_listener_names(specs: Sequence[ListenerSpec]) -> None:
    """Raise ConfigError if a listener name is used twice, or is one of the cluster's own."""
    seen = set(_TAKEN_NAMES)
    for spec in specs:
        if spec.name in seen or not spec.name.isidentifier():
            raise ConfigError(f"listener name '{spec.name}' is taken or not a name: choose another")
        seen.add(spec.name)


def controller_properties(
    node: int,
    data: Path,
    listener: NodeListener,
    brokers: int,
    broker_extra: Mapping[str, str],
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the properties of a dedicated KRaft controller, the only voter.

    The address of a voter is an IP address, so it needs no name resolution. The controller decides some settings that
    users regard as the brokers': those come from `broker_extra`.
    """
    return {
        "process.roles": "controller",
        **_quorum(node, listener),
        "node.id": str(node),
        "listeners": f"{CONTROLLER}://{listener.bound}",
        "advertised.listeners": f"{CONTROLLER}://{listener.advertised}",
        "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT",
        "log.dirs": str(data),
        **_new_topics(brokers),
        # A record each half second for nothing takes a sixth of what an idle cluster costs.
        "metadata.max.idle.interval.ms": "0",
        # A broker that was away leads its partitions again after this time; Kafka's is five minutes.
        "leader.imbalance.check.interval.seconds": "10",
        **_SESSION,
        **{key: broker_extra[key] for key in _CONTROLLER_DECIDES if key in broker_extra},
        **extra,
    }


def broker_properties(
    node: int,
    data: Path,
    listeners: Sequence[NodeListener],
    controller: tuple[int, NodeListener],
    brokers: int,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the properties of a broker of a small cluster, sized for tests: few partitions, little memory."""
    protocols = [f"{listener.name}:{listener.protocol}" for listener in listeners]
    return {
        "process.roles": "broker",
        "node.id": str(node),
        **_quorum(*controller),
        "listeners": ",".join(f"{listener.name}://{listener.bound}" for listener in listeners),
        "advertised.listeners": ",".join(f"{listener.name}://{listener.advertised}" for listener in listeners),
        "listener.security.protocol.map": ",".join([*protocols, f"{CONTROLLER}:PLAINTEXT"]),
        "inter.broker.listener.name": INTERNAL,
        "log.dirs": str(data),
        **_SESSION,
        **_own_topics(brokers),
        **_SMALL,
        **extra,
    }


def meta_properties(cluster_id: str, node: int) -> dict[str, str]:
    """Return the file that marks a broker's data directory as formatted.

    A broker needs no more than this (a controller does: `storage.py`), so starting N brokers does not cost N more JVMs.
    """
    return {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node),
        "directory.id": new_uuid(),
    }


def session_seconds(properties: Mapping[str, str], controller_extra: Mapping[str, str]) -> float:
    """Return for how long the controller counts a silent broker as alive, in seconds.

    A broker that is started again may have to wait for so long, also after a clean end (seen with Kafka 4.4).
    """
    key = "broker.session.timeout.ms"
    return int({**_SESSION, **properties, **controller_extra}[key]) / 1000


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file. Raises ConfigError for an invalid key."""
    lines = []
    for key, value in properties.items():
        if not key or not all(c.isalnum() or c in "._-" for c in key):
            raise ConfigError(f"'{key}' is not the name of a Kafka property")
        lines.append(f"{key}={_escaped(value)}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    """Return a value as java.util.Properties reads it: Latin-1 with escapes, and no white space at its start."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    text = "".join(chr(code) if code < 127 else f"\\u{code:04x}" for code in codes)
    return "\\" + text if text[:1] in (" ", "\t") else text


def _quorum(node: int, listener: NodeListener) -> dict[str, str]:
    return {
        "controller.listener.names": CONTROLLER,
        "controller.quorum.voters": f"{node}@{listener.bound}",
    }


def _in_sync(brokers: int) -> str:
    # With three replicas a record that was acknowledged survives any one broker.
    return "2" if brokers >= 3 else "1"


def _new_topics(brokers: int) -> dict[str, str]:
    return {
        "num.partitions": "3",
        "default.replication.factor": str(min(3, brokers)),
        "min.insync.replicas": _in_sync(brokers),
    }


def _own_topics(brokers: int) -> dict[str, str]:
    factor, in_sync = str(min(3, brokers)), _in_sync(brokers)
    return {
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


# A killed broker counts as alive until its session ends, and cannot come back before. Long enough for a
# busy machine with two cores, shorter than Kafka's 9 s.
_SESSION = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # A broker that has not registered within 60 s ends; a busy machine may take longer.
    "initial.broker.registration.timeout.ms": "240000",
}

_CONTROLLER_DECIDES = (
    "num.partitions",
    "default.replication.factor",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "broker.session.timeout.ms",
)

_SMALL = {
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "10",
    "share.coordinator.state.topic.num.partitions": "10",
    # A group starts at once, and a member of the new protocols receives its partitions within a second.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    # The cleaner alone would take half of a 256 MB heap.
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "log.index.size.max.bytes": str(1 << 20),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
