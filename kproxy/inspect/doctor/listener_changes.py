"""The change at each broker after which this machine reaches it at an advertised address. Pure.

The address that is wrong here may serve others. So it stays, and all brokers get one more listener: clients of a
listener do not see brokers that lack it. Only where no broker uses the listener, and it is plain that this client is
meant, its address becomes another. What brokers use among themselves always stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kproxy.advice.remedies.faults import Fault
from kproxy.base.address import Address
from kproxy.inspect.doctor import listeners as settings
from kproxy.inspect.doctor.address_class import AddressClass, classify, is_loopback
from kproxy.inspect.doctor.evidence import BrokerListener, Contact, Examination
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster.topology import NodeKey

_HOST = "HOST"
# Ports that a new listener may have, the first free one.
_PORTS = (9094, 9095, 9096, 19094, 29094)
_USELESS_TO_OTHERS = (Fault.LOOPBACK_ADVERTISED, Fault.WILDCARD_ADVERTISED)


@dataclass(frozen=True, slots=True)
class VisibleSettings:
    """The settings of a broker as it tells them, and its `listener` whose address is wrong. `secret`: the settings of
    this listener alone that cannot be copied; `dynamic`: those that were set while the broker ran."""

    values: Mapping[str, str]
    listener: BrokerListener
    secret: tuple[str, ...] = ()
    dynamic: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExaminedBroker:
    """One broker. `wrong`: what it tells this client; `here`: where this machine reaches it, None if kproxy does not
    know. `seen` is None for the reason `unseen`."""

    key: NodeKey
    wrong: Address
    here: Address | None
    seen: VisibleSettings | None
    unseen: str = ""

    @property
    def forwarded(self) -> int | None:
        """The broker's own port, if `here` has another: what listens there is no broker, but leads to one."""
        port = None if self.seen is None or self.here is None else settings.port_of(self.seen.listener)
        return port if self.here is not None and port != self.here.port else None

    @property
    def hosts(self) -> set[str]:
        """The hosts by which it is known, to tell which brokers may be on one machine."""
        known = settings.listeners_of(self.seen.values) if self.seen is not None else []
        near = [] if self.here is None or self.forwarded is not None else [self.here.host]
        return {self.wrong.host, *near, *(one.advertised.host for one in known if one.advertised is not None)}

    @property
    def ports(self) -> set[int]:
        ports = settings.ports(self.seen.values) if self.seen is not None else set()
        return ports | {self.wrong.port, *([self.here.port] if self.here is not None else [])}


@dataclass(frozen=True, slots=True)
class ListenerChange:
    """The change at one broker: the listener that is new, or has another address then. `port`: the one that a new
    listener has, None for one that is there. `changed`: the settings, none if those of the broker are not seen."""

    broker: ExaminedBroker
    name: str
    protocol: str
    address: Address
    port: int | None
    changed: Mapping[str, str]


def brokers_of(examination: Examination, *, for_others: bool) -> list[ExaminedBroker]:
    """All brokers of the cluster. `for_others`: the addresses must serve other machines than this one, so none of those
    that are known will do. Neither do addresses that only a hop reaches."""
    made = []
    for contact in examination.nodes:
        key = contact.expected
        if key is None or key.kind is not NodeKind.BROKER:
            continue
        here = None if for_others or examination.via else examination.here.get(key)
        if here is not None and (classify(here.host) is AddressClass.WILDCARD or not settings.is_plain(here.host)):
            here = None
        wrong = contact.advertised or contact.address
        seen = _seen(examination, key, wrong)
        made.append(
            ExaminedBroker(key, wrong, here, *((seen, "") if isinstance(seen, VisibleSettings) else (None, seen)))
        )
    return made


def _seen(examination: Examination, key: NodeKey, wrong: Address) -> VisibleSettings | str:
    """The settings of this broker; or, in words, why they are not seen."""
    told = examination.told.get(key)
    if told is None:
        if key in examination.here:
            return "no settings are told to this user (that needs DescribeConfigs on the cluster)"
        return "kproxy did not get there, so it has not seen the settings"
    values = {name: value for name, value in told.values.items() if value}
    if not settings.are_readable(values):
        return "the settings have a form that kproxy does not know"
    listener = settings.listener_that_advertises(settings.listeners_of(values), wrong)
    if listener is None:
        return f"the settings do not show which listener advertises {wrong}"
    own = f"listener.name.{listener.name.lower()}."
    named = [name for name in told.values if name.startswith(own) and settings.is_name(name)]
    secret = [name for name in named if not settings.is_plain(values.get(name, ""))]
    return VisibleSettings(values, listener, tuple(secret), told.dynamic)


def listener_changes(
    fault: Fault, contacts: Sequence[Contact], examination: Examination, brokers: Sequence[ExaminedBroker]
) -> list[ListenerChange]:
    """The changes after which these contacts work."""
    failing = {contact.expected for contact in contacts}
    others = [contact for contact in examination.nodes if contact.expected not in failing]
    others_are_right = bool(others) and all(other.is_right for other in others)
    moved = [_moved(fault, broker, others_are_right) for broker in brokers if broker.key in failing]
    whole = [one for one in moved if one is not None]
    return whole if whole and len(whole) == len(moved) else _added(brokers, examination)


def _moved(fault: Fault, broker: ExaminedBroker, others_are_right: bool) -> ListenerChange | None:
    """The listener with an address where this machine reaches it; None if others may need the one that it has."""
    seen, here = broker.seen, broker.here
    if seen is None or here is None or is_loopback(here.host):
        return None
    if seen.listener.name.upper() == settings.between(seen.values):
        return None
    if sum(one.advertised == broker.wrong for one in settings.listeners_of(seen.values)) != 1:
        return None
    meant = fault in _USELESS_TO_OTHERS or (fault is Fault.PORT_CLOSED and broker.wrong.host == here.host)
    if not (meant or others_are_right):
        return None
    changed = settings.with_address(seen.values, seen.listener, here, broker.wrong)
    return ListenerChange(broker, seen.listener.name, seen.listener.protocol, here, None, changed)


def _added(brokers: Sequence[ExaminedBroker], examination: Examination) -> list[ListenerChange]:
    """One more listener for all brokers."""
    every = [broker.seen for broker in brokers if broker.seen is not None]
    name = settings.new_name([one.values for one in every])
    protocol = next((one.listener.protocol for one in every), _protocol(examination))
    ports = _new_ports(brokers)
    made = []
    for one in brokers:
        port, changed = ports[one.key], {}
        if one.here is None:  # what only the user knows; of brokers that are told all lines, for each another
            address = Address(_HOST if one.seen is None or len(brokers) == 1 else f"{_HOST}-{one.key.node_id}", port)
        else:
            address = one.here if one.forwarded is not None else Address(one.here.host, port)
        if one.seen is not None:
            bound = (one.seen.listener.bind or "").rpartition(":")[0]
            new = BrokerListener(name, protocol, f"{bound}:{port}", address)
            changed = settings.with_listener(one.seen.values, one.seen.listener, new, one.wrong)
        made.append(ListenerChange(one, name, protocol, address, port, changed))
    return made


def _new_ports(brokers: Sequence[ExaminedBroker]) -> dict[NodeKey, int]:
    """A port for each broker's new listener: another one where brokers may be on one machine."""
    chosen: dict[NodeKey, int] = {}
    for broker in brokers:
        near = [other for other in brokers if broker.hosts & other.hosts]
        taken = {port for other in near for port in (*other.ports, chosen.get(other.key))}
        chosen[broker.key] = next(port for port in chain(_PORTS, range(9097, 65536)) if port not in taken)
    return chosen


def _protocol(examination: Examination) -> str:
    """The protocol of this client."""
    if examination.login is not None:
        return "SASL_SSL" if examination.tls else "SASL_PLAINTEXT"
    return "SSL" if examination.tls else "PLAINTEXT"
