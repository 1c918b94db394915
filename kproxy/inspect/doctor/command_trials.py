"""Tries `kproxy run` command lines: kproxy runs each in this process, and a client connects through it.

A command line works if a client that knows only kproxy's address gets the metadata, connects to the local address of
each broker, and finds the right broker there. Only lines that were tried are printed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.config import ClusterConfig
from kproxy.config.commandline import CommandLine
from kproxy.config.kinds import SERVER_NAME
from kproxy.config.options import OTHER_LISTENERS
from kproxy.inspect.doctor.evidence import Contact, Examination, PortProtocol
from kproxy.net.dial.dialer import Dialer
from kproxy.net.dial.stream import Stream
from kproxy.net.tls.handshakes import ANY_NAME
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.connectionslots import ConnectionLimit
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.identity import BrokerIdentifier
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import LocalPorts, NodeKey, Topology
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.status.model import another_address_may_help

Load = Callable[[CommandLine], ClusterConfig]
"""The cluster that a line configures. Raises ConfigError."""

# The connections of a trial are few.
_FILES = 4096
# How long a trial waits for kproxy to find its nodes, beyond the time for one connection, in seconds.
_MORE = 1.0
# After this many seconds no further command line is tried.
_LONGEST = 5.0
# The running kproxy may have the ports of forwards. The client of a trial speaks plaintext, whatever others must speak.
_FOR_A_TRIAL: Mapping[str, object] = {
    "forward": (),
    "sni": None,
    **dict.fromkeys(("client_tls_cert", "client_tls_key", "client_tls_key_password", "client_tls_ca")),
}

# Names that are tried.
_MOST_NAMES = 2


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of one command line: how many of the brokers a client reached through it."""

    line: CommandLine
    reached: int
    """The number of brokers that the client reached."""
    nodes: int
    """The number of all brokers."""
    listen: Address | None = None
    problem: str = ""
    """Why the client did not reach all brokers."""
    unreachable: tuple[NodeKey, ...] = ()
    """Brokers that may have another address."""

    @property
    def works(self) -> bool:
        return self.nodes > 0 and self.reached == self.nodes


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of all trials."""

    best: TrialResult | None = None
    """The best result; None if no command line reached a broker."""
    count: int = 0
    """The number of command lines that were tried."""
    why_none: str = ""
    """Why none was tried."""


async def find_working_line(
    examination: Examination, line: CommandLine, load: Load, selector: RelaySelector
) -> TrialOutcome:
    """Return the first command line that reaches every broker; else the one that reaches most."""
    contacts_so_far = (*examination.bootstrap, *examination.nodes)
    if any(contact.refused for contact in contacts_so_far):
        return TrialOutcome(why_none="the broker refuses the credentials, and tries may lock the account")
    if any(contact.other_clusters for contact in contacts_so_far):
        return TrialOutcome(
            why_none="an address leads to several clusters, so the result of each connection would be random"
        )
    if examination.answering is None:
        return TrialOutcome(why_none="no bootstrap server returns the addresses of the brokers")
    best: TrialResult | None = None
    now = asyncio.get_running_loop().time
    until = now() + _LONGEST
    candidates = _candidates(examination, line)
    for count, candidate in enumerate(candidates, 1):
        if now() >= until:
            return TrialOutcome(best, count - 1)
        try:
            tried = await _try(candidate, load, selector)
        except ConfigError:
            continue
        if tried.works:
            return TrialOutcome(tried, count)
        if tried.reached and (best is None or tried.reached > best.reached):
            best = tried
    return TrialOutcome(best, len(candidates))


def _candidates(examination: Examination, line: CommandLine) -> list[CommandLine]:
    """Return command lines that may work, the simplest first."""
    failed = [contact for contact in examination.nodes if not contact.is_right]
    lines = [*_paired(examination, line), line, *_other_names(examination, line)]
    if failed:
        maps = _maps(examination, failed)
        if maps:
            lines.insert(lines.index(line) + 1, line.with_options(map=tuple(maps)))
    return lines


def _paired(examination: Examination, line: CommandLine) -> Iterator[CommandLine]:
    """Yield the line in which each forward to a TLS broker is paired with the broker whose name its certificate has.

    kproxy then verifies each certificate for the name that the broker advertises, and accepts no other.
    """
    expects_one_name = line.options.get("tls_server_name") is not None
    if not examination.tls or not (expects_one_name or _has_wrong_names(examination)):
        return
    pairs = pairs_by_certificate(examination)
    if pairs:
        fewer = line.with_options(bootstrap_servers=None, tls_server_name=None)
        servers = tuple(str(advertised) for advertised in pairs)
        maps = tuple(f"{advertised}={dial}" for advertised, dial in pairs.items())
        yield fewer.with_options(bootstrap_servers=servers, map=maps)


def pairs_by_certificate(examination: Examination) -> dict[Address, Address]:
    """Return the address to dial for the advertised address of each broker; none if not all are known.

    A bootstrap server is paired with the broker whose advertised name its certificate has. If the certificate has the
    names of several, the answer of the broker decides.
    """
    nodes = [node for node in examination.nodes if node.expected is not None]
    pairs: dict[Address, Address] = {}
    for contact in examination.bootstrap:
        names = () if contact.certificate is None else tuple(name.lower() for name in contact.certificate.names)
        named = [node for node in nodes if _covers(names, node.name.host.lower().removesuffix("."))]
        key = None if contact.identity is None else contact.identity.key
        for node in named:
            if len(named) == 1 or node.expected == key:
                pairs.setdefault(node.name, contact.address)
    listed = {contact.address for contact in examination.bootstrap}
    for node in nodes:  # where a broker was found otherwise, its certificate was checked for its name
        address = None if node.expected is None else examination.working_addresses.get(node.expected)
        if address is not None and address not in listed:
            pairs.setdefault(node.name, address)
    return pairs if len(pairs) == len(nodes) else {}


def _has_wrong_names(examination: Examination) -> bool:
    return any(contact.reason == "tls-name" for contact in (*examination.bootstrap, *examination.nodes))


def with_right_tls(examination: Examination, line: CommandLine) -> CommandLine | None:
    """Return the line with TLS if it was missing, or without it; None if TLS is not the problem."""
    if examination.answering is not None:
        return None
    protocols = {contact.protocol for contact in examination.bootstrap}
    if not examination.tls and PortProtocol.KAFKA_TLS in protocols:
        return line.with_options(tls=True)
    if examination.tls and PortProtocol.KAFKA in protocols:
        return line.with_options(tls=False)
    if examination.tls and any(contact.reason == "tls-name" for contact in examination.bootstrap):
        return next(_other_names(examination, line), None)
    return None


def _other_names(examination: Examination, line: CommandLine) -> Iterator[CommandLine]:
    """Yield the line with each name that the certificates have."""
    return (line.with_options(tls_server_name=name) for name in server_names(examination))


def server_names(examination: Examination) -> list[str]:
    """Return the names that kproxy may expect of every broker: first those in each certificate, then any name."""
    contacts = (*examination.bootstrap, *examination.nodes)
    if not examination.tls or not _has_wrong_names(examination):
        return []
    shown = (contact.certificate.names for contact in contacts if contact.certificate is not None)
    certificates = list(dict.fromkeys(tuple(name.lower() for name in names) for names in shown))
    common = [name for name in _possible_names(certificates) if all(_covers(names, name) for names in certificates)]
    return [*common[:_MOST_NAMES], ANY_NAME]


def _possible_names(certificates: Sequence[Sequence[str]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for names in certificates for name in names))
    plain = [name for name in names if not name.startswith("*.")]
    within = [f"broker{name[1:]}" for name in names if name.startswith("*.")]
    for name in (*plain, *within):
        with contextlib.suppress(ValueError):  # a server may send any text as its name
            yield SERVER_NAME.parse(name)


def _covers(names: Iterable[str], host: str) -> bool:
    """Return True if a certificate with these names is one for this host (RFC 9525 §6.3)."""
    return any(name == host or (name.startswith("*.") and name[1:] == host[host.find(".") :]) for name in names)


def _maps(examination: Examination, failed: Sequence[Contact]) -> list[str]:
    """Return a map for all nodes, or for each that a port of the bootstrap server's host leads to."""
    assert examination.answering is not None
    host, bootstrap_addresses = (
        examination.answering.address.host,
        {contact.address for contact in examination.bootstrap},
    )
    unlisted = {
        key: address for key, address in examination.working_addresses.items() if address not in bootstrap_addresses
    }
    matched = {contact.expected: contact for contact in failed if contact.expected in unlisted}
    if len(matched) == len(failed) and all(
        unlisted[key] == Address(host, contact.name.port) for key, contact in matched.items() if key is not None
    ):
        return [f"*={_bracketed(host)}:{{port}}"]
    return [f"node:{key.label}={_bracketed(host)}:{unlisted[key].port}" for key in matched if key is not None]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _try(line: CommandLine, load: Load, selector: RelaySelector) -> TrialResult:
    """Run kproxy with this line's options, and connect through it.

    Raises ConfigError if it cannot listen.
    """
    try:
        return await _run(line, load(line), selector)
    except ConfigError:
        if "listen" in line.options or line.file is not None:
            raise
    for listen in OTHER_LISTENERS:  # the default port is taken, by another kproxy perhaps
        other_line = line.with_options(listen=str(listen), admin=str(Address(listen.host, listen.port - 1)))
        with contextlib.suppress(ConfigError):
            return await _run(other_line, load(other_line), selector)
    raise ConfigError("no local port is free")


async def _run(line: CommandLine, config: ClusterConfig, selector: RelaySelector) -> TrialResult:
    metrics, config = Metrics(), config.replace(**_FOR_A_TRIAL)
    async with SupervisedTaskGroup("a trial") as tasks:
        sessions = AllSessions(selector, metrics, tasks)
        gateway = Gateway(
            config,
            metrics,
            tasks,
            ConnectionLimit(_FILES),
            partial(sessions.handle_client, config.name),
            sessions.wake,
        )
        sessions.add_clusters([gateway])
        exploring = tasks.create_task(gateway.upstreams[gateway.active].explorer.explore())
        try:
            await asyncio.wait({exploring}, timeout=config.connect_timeout + _MORE)
            async with asyncio.timeout(config.connect_timeout + _MORE):
                return await _through(line, gateway, config)
        except TimeoutError:
            return TrialResult(line, 0, len(gateway.topology.nodes), gateway.bootstrap, "no answer in time")
        except KproxyError as error:
            return TrialResult(line, 0, len(gateway.topology.nodes), gateway.bootstrap, str(error))
        finally:
            exploring.cancel()
            gateway.stop_accepting()
            await sessions.drain(0)
            await gateway.close()


async def _through(line: CommandLine, gateway: Gateway, config: ClusterConfig) -> TrialResult:
    """Return which brokers a client reaches that knows only kproxy's address.

    Raises UpstreamError and WireError.
    """
    client = _TrialClient(config, gateway.tasks)
    nodes = await client.nodes(gateway.bootstrap)
    reachability = gateway.dialer.reachability
    dialled = [
        key
        for key in nodes
        if reachability.of_node(key).problem is None and reachability.of_node(key).route is not None
    ]
    reached = dict(zip(dialled, await asyncio.gather(*[client.meets(key, nodes[key]) for key in dialled]), strict=True))
    failed = (key for key in nodes if not reached.get(key))
    unreachable = tuple(key for key in failed if another_address_may_help(reachability.of_node(key).reason))
    problems = list(dict.fromkeys(reachability.problems.values()))[:3]
    return TrialResult(line, sum(reached.values()), len(nodes), gateway.bootstrap, "; ".join(problems), unreachable)


class _TrialClient:
    """A Kafka client beside kproxy, which speaks plaintext to it."""

    def __init__(self, config: ClusterConfig, tasks: asyncio.TaskGroup) -> None:
        self._dialer = Dialer((), config.connect_timeout, tasks)
        self._identifier = BrokerIdentifier(Topology(LocalPorts(1, 2)))

    async def nodes(self, bootstrap: Address) -> dict[NodeKey, Address]:
        """Return the brokers in the metadata, with their local addresses."""
        with await self._dialer.connect(bootstrap) as sock:
            ask = ConnectionChannel(Stream(sock))
            versions = await questions.ask_versions(ask)
            members = await questions.nodes_question(versions).ask(ask)
        return {NodeKey(contact.kind, contact.node_id): contact.advertised for contact in members.nodes}

    async def meets(self, key: NodeKey, address: Address) -> bool:
        """Return True if that broker answers at this local address, as far as it tells."""
        try:
            with await self._dialer.connect(address) as sock:
                identity = await self._identifier.identify(ConnectionChannel(Stream(sock)), key, address=address)
        except KproxyError:
            return False
        return identity.key in (None, key)
