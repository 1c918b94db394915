"""The declaration of every option.

From these two classes come the keys of the YAML file (`connect-timeout`), the environment variables
(`KPROXY_CONNECT_TIMEOUT`), the flags (`--connect-timeout`), the JSON schema and the table in docs/configuration.md. To
add an option, add a field with `option`. The module is as long as there are options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal

from kproxy.base.address import Address
from kproxy.config import checks, kinds
from kproxy.config.access import AccessRule, AccessRules, NamePattern
from kproxy.config.clientsasl import ClientSaslOptions
from kproxy.config.declarations import (
    ACCESS,
    CLUSTER,
    LIMITS,
    LOCAL,
    LOGIN,
    PROCESS,
    REACH,
    TLS,
    Options,
    Reload,
    Setting,
    option,
    settings_of,
)
from kproxy.config.forwardcommand import ForwardCommand
from kproxy.config.hop import Hop
from kproxy.config.kinds import BOOLEAN, DIRECTORY, FILE
from kproxy.config.sasl import SaslOptions
from kproxy.config.tls import TlsOptions
from kproxy.config.values import MAX_PORT, NODE_PORT_COUNT, Advertise, ExitWith, Forward, Map, PortRange, Sni

# Groups of options that each upstream has for itself.
_OF_UPSTREAM = (CLUSTER, REACH, TLS, LOGIN)
DEFAULT_KAFKA_PORT = 9092
DEFAULT_ADMIN = Address("127.0.0.1", 19091)
_DEFAULT_LISTEN = Address("127.0.0.1", 19092)
# Addresses on which kproxy listens if a bootstrap server has its default port.
OTHER_LISTENERS = tuple(Address("127.0.0.1", port) for port in (19292, 19492, 19692, 19892))

_cluster, _local, _reach = (partial(option, group) for group in (CLUSTER, LOCAL, REACH))
_limit = partial(option, LIMITS, reload=Reload.LIVE)
_access = partial(option, ACCESS, reload=Reload.DRAINS_ALL)
_process = partial(option, PROCESS)


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(TlsOptions, SaslOptions, ClientSaslOptions):
    """One Kafka cluster and the local ports under which clients reach it."""

    name: str = _cluster(kinds.NAME, "Unique name of the cluster in logs and metrics.", default="default")
    bootstrap_servers: tuple[Address, ...] = _cluster(
        kinds.upstream_address(DEFAULT_KAFKA_PORT),
        f"Bootstrap servers of the Kafka cluster, tried in turn. The default port is {DEFAULT_KAFKA_PORT}.",
        default=MISSING,
        repeatable=True,
        short="-b",
        reload=Reload.DRAINS_ROUTES,
    )
    cluster_id: str | None = _cluster(
        kinds.text("ID"),
        "Serve only the cluster with this id; reject any other cluster that answers.",
        "the id of the first bootstrap server that answers",
    )
    accept_new_cluster_after: float | None = _cluster(
        kinds.or_off(kinds.duration(1, 86400)),
        "Serve another Kafka cluster if all bootstrap servers belong to it, and no broker of the former one has "
        "answered for this long: a test cluster that was created again. kproxy then closes all sessions.",
        "off",
        reload=Reload.LIVE,
    )
    client_config: Path | None = _cluster(
        FILE,
        "Read servers, SASL and TLS settings from this client.properties (Java or librdkafka). Flags, variables "
        "and the YAML file override it.",
        reload=Reload.LIVE,
    )
    listen: Address = _local(
        kinds.LISTEN,
        "Address that clients use as their bootstrap server. Port 0 selects a free port.",
        default=_DEFAULT_LISTEN,
    )
    advertise: Advertise | None = _local(
        kinds.ADVERTISE,
        "Host to advertise to clients, if they cannot use the host of --listen (containers, shared bridges). "
        "FIRST_PORT is the port to advertise for the first of --node-ports.",
        "the host of listen",
    )
    node_ports: PortRange | None = _local(
        kinds.PORT_RANGE,
        "Local ports for the nodes of the cluster, one port for each node. FIRST alone means the 200 ports that "
        "start there.",
        f"the {NODE_PORT_COUNT} ports after listen",
    )
    sni: Sni | None = _local(
        kinds.SNI,
        "Tell clients a host name for each node, such as b{node}.kafka.example, all at the one port of --listen. "
        "kproxy knows from the name in the client's TLS handshake which node it wants. With --client-tls-cert.",
        "each node has a port",
    )
    forward: tuple[Forward, ...] = _local(
        kinds.FORWARD,
        "Local port that leads to something else than a broker, through the same --via: 8081=schema-registry:8081. "
        "kproxy passes its bytes on unread.",
        repeatable=True,
    )
    map: tuple[Map, ...] = _reach(
        kinds.ROUTE_MAP,
        "Connect to another address than the advertised one: kafka0:29092=localhost:9092, "
        "'*.internal=gateway:{port}', node:2=10.0.0.7:9092. kproxy uses the first map that matches, and tries no "
        "other address. Maps with a host also apply to bootstrap servers and to forward.",
        repeatable=True,
        reload=Reload.DRAINS_ROUTES,
    )
    forward_command: tuple[ForwardCommand, ...] = _reach(
        kinds.FORWARD_COMMAND,
        "Run this command for each node, and connect to the node through it: 'kubectl port-forward pod/kafka-{node} "
        "{port}:9092'. kproxy chooses {port}, starts the command again when it ends, and ends it. A command without "
        "{node} also serves bootstrap servers. The first command that fits is used, where no map matches.",
        repeatable=True,
        reload=Reload.DRAINS_ROUTES,
    )
    via: tuple[Hop, ...] = _reach(
        kinds.VIA,
        "Connect through a SOCKS5 proxy, an HTTP proxy, an SSH server or a Kubernetes API server, which also "
        "resolves host names. Several form a chain; name the one nearest to this machine first.",
        repeatable=True,
        reload=Reload.DRAINS_ALL,
    )
    connect_timeout: float = _reach(
        kinds.duration(0.001, 3600), "Time limit for opening one upstream connection.", default=5.0, reload=Reload.LIVE
    )
    read_only: bool = _access(
        BOOLEAN,
        "Refuse each request that changes something, with the error that Kafka has for it: no client writes records, "
        "joins a group, commits offsets, or changes topics or settings.",
    )
    allow_groups: tuple[NamePattern, ...] = _access(
        kinds.GROUP_PATTERN,
        "Group that clients may use in spite of read-only: dev-alice, 'dev-*'.",
        repeatable=True,
    )
    rules: tuple[AccessRule, ...] = _access(
        kinds.ACCESS_RULE,
        "What clients may change, in order: the first rule that matches decides. 'allow produce orders-*', "
        "'deny group payments'. If none matches, read-only decides.",
        repeatable=True,
    )
    retire_after: float = _limit(
        kinds.duration(0, 30 * 86400),
        "Close the port of a node that has been absent and unused for this long.",
        default=600.0,
    )
    max_connections: int = _limit(
        kinds.count(1, 1_000_000),
        "Maximum number of client connections to this cluster at the same time.",
        default=10_000,
    )
    max_request_size: int = _limit(
        kinds.size(1024, 2**31 - 1),
        "Maximum size of a request. kproxy closes the connection of a larger one.",
        default=100 * 1024 * 1024,
    )

    # Of a cluster with `upstreams`, there is one of these for each: with the same name, and what is not of an upstream
    # is the same as well. "" is a cluster that leads to one Kafka cluster only, which is active.
    upstream: str = ""
    active: bool = True

    default_port_user: str = field(default="", init=False, repr=False)
    """The bootstrap server, map or forward that leads to the default of `listen`, so that `listen` differs.

    "" if there is none, or if the user sets `listen`.
    """
    admin_port: int = field(default=0, init=False, repr=False)
    """The port of the admin endpoint, if that is on the same host; the `Config` that this belongs to sets it."""

    @property
    def access(self) -> AccessRules:
        """What clients may change."""
        return AccessRules(self.read_only, self.allow_groups, self.rules)

    @property
    def title(self) -> str:
        """The name of the cluster in messages, with its upstream if it has several."""
        return f"{self.name}/{self.upstream}" if self.upstream else self.name

    def effective_node_ports(self, listen_port: int | None = None) -> PortRange:
        """Return the range of node ports. With `listen` on port 0, pass the port that was bound."""
        if self.node_ports is not None:
            return self.node_ports
        if self.sni is not None:  # then no node has a port of its own
            return PortRange(listen_port or self.listen.port or 1, listen_port or self.listen.port or 1)
        port, admin = self.listen.port if listen_port is None else listen_port, self.admin_port
        if self.listen.port == 0 and port + NODE_PORT_COUNT > MAX_PORT:
            # The system chose the port, so the range may be below it.
            end = admin if port - NODE_PORT_COUNT <= admin < port else port
            return PortRange(end - NODE_PORT_COUNT, end - 1)
        if port < admin <= port + NODE_PORT_COUNT and admin < MAX_PORT:
            port = admin
        return PortRange(port + 1, min(port + NODE_PORT_COUNT, MAX_PORT))

    def advertised_port(self, node_port: int, listen_port: int | None = None) -> int:
        """Return the port that clients receive for a local node port: the same, unless --advertise has a FIRST_PORT.

        With --sni all nodes are at the port of the bootstrap listener.
        """
        if self.advertise is None or self.advertise.first_port is None:
            return node_port
        if self.sni is not None:
            return self.advertise.first_port
        return self.advertise.first_port + node_port - self.effective_node_ports(listen_port).first

    def __post_init__(self, checked: bool) -> None:
        """Move the listener if a bootstrap server has its port. Raises ValueError with all mistakes."""
        super().__post_init__(checked)
        # What it shares with other upstreams, and with the process, the Config knows.
        self.__dict__.update(_other_listener([self], ()))
        if checked:
            checks.raise_violations(checks.check_cluster(self, ()))


def _other_listener(sharing: Sequence[ClusterConfig], claimed: Sequence[Address]) -> dict[str, object]:
    """Return other values of these clusters, which share a listener, if a bootstrap server has the default port.

    It is also the port of a well-known quickstart. If the user sets `listen`, nothing is changed.
    """
    if any(cluster.listen is not _DEFAULT_LISTEN and not cluster.default_port_user for cluster in sharing):
        return {}
    taken_by = next((cluster.default_port_user for cluster in sharing if cluster.default_port_user), "")
    taken_by = taken_by or checks.find_default_port_user(sharing)
    if not taken_by:
        return {}
    free = (address for address in OTHER_LISTENERS if checks.is_free_listener(address, sharing, claimed))
    return {"listen": next(free, OTHER_LISTENERS[0]), "default_port_user": taken_by}


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """The configuration of one kproxy process."""

    clusters: tuple[ClusterConfig, ...]
    """Each with its options; of a cluster with upstreams, one for each upstream, one of which is active."""
    admin: Address | None = _process(
        kinds.LISTEN_OR_OFF,
        "Address of the HTTP endpoint: status page, metrics, health.",
        default=DEFAULT_ADMIN,
        off_flag="--no-admin",
    )
    admin_tls_cert: Path | None = _process(
        FILE,
        "Use TLS for the admin endpoint, with this certificate and chain: a PEM file or a key store (PKCS #12, JKS).",
        "plain HTTP",
    )
    admin_tls_key: Path | None = _process(
        FILE, "Private key of admin-tls-cert, a PEM file.", "in the file of admin-tls-cert"
    )
    admin_tls_key_password: str | None = _process(
        kinds.text("PASSWORD"), "Password of the private key or of the key store.", secret=True
    )
    admin_host: tuple[str, ...] = _process(
        kinds.HOST,
        "Additional name that the admin endpoint accepts in the Host header; * accepts any name. IP addresses, "
        "names without a dot and the host of --admin are always accepted.",
        repeatable=True,
    )
    admin_quit: bool = _process(BOOLEAN, "Let POST /quit on the admin endpoint stop kproxy, as SIGTERM does.")
    admin_reload: bool = _process(
        BOOLEAN,
        "Let POST /reload on the admin endpoint, and with it kproxy reload, read the configuration again. Without "
        "a token, the admin endpoint must then be on a loopback address.",
    )
    admin_token: str | None = _process(
        kinds.ADMIN_TOKEN,
        "Token that a client must show to change something on the admin endpoint, POST /quit included.",
        secret=True,
    )
    admin_token_file: Path | None = _process(
        FILE,
        "File that has this token and nothing else, and that other users cannot read. kproxy reads it again when "
        "it changes.",
    )
    admin_require_token_for_reads: bool = _process(
        BOOLEAN,
        "Demand the token also for what only shows something: /metrics, /status. /livez and /readyz stay open for "
        "probes; /readyz then gives its reasons only to those who show the token.",
    )
    ready_requires: Literal["all", "one", "none"] = _process(
        kinds.choice("all", "one", "none"),
        "How many nodes of each cluster must be reachable before /readyz reports ready. With none, kproxy is ready "
        "even if no bootstrap server has answered.",
        default="one",
        reload=Reload.LIVE,
    )
    exit_with: tuple[ExitWith, ...] = _process(
        kinds.EXIT_WITH,
        "Stop when a file appears, a process (given by its id) exits, or a URL that has answered stops answering. "
        "If several are given, kproxy stops at the first of these events.",
        repeatable=True,
    )
    drain_timeout: float = _process(
        kinds.duration(0, 86400),
        "How long kproxy waits for requests in flight when it stops.",
        default=10.0,
        reload=Reload.LIVE,
    )
    state_dir: Path | None = _process(
        DIRECTORY,
        "Directory in which kproxy keeps which upstream each cluster leads to, and how far a switch is, so that a "
        "restart does not route clients back. Clusters with upstreams can be switched only with it.",
        reload=Reload.ADDED,
    )
    watch_config: bool = _process(
        BOOLEAN,
        "Read the configuration again when the configuration file or a client-config changes, for example a "
        "mounted ConfigMap.",
    )
    reuse_port: bool = _process(
        BOOLEAN,
        "Share the ports of listen, node-ports and forward with other kproxies of the same user and configuration, "
        "for loads that need more than one core. Each needs an admin address of its own. Linux only.",
    )
    log_format: Literal["auto", "text", "json"] = _process(
        kinds.choice("auto", "text", "json"),
        "auto: a table and colours (unless NO_COLOR is set) on a terminal, plain lines elsewhere.",
        default="auto",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _process(
        kinds.choice("debug", "info", "warning", "error"),
        "Lowest level of messages to log.",
        default="info",
        reload=Reload.LIVE,
    )

    @property
    def served(self) -> tuple[ClusterConfig, ...]:
        """Each cluster once; the active upstream of a cluster with upstreams."""
        return tuple(cluster for cluster in self.clusters if cluster.active)

    def others(self, name: str) -> tuple[ClusterConfig, ...]:
        """Return the inactive upstreams of a cluster."""
        return tuple(cluster for cluster in self.clusters if cluster.name == name and not cluster.active)

    def __post_init__(self, checked: bool) -> None:
        """Give the clusters what depends on one another. Raises ValueError with all mistakes."""
        super().__post_init__(checked)
        clusters = list(self.clusters)
        for name in dict.fromkeys(cluster.name for cluster in clusters):
            sharing = [cluster for cluster in clusters if cluster.name == name]
            if len(sharing) == 1 or all(cluster.upstream for cluster in sharing):  # else a mistake, reported elsewhere
                others = [cluster.listen for cluster in clusters if cluster.name != name]
                moved = _other_listener(sharing, [*others, *([] if self.admin is None else [self.admin])])
                clusters = [cluster.replace(**moved) if cluster in sharing else cluster for cluster in clusters]
        self.__dict__["clusters"] = tuple(
            cluster.replace(admin_port=self._admin_port_beside(cluster)) for cluster in clusters
        )
        if checked:
            checks.raise_violations(checks.check_clusters(self))

    def _admin_port_beside(self, cluster: ClusterConfig) -> int:
        # Kproxies that share ports have admin addresses of their own: the window must not depend on them.
        if self.admin is None or self.reuse_port or not checks.share_host(self.admin.host, cluster.listen.host):
            return 0
        return self.admin.port


def cluster_settings() -> dict[str, Setting]:
    """Return the options of one cluster, by key."""
    return settings_of(ClusterConfig)


@cache
def upstream_settings() -> dict[str, Setting]:
    """Return the options that each upstream has for itself, by key."""
    return {
        key: setting
        for key, setting in cluster_settings().items()
        if setting.group in _OF_UPSTREAM
        and key not in ("name", "accept-new-cluster-after")
        and not key.startswith("client-tls-")
    }


def process_settings() -> dict[str, Setting]:
    """Return the options of the process, by key."""
    return settings_of(Config)


def all_settings() -> tuple[Setting, ...]:
    """Return all options."""
    return (*cluster_settings().values(), *process_settings().values())
