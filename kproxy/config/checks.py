"""Rules between options: ports that do not overlap, names that are unique, no loop.

Pure: each check reads a valid `ClusterConfig` or `Config` and yields the violations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from kproxy.base.address import Address
from kproxy.base.addressclass import is_this_machine
from kproxy.config.values import MAX_PORT, PortRange

if TYPE_CHECKING:
    from kproxy.config.options import ClusterConfig, Config

# The path of a value: ("clusters", 0, "listen") or ("admin",).
OptionPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule, and the options that it involves, the one to change first.

    It has no place yet: the loader, which knows where the user wrote these options, makes a `Diagnostic` of it.
    """

    locs: tuple[OptionPath, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """Ports that something binds or advertises, and their name in a message."""

    locs: tuple[OptionPath, ...]
    text: str
    host: str
    ports: PortRange


def raise_violations(violations: Iterable[Violation]) -> None:
    """Raise ValueError for violations, for code that builds a configuration itself."""
    if texts := [f"{violation.locs[0][-1]}: {violation.text}" for violation in violations]:
        raise ValueError("; ".join(texts))


def _violation(text: str, *keys: str | OptionPath, at: OptionPath = ()) -> Violation:
    """Return the violation of a rule by options, each given by its key or its path under `at`."""
    return Violation(tuple((*at, *((key,) if isinstance(key, str) else key)) for key in keys), text)


def check_cluster(cluster: ClusterConfig, at: OptionPath) -> Iterator[Violation]:
    """Yield the violations within one cluster, whose options are under `at`."""
    yield from _node_ports(cluster, at)
    if not cluster.bootstrap_servers:
        yield _violation("is empty; allowed: HOST:PORT, or several", "bootstrap-servers", at=at)
    for index, hop in enumerate(cluster.via):
        if index and hop.scheme == "docker":
            text = f"{hop} is about the containers of this machine; allowed: as the first --via"
            yield _violation(text, ("via", index), at=at)
    if cluster.forward_command and cluster.via:
        text = "listen on this machine, and via connects through another one; allowed: one of them"
        yield _violation(text, "forward-command", "via", at=at)
    yield from _loops(cluster, cluster.listen, at)
    if cluster.accept_new_cluster_after is not None:
        if cluster.cluster_id is not None:
            text = "cannot be combined with cluster-id, the only cluster that kproxy may serve; allowed: one of them"
            yield _violation(text, "accept-new-cluster-after", "cluster-id", at=at)
        if cluster.upstream:
            text = "cannot be combined with upstreams: a switch relies on their cluster ids; allowed: one of them"
            yield _violation(text, "accept-new-cluster-after", at=at)
    for index, forward in enumerate(cluster.forward):
        if not cluster.via and _same(forward.to, forward.listen(cluster.listen)):
            text = f"{forward} leads to itself, a loop; allowed: an address that something else listens on"
            yield _violation(text, ("forward", index), at=at)
    yield from _access(cluster, at)
    yield from _login_as(cluster, at)
    clients = cluster.client_login_problems(
        tls=cluster.client_tls_cert is not None, loopback=is_this_machine(cluster.listen.host)
    )
    for key, text in (*cluster.tls_problems(), *cluster.login_problems(), *clients):
        yield _violation(text, key, at=at)


def _access(cluster: ClusterConfig, at: OptionPath) -> Iterator[Violation]:
    if not cluster.clients_log_in:
        for index, rule in enumerate(cluster.rules):
            if rule.users:
                text = f"'{rule}' is about users, and clients do not log in here; allowed: with client-sasl"
                yield _violation(text, ("rules", index), "client-sasl", at=at)
    if cluster.client_tls_principal_rules is not None and cluster.client_tls_ca is None:
        text = "needs certificates of clients; allowed: together with client-tls-cert and client-tls-ca"
        yield _violation(text, "client-tls-principal-rules", "client-tls-ca", at=at)
    if cluster.allow_groups and not cluster.read_only:
        text = "is an exception to read-only, which is off; allowed: together with read-only"
        yield _violation(text, "allow-groups", "read-only", at=at)


def _login_as(cluster: ClusterConfig, at: OptionPath) -> Iterator[Violation]:
    if cluster.login_as != "kproxy" and not cluster.clients_log_in:
        text = f"{cluster.login_as} is about clients that log in at kproxy; allowed: with client-sasl"
        yield _violation(f"{text}, or client-tls-principal-rules", "login-as", at=at)
    elif cluster.login_as == "client" and cluster.client_tls_principal_rules is not None:
        text = "client lets a client's login pass to the brokers, and no certificate can; allowed: kproxy, user"
        yield _violation(text, "login-as", "client-tls-principal-rules", at=at)
    elif cluster.login_as == "user" and cluster.users_file is None and cluster.credentials_command is None:
        text = "user needs a login for each user; allowed: with users-file or credentials-command"
        yield _violation(text, "login-as", at=at)


def _node_ports(cluster: ClusterConfig, at: OptionPath) -> Iterator[Violation]:
    port = cluster.listen.port
    if cluster.node_ports is not None and port in cluster.node_ports:
        text = f"{cluster.node_ports} contains {port}, the port of listen; allowed: a range without it"
        yield _violation(text, "node-ports", "listen", at=at)
    if cluster.sni is not None:
        if cluster.client_tls_cert is None:
            text = "needs TLS with clients, whose handshake names the node that they want"
            yield _violation(f"{text}; allowed: with client-tls-cert", "sni", "client-tls-cert", at=at)
        if cluster.node_ports is not None:
            text = "cannot be combined with sni, with which no node has a port; allowed: one of them"
            yield _violation(text, "node-ports", "sni", at=at)
    elif cluster.node_ports is None and port == MAX_PORT:
        text = f"no port is left for nodes after {port}; allowed: a lower port, or node-ports"
        yield _violation(text, "listen", "node-ports", at=at)
    elif cluster.advertise is not None and cluster.advertise.first_port is not None:
        first, count = cluster.advertise.first_port, len(cluster.effective_node_ports())
        if first + count - 1 > MAX_PORT:
            text = f"FIRST_PORT {first} and {count} node ports go beyond port {MAX_PORT}; allowed: a lower FIRST_PORT"
            yield _violation(text, "advertise", "node-ports", at=at)


def _loops(cluster: ClusterConfig, own: Address, at: OptionPath) -> Iterator[Violation]:
    """Yield bootstrap servers, maps and forwards that would lead back to kproxy if it listened at `own`."""
    if cluster.via or not own.port:  # behind a hop, the same address belongs to another machine
        return
    why = "the address of listen: kproxy would connect to itself; allowed: another address, or another port in listen"
    for index, server in enumerate(cluster.bootstrap_servers):
        routed = (*(route.matches(server, "") for route in cluster.map), *(c.fits("") for c in cluster.forward_command))
        if _same(server, own) and not any(routed):
            yield _violation(f"{server} is also {why}", ("bootstrap-servers", index), "listen", at=at)
    for index, route in enumerate(cluster.map):
        if route.dial_port == own.port and _same_host(route.dial_host, own.host):
            yield _violation(f"{route} leads to {why}", ("map", index), "listen", at=at)
    for index, forward in enumerate(cluster.forward):
        if _same(forward.to, own):
            yield _violation(f"{forward} leads to {why}", ("forward", index), "listen", at=at)


def find_default_port_user(clusters: Iterable[ClusterConfig]) -> str:
    """Return the first bootstrap server, map or forward of these clusters that leads to their listener, or ""."""
    for cluster in clusters:
        for violation in _loops(cluster, cluster.listen, ()):
            key, index = str(violation.locs[0][0]), violation.locs[0][1]
            assert isinstance(index, int)
            return str(getattr(cluster, key.replace("-", "_"))[index])
    return ""


def is_free_listener(listen: Address, clusters: Iterable[ClusterConfig], claimed: Iterable[Address]) -> bool:
    """Return True if nothing of these clusters leads to this address, and nothing else of kproxy's listens there."""
    leads = any(True for cluster in clusters for _ in _loops(cluster, listen, ()))
    return not leads and not any(
        address.port == listen.port and share_host(address.host, listen.host) for address in claimed
    )


def check_clusters(config: Config) -> Iterator[Violation]:
    """Yield the violations between the clusters of one process and its admin address."""
    if not config.clusters:
        yield _violation("is empty; allowed: one cluster or more", "clusters")
    yield from _admin(config)
    seen: dict[str, int] = {}
    for index, cluster in _served(config):
        if (first := seen.setdefault(cluster.name, index)) != index:
            text = f"'{cluster.name}' is the name of two clusters; allowed: a name of its own"
            yield _violation(text, ("clusters", index, "name"), ("clusters", first, "name"))
    if config.reuse_port:
        yield from _shared(config)
    reported: set[tuple[OptionPath, OptionPath]] = set()
    for taken, claim in combinations(_bound(config), 2):
        owners = taken.locs[0][:2], claim.locs[0][:2]
        # `check_cluster` looks within a cluster. Default node ports follow listen: one word for both will do.
        follows = owners in reported and len(claim.locs) > 1
        within = owners[0] == owners[1] and "forward" not in (*taken.locs[0], *claim.locs[0])
        if not within and not follows and _clash(taken, claim):
            reported.add(owners)
            yield _overlap(claim, taken)
    yield from (_overlap(claim, taken) for taken, claim in combinations(_advertised(config), 2) if _clash(taken, claim))


def _overlap(claim: _Claim, taken: _Claim) -> Violation:
    text = f"{claim.text} and {taken.text} overlap; allowed: ports that nothing else uses"
    return _violation(text, *claim.locs, *taken.locs)


WHERE_NOT_SHARED = "needs Linux: other systems do not spread connections over those that share a port; leave it out"


def _shared(config: Config) -> Iterator[Violation]:
    """Ports that others are to find as well must be said."""
    why = "has port 0, and reuse-port needs one that all kproxies know"
    for index, cluster in _served(config):
        if cluster.accept_new_cluster_after is not None:
            text = "cannot be combined with reuse-port, whose kproxies serve one cluster together; allowed: one of them"
            yield _violation(text, ("clusters", index, "accept-new-cluster-after"), "reuse-port")
        if cluster.listen.port == 0:
            text = f"{cluster.listen} {why}; allowed: HOST:PORT"
            yield _violation(text, ("clusters", index, "listen"), "reuse-port")
        for number, forward in enumerate(cluster.forward):
            if forward.port == 0:
                text = f"{why}; allowed: PORT=HOST:PORT"
                yield _violation(text, ("clusters", index, "forward", number), "reuse-port")


def _served(config: Config) -> Iterator[tuple[int, ClusterConfig]]:
    """Each cluster once, with its place: its upstreams share names and ports."""
    return ((index, cluster) for index, cluster in enumerate(config.clusters) if cluster.active)


def _admin(config: Config) -> Iterator[Violation]:
    """Yield the violations between the options of the admin endpoint."""
    for key, is_on in (("admin-quit", config.admin_quit), ("admin-reload", config.admin_reload)):
        if is_on and config.admin is None:
            text = f"needs the admin endpoint, which is off; allowed: an address in admin, or no {key}"
            yield _violation(text, key, "admin")
    guarded = config.admin_token is not None or config.admin_token_file is not None
    if config.admin_reload and config.admin is not None and not (guarded or is_this_machine(config.admin.host)):
        text = f"would let every client that reaches {config.admin} reload; allowed: with admin-token-file, or a"
        yield _violation(f"{text} loopback address in admin", "admin-reload", "admin")
    if config.admin_token is not None and config.admin_token_file is not None:
        text = "cannot be combined with admin-token; allowed: one of them"
        yield _violation(text, "admin-token-file", "admin-token")
    for key, given in (("key", config.admin_tls_key), ("key-password", config.admin_tls_key_password)):
        if given is not None and config.admin_tls_cert is None:
            text = "is given, but admin-tls-cert is not; allowed: together with admin-tls-cert"
            yield _violation(text, f"admin-tls-{key}")
    if config.admin_require_token_for_reads and not guarded:
        text = "needs a token, and there is none; allowed: together with admin-token-file, or with admin-token"
        yield _violation(text, "admin-require-token-for-reads", "admin-token-file")


def _bound(config: Config) -> Iterator[_Claim]:
    if config.admin is not None and config.admin.port:
        yield _claim((("admin",),), "admin", "", config.admin)
    for index, cluster in _served(config):
        listen, node_ports = ("clusters", index, "listen"), ("clusters", index, "node-ports")
        of_cluster = f" of cluster '{cluster.name}'" if len(config.clusters) > 1 else ""
        if cluster.listen.port:
            yield _claim((listen,), "listen", of_cluster, cluster.listen)
        for at, forward in enumerate(cluster.forward):
            if forward.port:
                loc = ("clusters", index, "forward", at)
                yield _claim((loc,), "forward", of_cluster, forward.listen(cluster.listen))
        if window := _window(cluster):
            implied = "" if cluster.node_ports else " (the ports after listen)"
            locs = (node_ports,) if cluster.node_ports else (node_ports, listen)
            yield _Claim(locs, f"node-ports {window}{implied}{of_cluster}", cluster.listen.host, window)


def _advertised(config: Config) -> Iterator[_Claim]:
    for index, cluster in _served(config):
        if cluster.advertise is not None and (window := _window(cluster)):
            first = cluster.advertised_port(window.first)
            ports = PortRange(first, first + len(window) - 1)
            loc = ("clusters", index, "advertise")
            text = f"advertise {cluster.advertise.host}:{ports} of cluster '{cluster.name}'"
            yield _Claim((loc,), text, cluster.advertise.host, ports)


def _window(cluster: ClusterConfig) -> PortRange | None:
    """Return the node ports as far as they are known before binding."""
    if cluster.sni is not None or (cluster.node_ports is None and cluster.listen.port in (0, MAX_PORT)):
        return None
    return cluster.effective_node_ports()


def _claim(locs: tuple[OptionPath, ...], key: str, of_cluster: str, address: Address) -> _Claim:
    return _Claim(locs, f"{key} {address}{of_cluster}", address.host, PortRange(address.port, address.port))


def _clash(claim: _Claim, other: _Claim) -> bool:
    return claim.ports.overlaps(other.ports) and share_host(claim.host, other.host)


def share_ports(cluster: ClusterConfig, other: ClusterConfig) -> bool:
    """Return True if two clusters may bind the same port."""
    return share_host(cluster.listen.host, other.listen.host) and any(
        ports.overlaps(other_ports) for ports in _ports(cluster) for other_ports in _ports(other)
    )


def _ports(cluster: ClusterConfig) -> Iterator[PortRange]:
    if cluster.listen.port:
        yield PortRange(cluster.listen.port, cluster.listen.port)
    if window := _window(cluster):
        yield window
    for forward in cluster.forward:
        if forward.port:
            yield PortRange(forward.port, forward.port)


def share_host(host: str, other: str) -> bool:
    """Return True if listeners on these two hosts can conflict."""
    return any(Address(name, 0).is_wildcard for name in (host, other)) or _same_host(host, other)


def _same(address: Address, other: Address) -> bool:
    return address.port == other.port and _same_host(address.host, other.host)


def _same_host(host: str, other: str) -> bool:
    """Return True if two hosts are the same, as far as that is known without resolving names."""
    host, other = host.lower(), other.lower()
    return host == other or ("localhost" in (host, other) and host in _LOOPBACK and other in _LOOPBACK)


_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
