"""The change at each broker after which this machine can connect to it at an advertised address. Pure.

The address that is wrong here may serve other clients. So it stays, and all brokers get one more listener: clients of a
listener do not see brokers that lack it. Only if no broker uses the listener, and it is clearly meant for this client,
its address is replaced. The listener that brokers use among themselves always stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kproxy.base.address import Address
from kproxy.base.addressclass import AddressClass, classify, is_loopback
from kproxy.base.faults import Fault
from kproxy.inspect.doctor import listeners as settings
from kproxy.inspect.doctor.evidence import BrokerListener, Contact, Examination
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.cluster.topology import NodeKey

_HOST = "HOST"
# Ports that a new listener may have, the first free one.
_PORTS = (9094, 9095, 9096, 19094, 29094)
_USELESS_TO_OTHERS = (Fault.LOOPBACK_ADVERTISED, Fault.WILDCARD_ADVERTISED)


@dataclass(frozen=True, slots=True)
class VisibleSettings:
    """The settings of a broker, as it returns them, and its `listener` whose address is wrong."""

    values: Mapping[str, str]
    listener: BrokerListener
    secret: tuple[str, ...] = ()
    """The settings of this listener alone that cannot be copied."""
    dynamic: frozenset[str] = frozenset()
    """The settings that were set while the broker ran."""


@dataclass(frozen=True, slots=True)
class ExaminedBroker:
    """One broker."""

    key: NodeKey
    advertised_address: Address
    """The wrong address that clients get."""
    working_address: Address | None
    """An address at which this machine can connect to the broker; None if kproxy knows none."""
    visible: VisibleSettings | None
    """Its settings; None for the reason in `why_not_visible`."""
    why_not_visible: str = ""

    @property
    def forwarded(self) -> int | None:
        """The broker's own port, if `working_address` has another one: a forwarder listens there, not a broker."""
        port = None if self.visible is None or self.working_address is None else settings.port_of(self.visible.listener)
        return port if self.working_address is not None and port != self.working_address.port else None

    @property
    def hosts(self) -> set[str]:
        """The hosts by which the broker is known, to tell which brokers may run on one machine."""
        listeners = settings.listeners_of(self.visible.values) if self.visible is not None else []
        near_hosts = [] if self.working_address is None or self.forwarded is not None else [self.working_address.host]
        return {
            self.advertised_address.host,
            *near_hosts,
            *(listener.advertised.host for listener in listeners if listener.advertised is not None),
        }

    @property
    def ports(self) -> set[int]:
        ports = settings.ports(self.visible.values) if self.visible is not None else set()
        return ports | {
            self.advertised_address.port,
            *([self.working_address.port] if self.working_address is not None else []),
        }


@dataclass(frozen=True, slots=True)
class ListenerChange:
    """The change at one broker: the listener that is new, or gets another address."""

    broker: ExaminedBroker
    name: str
    protocol: str
    address: Address
    port: int | None
    """The port of a new listener; None for a listener that exists."""
    changed: Mapping[str, str]
    """The changed settings; none if those of the broker are not visible."""


def brokers_of(examination: Examination, *, for_others: bool) -> list[ExaminedBroker]:
    """Return all brokers of the cluster.

    `for_others`: the addresses must serve other machines than this one, so no known address is used. Neither are
    addresses that only a hop can connect to.
    """
    brokers = []
    for contact in examination.nodes:
        key = contact.expected
        if key is None or key.kind is not NodeKind.BROKER:
            continue
        working_address = None if for_others or examination.via else examination.working_addresses.get(key)
        if working_address is not None and (
            classify(working_address.host) is AddressClass.WILDCARD or not settings.is_plain(working_address.host)
        ):
            working_address = None
        advertised = contact.name
        visible = _visible_settings(examination, key, advertised)
        brokers.append(
            ExaminedBroker(
                key,
                advertised,
                working_address,
                *((visible, "") if isinstance(visible, VisibleSettings) else (None, visible)),
            )
        )
    return brokers


def _visible_settings(examination: Examination, key: NodeKey, advertised: Address) -> VisibleSettings | str:
    """Return the settings of this broker; or, in words, why they are not visible."""
    settings_of_broker = examination.broker_settings.get(key)
    if settings_of_broker is None:
        if key in examination.working_addresses:
            return "this user may not see the settings (that needs DescribeConfigs on the cluster)"
        return "kproxy did not get there, so it has not seen the settings"
    values = {name: value for name, value in settings_of_broker.values.items() if value}
    if not settings.are_readable(values):
        return "the settings have a form that kproxy does not know"
    listener = settings.listener_that_advertises(settings.listeners_of(values), advertised)
    if listener is None:
        return f"the settings do not show which listener advertises {advertised}"
    own = f"listener.name.{listener.name.lower()}."
    named = [name for name in settings_of_broker.values if name.startswith(own) and settings.is_name(name)]
    secret = [name for name in named if not settings.is_plain(values.get(name, ""))]
    return VisibleSettings(values, listener, tuple(secret), settings_of_broker.dynamic)


def listener_changes(
    fault: Fault, contacts: Sequence[Contact], examination: Examination, brokers: Sequence[ExaminedBroker]
) -> list[ListenerChange]:
    """Return the changes after which these contacts work."""
    failing = {contact.expected for contact in contacts}
    others = [contact for contact in examination.nodes if contact.expected not in failing]
    others_are_right = bool(others) and all(other.is_right for other in others)
    moved = [_with_new_address(fault, broker, others_are_right) for broker in brokers if broker.key in failing]
    complete = [change for change in moved if change is not None]
    return complete if complete and len(complete) == len(moved) else _with_new_listener(brokers, examination)


def _with_new_address(fault: Fault, broker: ExaminedBroker, others_are_right: bool) -> ListenerChange | None:
    """Return the listener with an address that works here; None if other clients may need its present address."""
    visible, working_address = broker.visible, broker.working_address
    if visible is None or working_address is None or is_loopback(working_address.host):
        return None
    if visible.listener.name.upper() == settings.inter_broker_listener(visible.values):
        return None
    if sum(listener.advertised == broker.advertised_address for listener in settings.listeners_of(visible.values)) != 1:
        return None
    is_meant = fault in _USELESS_TO_OTHERS or (
        fault is Fault.PORT_CLOSED and broker.advertised_address.host == working_address.host
    )
    if not (is_meant or others_are_right):
        return None
    changed = settings.with_address(visible.values, visible.listener, working_address, broker.advertised_address)
    return ListenerChange(broker, visible.listener.name, visible.listener.protocol, working_address, None, changed)


def _with_new_listener(brokers: Sequence[ExaminedBroker], examination: Examination) -> list[ListenerChange]:
    """Return one more listener for all brokers."""
    every = [broker.visible for broker in brokers if broker.visible is not None]
    name = settings.new_name([broker.values for broker in every])
    protocol = next((broker.listener.protocol for broker in every), _protocol(examination))
    ports = _new_ports(brokers)
    changes = []
    for broker in brokers:
        port, changed = ports[broker.key], {}
        if broker.working_address is None:  # only the user knows the host; each broker gets another one
            address = Address(
                _HOST if broker.visible is None or len(brokers) == 1 else f"{_HOST}-{broker.key.node_id}", port
            )
        else:
            address = (
                broker.working_address if broker.forwarded is not None else Address(broker.working_address.host, port)
            )
        if broker.visible is not None:
            bound = (broker.visible.listener.bind or "").rpartition(":")[0]
            new = BrokerListener(name, protocol, f"{bound}:{port}", address)
            changed = settings.with_listener(
                broker.visible.values, broker.visible.listener, new, broker.advertised_address
            )
        changes.append(ListenerChange(broker, name, protocol, address, port, changed))
    return changes


def _new_ports(brokers: Sequence[ExaminedBroker]) -> dict[NodeKey, int]:
    """Return a port for each broker's new listener: another one for brokers that may run on one machine."""
    chosen: dict[NodeKey, int] = {}
    for broker in brokers:
        near = [other for other in brokers if broker.hosts & other.hosts]
        taken = {port for other in near for port in (*other.ports, chosen.get(other.key))}
        chosen[broker.key] = next(port for port in chain(_PORTS, range(9097, 65536)) if port not in taken)
    return chosen


def _protocol(examination: Examination) -> str:
    """Return the protocol of this client."""
    if examination.login is not None:
        return "SASL_SSL" if examination.tls else "SASL_PLAINTEXT"
    return "SSL" if examination.tls else "PLAINTEXT"
