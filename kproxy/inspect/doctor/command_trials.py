"""Finds a `kproxy run` line that works: each that might is run, in this process, and a client connects through it.

A line counts as working if a client that knows only kproxy's address gets the metadata, connects to the local address
of each broker, and meets the broker that should be there. Nothing is printed that was not tried.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kproxy.base.address import Address
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.client.ask import questions
from kproxy.client.ask.channel import ConnectionChannel
from kproxy.config import ClusterConfig
from kproxy.config.options import OTHER_LISTENERS
from kproxy.inspect.doctor.certificate_names import server_names
from kproxy.inspect.doctor.command_line import CommandLine
from kproxy.inspect.doctor.contact import ContactMaker
from kproxy.inspect.doctor.evidence import Contact, Examination, PortProtocol
from kproxy.net.dial.dialer import Dialer
from kproxy.net.dial.stream import Stream
from kproxy.proxy.cluster.allsessions import AllSessions
from kproxy.proxy.cluster.connectionlimit import ConnectionLimit
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.identity import BrokerIdentifier
from kproxy.proxy.cluster.tasks import SupervisedTaskGroup
from kproxy.proxy.cluster.topology import NodeKey, Topology
from kproxy.proxy.metrics import Metrics
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.status.model import another_address_may_help

Load = Callable[[CommandLine], ClusterConfig]
"""The cluster that a line configures. Raises ConfigError."""

# The connections of a trial are few.
_FILES = 4096
# How long a trial waits for kproxy to find its nodes, beyond the time for one connection, in seconds.
_MORE = 1.0
# After so many seconds no further line is tried.
_LONGEST = 5.0
# The running kproxy may have the ports of forwards. The client of a trial speaks plaintext, whatever others must speak.
_FOR_A_TRIAL: Mapping[str, object] = {
    "forward": (),
    "sni": None,
    **dict.fromkeys(("client_tls_cert", "client_tls_key", "client_tls_key_password", "client_tls_ca")),
}


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a line: how many brokers a client reached through it, of those that there are; in `problem` why not
    all, and in `lost` those that may be at another address."""

    line: CommandLine
    reached: int
    nodes: int
    listen: Address | None = None
    problem: str = ""
    lost: tuple[NodeKey, ...] = ()

    @property
    def works(self) -> bool:
        return self.nodes > 0 and self.reached == self.nodes


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What came of looking for a line: the best that was `tried`, None if none reached a broker; how many were; or in
    `why_none` why none was."""

    tried: TrialResult | None = None
    count: int = 0
    why_none: str = ""


async def find_working_line(
    examination: Examination, line: CommandLine, load: Load, contacts: ContactMaker, selector: RelaySelector
) -> TrialOutcome:
    """The first line that reaches every broker; else the one that reaches most."""
    everyone = (*examination.bootstrap, *examination.nodes)
    if any(one.refused for one in everyone):
        return TrialOutcome(why_none="the broker refuses the credentials, and tries may lock the account")
    if any(one.other_clusters for one in everyone):
        return TrialOutcome(
            why_none="an address leads to several clusters, so each connection would be a matter of luck"
        )
    if examination.asked is None:
        return TrialOutcome(why_none="no bootstrap server tells which brokers there are")
    best: TrialResult | None = None
    now = asyncio.get_running_loop().time
    until = now() + _LONGEST
    candidates = _candidates(examination, line, contacts)
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


def _candidates(examination: Examination, line: CommandLine, contacts: ContactMaker) -> list[CommandLine]:
    """Lines that might work, the simplest first."""
    lost = [contact for contact in examination.nodes if not contact.is_right]
    lines = [line, *_other_names(examination, line)]
    if lost and not contacts.logs_in:
        maps = _maps(examination, lost)
        if maps:
            lines.insert(1, line.with_options(map=tuple(maps)))
    return lines


def with_right_tls(examination: Examination, line: CommandLine) -> CommandLine | None:
    """The line with TLS where it was missing, without where there is none; None if that is not what is wrong."""
    if examination.asked is not None:
        return None
    spoken = {contact.spoken for contact in examination.bootstrap}
    if not examination.tls and PortProtocol.KAFKA_TLS in spoken:
        return line.with_options(tls=True)
    if examination.tls and PortProtocol.KAFKA in spoken:
        return line.with_options(tls=False)
    if examination.tls and any(contact.reason == "tls-name" for contact in examination.bootstrap):
        return next(_other_names(examination, line), None)
    return None


def _other_names(examination: Examination, line: CommandLine) -> Iterator[CommandLine]:
    """With a name that the certificates have."""
    return (line.with_options(tls_server_name=name) for name in server_names(examination))


def _maps(examination: Examination, lost: Sequence[Contact]) -> list[str]:
    """A map for all nodes, or for each that is reached at a port of the bootstrap server's host."""
    assert examination.asked is not None
    host, known = examination.asked.address.host, {contact.address for contact in examination.bootstrap}
    here = {key: address for key, address in examination.here.items() if address not in known}
    met = {one.expected: one for one in lost if one.expected in here}
    if len(met) == len(lost) and all(
        here[key] == Address(host, (one.advertised or one.address).port) for key, one in met.items() if key is not None
    ):
        return [f"*={_bracketed(host)}:{{port}}"]
    return [f"node:{key.label}={_bracketed(host)}:{here[key].port}" for key in met if key is not None]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _try(line: CommandLine, load: Load, selector: RelaySelector) -> TrialResult:
    """Run kproxy with this line's options, and connect through it. Raises ConfigError if it cannot listen."""
    try:
        return await _run(line, load(line), selector)
    except ConfigError:
        if "listen" in line.options or line.file is not None:
            raise
    for listen in map(str, OTHER_LISTENERS):  # the default port is taken, by another kproxy perhaps
        other = line.with_options(listen=listen, admin=str(_before(listen)))
        with contextlib.suppress(ConfigError):
            return await _run(other, load(other), selector)
    raise ConfigError("no local port is free")


def _before(listen: str) -> Address:
    address = Address.parse(listen)
    return Address(address.host, address.port - 1)


async def _run(line: CommandLine, config: ClusterConfig, selector: RelaySelector) -> TrialResult:
    metrics, config = Metrics(), config.model_copy(update=_FOR_A_TRIAL)
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
        exploring = tasks.create_task(gateway.explorer.explore())
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
    """What a client reaches that knows only kproxy's address. Raises UpstreamError and WireError."""
    client = _TrialClient(config, gateway.tasks)
    nodes = await client.nodes(gateway.bootstrap)
    known = gateway.dialer.reachability
    found = [key for key in nodes if known.of_node(key).problem is None and known.of_node(key).route is not None]
    met = dict(zip(found, await asyncio.gather(*[client.meets(key, nodes[key]) for key in found]), strict=True))
    failed = (key for key in nodes if not met.get(key))
    lost = tuple(key for key in failed if another_address_may_help(known.of_node(key).reason))
    problems = list(dict.fromkeys(known.problems.values()))[:3]
    return TrialResult(line, sum(met.values()), len(nodes), gateway.bootstrap, "; ".join(problems), lost)


class _TrialClient:
    """A Kafka client beside kproxy, which speaks plaintext to it."""

    def __init__(self, config: ClusterConfig, tasks: asyncio.TaskGroup) -> None:
        self._dialer = Dialer((), config.connect_timeout, tasks)
        self._identifier = BrokerIdentifier(Topology(1, 2))

    async def nodes(self, bootstrap: Address) -> dict[NodeKey, Address]:
        """The brokers that the metadata names, at their local addresses."""
        with await self._dialer.connect(bootstrap) as sock:
            ask = ConnectionChannel(Stream(sock))
            versions = await questions.ask_versions(ask)
            members = await questions.nodes_question(versions).ask(ask)
        return {NodeKey(contact.kind, contact.node_id): contact.advertised for contact in members.nodes}

    async def meets(self, key: NodeKey, address: Address) -> bool:
        """Whether that broker answers at this local address, as far as it tells."""
        try:
            with await self._dialer.connect(address) as sock:
                identity = await self._identifier.identify(ConnectionChannel(Stream(sock)), key)
        except KproxyError:
            return False
        return identity.key in (None, key)
