"""The declaration of every option.

From these two models come the keys of the YAML file (`connect-timeout`), the environment variables
(`KPROXY_CONNECT_TIMEOUT`), the flags (`--connect-timeout`), the JSON schema and the table in docs/configuration.md. To
add an option, add a field: its kind defines its values, its `Option` everything else. The module is as long as there
are options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, PrivateAttr, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from kproxy.base.address import Address
from kproxy.config import checks, kinds, quantities
from kproxy.config.declarations import (
    CLUSTER,
    GROUPS,
    LIMITS,
    LOCAL,
    LOGIN,
    PROCESS,
    REACH,
    TLS,
    Model,
    Option,
    Reload,
    kebab,
)
from kproxy.config.hop import Hop
from kproxy.config.kinds import ValueKind
from kproxy.config.sasl import SaslOptions
from kproxy.config.tls import TlsOptions
from kproxy.config.values import MAX_PORT, NODE_PORT_COUNT, Advertise, ExitWith, Forward, Map, PortRange, Sni

ENV_PREFIX = "KPROXY_"
# Groups of options that each upstream has for itself.
_OF_UPSTREAM = (CLUSTER, REACH, TLS, LOGIN)
DEFAULT_KAFKA_PORT = 9092
DEFAULT_ADMIN = Address("127.0.0.1", 19091)
# Addresses on which kproxy listens if a bootstrap server has its default port.
OTHER_LISTENERS = tuple(Address("127.0.0.1", port) for port in (19292, 19492, 19692, 19892))


class ClusterConfig(TlsOptions, SaslOptions):
    """One Kafka cluster and the local ports under which clients reach it."""

    name: Annotated[str, kinds.name(), Option(CLUSTER, "Unique name of the cluster in logs and metrics.")] = "default"
    bootstrap_servers: Annotated[
        tuple[Annotated[Address, kinds.upstream_address(DEFAULT_KAFKA_PORT)], ...],
        Option(
            CLUSTER,
            f"Bootstrap servers of the Kafka cluster, tried in turn. The default port is {DEFAULT_KAFKA_PORT}.",
            short="-b",
            reload=Reload.DRAINS_ROUTES,
        ),
    ]
    cluster_id: Annotated[
        str | None,
        kinds.text("ID"),
        Option(
            CLUSTER,
            "Serve only the cluster with this id; reject any other cluster that answers.",
            unset="the id of the first bootstrap server that answers",
        ),
    ] = None
    client_config: Annotated[
        Path | None,
        kinds.path(),
        Option(
            CLUSTER,
            "Read servers, SASL and TLS settings from this client.properties (Java or librdkafka). Flags, variables "
            "and the YAML file override it.",
            unset="none",
            reload=Reload.LIVE,
        ),
    ] = None
    listen: Annotated[
        Address,
        kinds.listen_address(),
        Option(LOCAL, "Address that clients use as their bootstrap server. Port 0 selects a free port."),
    ] = Address("127.0.0.1", 19092)
    advertise: Annotated[
        Advertise | None,
        kinds.advertise(),
        Option(
            LOCAL,
            "Host to advertise to clients, if they cannot use the host of --listen (containers, shared bridges). "
            "FIRST_PORT is the port to advertise for the first of --node-ports.",
            unset="the host of listen",
        ),
    ] = None
    node_ports: Annotated[
        PortRange | None,
        kinds.port_range(),
        Option(
            LOCAL,
            "Local ports for the nodes of the cluster, one port for each node. FIRST alone means the 200 ports that "
            "start there.",
            unset=f"the {NODE_PORT_COUNT} ports after listen",
        ),
    ] = None
    sni: Annotated[
        Sni | None,
        kinds.sni(),
        Option(
            LOCAL,
            "Tell clients a host name for each node, such as b{node}.kafka.example, all at the one port of --listen. "
            "kproxy knows from the name in the client's TLS handshake which node it wants. With --client-tls-cert.",
            unset="each node has a port",
        ),
    ] = None
    forward: Annotated[
        tuple[Annotated[Forward, kinds.forward()], ...],
        Option(
            LOCAL,
            "Local port that leads to something else than a broker, through the same --via: 8081=schema-registry:8081. "
            "kproxy passes its bytes on unread.",
            unset="none",
        ),
    ] = ()
    map: Annotated[
        tuple[Annotated[Map, kinds.route_map()], ...],
        Option(
            REACH,
            "Connect to another address than the advertised one: kafka0:29092=localhost:9092, "
            "'*.internal=gateway:{port}', node:2=10.0.0.7:9092. kproxy uses the first map that matches, and tries no "
            "other address.",
            unset="none",
            reload=Reload.DRAINS_ROUTES,
        ),
    ] = ()
    via: Annotated[
        tuple[Annotated[Hop, kinds.via()], ...],
        Option(
            REACH,
            "Connect through a SOCKS5 proxy, an HTTP proxy, an SSH server or a Kubernetes API server, which also "
            "resolves host names. Several form a chain; name the one nearest to this machine first.",
            unset="none",
            reload=Reload.DRAINS_ALL,
        ),
    ] = ()
    connect_timeout: Annotated[
        float,
        quantities.duration(0.001, 3600),
        Option(REACH, "Time limit for opening one upstream connection.", reload=Reload.LIVE),
    ] = 5.0
    retire_after: Annotated[
        float,
        quantities.duration(0, 30 * 86400),
        Option(LIMITS, "Close the port of a node that has been absent and unused for this long.", reload=Reload.LIVE),
    ] = 600.0
    max_connections: Annotated[
        int,
        quantities.count(1, 1_000_000),
        Option(LIMITS, "Maximum number of client connections to this cluster at the same time.", reload=Reload.LIVE),
    ] = 10_000
    max_request_size: Annotated[
        int,
        quantities.size(1024, 2**31 - 1),
        Option(LIMITS, "Maximum size of a request. kproxy closes the connection of a larger one.", reload=Reload.LIVE),
    ] = 100 * 1024 * 1024

    # Of a cluster with `upstreams`, there is one of these for each: with the same name, and what is not of an upstream
    # is the same as well. "" is a cluster that leads to one Kafka cluster only, which is active.
    upstream: str = ""
    active: bool = True

    # Set by the Config that this belongs to: the port of the admin endpoint, if that is on the same host; what leads to
    # the usual address of `listen`, so that this is another one, "" if nothing does.
    _admin_port: int = PrivateAttr(default=0)
    _usual_port_taken_by: str = PrivateAttr(default="")

    @property
    def title(self) -> str:
        """The name of the cluster in messages, with its upstream if it has several."""
        return f"{self.name}/{self.upstream}" if self.upstream else self.name

    @property
    def default_port_user(self) -> str:
        """The bootstrap server, map or forward that leads to the default of `listen`, so that `listen` differs.

        "" if there is none, or if the user sets `listen`.
        """
        return self._usual_port_taken_by

    def effective_node_ports(self, listen_port: int | None = None) -> PortRange:
        """Return the range of node ports. With `listen` on port 0, pass the port that was bound."""
        if self.node_ports is not None:
            return self.node_ports
        if self.sni is not None:  # then no node has a port of its own
            return PortRange(listen_port or self.listen.port or 1, listen_port or self.listen.port or 1)
        port, admin = self.listen.port if listen_port is None else listen_port, self._admin_port
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

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> ClusterConfig:
        _listen_elsewhere([self], ())  # what it shares with other upstreams, and with the process, the Config knows
        checks.raise_violations(checks.check_cluster(self, ()), info.context)
        return self

    def _listen_at(self, listen: Address, taken_by: str) -> None:
        self.__dict__["listen"] = listen  # frozen for all others
        self._usual_port_taken_by = taken_by


def _listen_elsewhere(sharing: Sequence[ClusterConfig], claimed: Sequence[Address]) -> None:
    """Move the listener that these clusters share from the default port, if a bootstrap server has that port.

    It is also the port of a well-known quickstart. If the user sets `listen`, nothing is changed.
    """
    if any("listen" in cluster.model_fields_set for cluster in sharing):
        return
    taken_by = next((cluster.default_port_user for cluster in sharing if cluster.default_port_user), "")
    taken_by = taken_by or checks.find_default_port_user(sharing)
    if not taken_by:
        return
    free = (address for address in OTHER_LISTENERS if checks.is_free_listener(address, sharing, claimed))
    listen = next(free, OTHER_LISTENERS[0])
    for cluster in sharing:
        cluster._listen_at(listen, taken_by)


class Config(Model):
    """The configuration of one kproxy process."""

    clusters: tuple[ClusterConfig, ...]
    """Each with its options; of a cluster with upstreams, one for each upstream, one of which is active."""
    admin: Annotated[
        Address | None,
        kinds.listen_address_or_off(),
        Option(PROCESS, "Address of the HTTP endpoint: status page, metrics, health.", off="--no-admin"),
    ] = DEFAULT_ADMIN
    admin_tls_cert: Annotated[
        Path | None,
        kinds.path(),
        Option(
            PROCESS,
            "Use TLS for the admin endpoint, with this certificate and chain: a PEM file or a key store (PKCS #12, "
            "JKS).",
            unset="plain HTTP",
        ),
    ] = None
    admin_tls_key: Annotated[
        Path | None,
        kinds.path(),
        Option(PROCESS, "Private key of admin-tls-cert, a PEM file.", unset="in the file of admin-tls-cert"),
    ] = None
    admin_tls_key_password: Annotated[
        str | None,
        kinds.text("PASSWORD"),
        Option(PROCESS, "Password of the private key or of the key store.", unset="none", secret=True),
    ] = None
    admin_host: Annotated[
        tuple[Annotated[str, kinds.host()], ...],
        Option(
            PROCESS,
            "Additional name that the admin endpoint accepts in the Host header; * accepts any name. IP addresses, "
            "names without a dot and the host of --admin are always accepted.",
            unset="none",
        ),
    ] = ()
    admin_quit: Annotated[
        bool,
        kinds.boolean(),
        Option(
            PROCESS,
            "Let POST /quit on the admin endpoint stop kproxy, as SIGTERM does.",
            off="--no-admin-quit",
        ),
    ] = False
    admin_reload: Annotated[
        bool,
        kinds.boolean(),
        Option(
            PROCESS,
            "Let POST /reload on the admin endpoint, and with it kproxy reload, read the configuration again. Without "
            "a token, the admin endpoint must then be on a loopback address.",
            off="--no-admin-reload",
        ),
    ] = False
    admin_token: Annotated[
        str | None,
        kinds.token(),
        Option(
            PROCESS,
            "Token that a client must show to change something on the admin endpoint, POST /quit included.",
            unset="none",
            secret=True,
        ),
    ] = None
    admin_token_file: Annotated[
        Path | None,
        kinds.path(),
        Option(
            PROCESS,
            "File that has this token and nothing else, and that other users cannot read. kproxy reads it again when "
            "it changes.",
            unset="none",
        ),
    ] = None
    admin_require_token_for_reads: Annotated[
        bool,
        kinds.boolean(),
        Option(
            PROCESS,
            "Demand the token also for what only shows something: /metrics, /status. /livez and /readyz stay open for "
            "probes; /readyz then gives its reasons only to those who show the token.",
            off="--no-admin-require-token-for-reads",
        ),
    ] = False
    ready_requires: Annotated[
        Literal["all", "one", "none"],
        kinds.choice("all", "one", "none"),
        Option(
            PROCESS,
            "How many nodes of each cluster must be reachable before /readyz reports ready. With none, kproxy is ready "
            "even if no bootstrap server has answered.",
            reload=Reload.LIVE,
        ),
    ] = "one"
    exit_with: Annotated[
        tuple[Annotated[ExitWith, kinds.exit_with()], ...],
        Option(
            PROCESS,
            "Stop when a file appears, a process (given by its id) exits, or a URL that has answered stops answering. "
            "If several are given, kproxy stops at the first of these events.",
            unset="none",
        ),
    ] = ()
    drain_timeout: Annotated[
        float,
        quantities.duration(0, 86400),
        Option(PROCESS, "How long kproxy waits for requests in flight when it stops.", reload=Reload.LIVE),
    ] = 10.0
    state_dir: Annotated[
        Path | None,
        kinds.directory(),
        Option(
            PROCESS,
            "Directory in which kproxy keeps which upstream each cluster leads to, and how far a switch is, so that a "
            "restart does not route clients back. Clusters with upstreams can be switched only with it.",
            unset="none",
            reload=Reload.ADDED,
        ),
    ] = None
    watch_config: Annotated[
        bool,
        kinds.boolean(),
        Option(
            PROCESS,
            "Read the configuration again when the configuration file or a client-config changes, for example a "
            "mounted ConfigMap.",
            off="--no-watch-config",
        ),
    ] = False
    reuse_port: Annotated[
        bool,
        kinds.boolean(),
        Option(
            PROCESS,
            "Share the ports of listen, node-ports and forward with other kproxies of the same user and configuration, "
            "for loads that need more than one core. Each needs an admin address of its own. Linux only.",
            off="--no-reuse-port",
        ),
    ] = False
    log_format: Annotated[
        Literal["auto", "text", "json"],
        kinds.choice("auto", "text", "json"),
        Option(PROCESS, "auto: a table and colours (unless NO_COLOR is set) on a terminal, plain lines elsewhere."),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        kinds.choice("debug", "info", "warning", "error"),
        Option(PROCESS, "Lowest level of messages to log.", reload=Reload.LIVE),
    ] = "info"

    @property
    def served(self) -> tuple[ClusterConfig, ...]:
        """Each cluster once; the active upstream of a cluster with upstreams."""
        return tuple(cluster for cluster in self.clusters if cluster.active)

    def others(self, name: str) -> tuple[ClusterConfig, ...]:
        """Return the inactive upstreams of a cluster."""
        return tuple(cluster for cluster in self.clusters if cluster.name == name and not cluster.active)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Config:
        by_name = {
            name: [cluster for cluster in self.clusters if cluster.name == name]
            for name in (cluster.name for cluster in self.clusters)
        }
        for name, sharing in by_name.items():
            if len(sharing) == 1 or all(cluster.upstream for cluster in sharing):  # else a mistake, reported elsewhere
                others = [cluster.listen for cluster in self.clusters if cluster.name != name]
                _listen_elsewhere(sharing, [*others, *([] if self.admin is None else [self.admin])])
        for cluster in self.clusters:
            # Kproxies that share ports have admin addresses of their own: the window must not depend on them.
            if (
                self.admin is not None
                and not self.reuse_port
                and checks.share_host(self.admin.host, cluster.listen.host)
            ):
                cluster._admin_port = self.admin.port
        checks.raise_violations(checks.check_clusters(self), info.context)
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One option as every source sees it: `name` is the field's name, a `repeatable` option has several values."""

    name: str
    kind: ValueKind[Any]
    option: Option
    default: object
    required: bool
    repeatable: bool
    in_cluster: bool

    @property
    def key(self) -> str:
        """The key in YAML."""
        return kebab(self.name)

    @property
    def env(self) -> str:
        """The environment variable."""
        return ENV_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The long flag, as errors name it; "" for a secret, which all users of the machine could read there."""
        return "" if self.option.secret else f"--{self.key}"

    @property
    def is_switch(self) -> bool:
        """True if its flags take no value: one for yes, one for no."""
        return self.kind.native == (bool,)

    @property
    def default_text(self) -> str:
        """The default for people; "" for a required option."""
        if self.required:
            return ""
        if self.option.unset and not self.default:
            return self.option.unset
        shown = self.kind.show(self.default)
        return str(shown).lower() if isinstance(shown, bool) else str(shown)


def settings_of(model: type[BaseModel], in_cluster: bool) -> Iterator[Setting]:
    """Yield the settings of a model by group, in the order of their declaration.

    Fields without `Option` are structure.
    """
    declared = ((name, field, _option(field)) for name, field in model.model_fields.items())
    options = [(name, field, option) for name, field, option in declared if option is not None]
    for name, field, option in sorted(options, key=lambda declaration: GROUPS.index(declaration[2].group)):
        kind = next((m for m in field.metadata if isinstance(m, ValueKind)), None)
        repeatable = kind is None
        if kind is None:
            kind = next(m for m in get_args(get_args(field.annotation)[0]) if isinstance(m, ValueKind))
        default = None if field.is_required() else field.default
        yield Setting(name, kind, option, default, field.is_required(), repeatable, in_cluster)


def _option(field: FieldInfo) -> Option | None:
    return next((m for m in field.metadata if isinstance(m, Option)), None)


@cache
def cluster_settings() -> dict[str, Setting]:
    """Return the options of one cluster, by key."""
    return {setting.key: setting for setting in settings_of(ClusterConfig, in_cluster=True)}


@cache
def upstream_settings() -> dict[str, Setting]:
    """Return the options that each upstream has for itself, by key."""
    return {
        key: setting
        for key, setting in cluster_settings().items()
        if setting.option.group in _OF_UPSTREAM and key != "name" and not key.startswith("client-tls-")
    }


@cache
def process_settings() -> dict[str, Setting]:
    """Return the options of the process, by key."""
    return {setting.key: setting for setting in settings_of(Config, in_cluster=False)}


def all_settings() -> tuple[Setting, ...]:
    """Return all options."""
    return (*cluster_settings().values(), *process_settings().values())
