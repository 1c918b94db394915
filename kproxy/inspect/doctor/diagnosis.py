"""The diagnosis of a cluster from an examination: one finding for each cause, the first to fix first. Pure.

A cause that explains others replaces them: if a hop fails, there is no finding about anything behind it; if the broker
has a listener that works from here, the client only uses the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kproxy.advice.remedies.services import demand_of
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault, fault_set
from kproxy.base.format import abbreviate
from kproxy.inspect.doctor import cluster_checks, direct_access, fixes, intent_checks
from kproxy.inspect.doctor.by_hand import advice_for_name, failing_hop
from kproxy.inspect.doctor.causes import ContactCause, cause_of
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.findings import BROKER, CLIENT, NETWORK, DoctorDiagnostic, Responsible, finding
from kproxy.inspect.doctor.listeners import listener_that_advertises, listeners_of

# Different reasons of one fault that are said.
_REASONS = 3
_OF_SERVICE = (
    "These are addresses of {service}, which sets them itself: no setting of yours changes them. Connect this machine"
    " to the service's network (VPN, peering, private link) with its DNS, or run kproxy through a machine that is in"
    " it: `--via ssh://HOST`."
)
# An address with one of these is known to others, perhaps, and useless to this client.
_WRONG_LISTENER_FAULTS = fault_set(
    """
    name-not-resolved container-name-advertised kubernetes-name-advertised private-address-advertised
    loopback-advertised name-resolves-wrongly port-closed filtered no-route
    """
)


def diagnose(examination: Examination, now: datetime | None = None) -> list[DoctorDiagnostic]:
    """Return all findings, the first to fix first; notes come last."""
    hop = failing_hop(examination)
    if hop is not None:
        return [hop]
    if any(contact.other_clusters for contact in examination.bootstrap):
        # Nothing else that was found is known to be of one cluster.
        return [each for each in _bootstrap(examination, now) if each.fault is Fault.MIXED_CLUSTERS]
    findings = [
        *direct_access.needs_kproxy(examination),
        *cluster_checks.check_kproxy(examination),
        *_bootstrap(examination, now),
        *_mixed_clusters(examination),
        *_advertised(examination, now),
        *_duplicate_addresses(examination),
        *cluster_checks.check_cluster(examination, now),
        *intent_checks.check_intent(examination),
    ]
    return sorted(findings, key=lambda each: not each.is_error)


@dataclass(frozen=True, slots=True)
class _Group:
    """Contacts that fail with the same fault. `cause` is the first one's; `why` has the causes of all."""

    cause: ContactCause
    contacts: list[Contact]
    names: tuple[str, ...]
    why: str


def _grouped(
    contacts: Sequence[Contact], examination: Examination, now: datetime | None, name: Callable[[Contact], str]
) -> list[_Group]:
    """Group the contacts that fail, by fault and by who can fix it."""
    groups: dict[tuple[Fault, Responsible], list[tuple[Contact, ContactCause]]] = {}
    for contact in contacts:
        cause = cause_of(contact, examination, now)
        if cause is not None:
            groups.setdefault((cause.fault, cause.responsible), []).append((contact, cause))
    return [_group(members, name) for members in groups.values()]


def _group(members: Sequence[tuple[Contact, ContactCause]], name: Callable[[Contact], str]) -> _Group:
    reasons: dict[str, list[str]] = {}
    for contact, cause in members:
        reasons.setdefault(cause.why, []).append(name(contact))
    sentences = [f"{abbreviate(names)}: {why}." for why, names in reasons.items()]
    if len(sentences) > _REASONS:
        sentences = [*sentences[:_REASONS], f"And so on for {len(sentences) - _REASONS} more."]
    names = tuple(name(contact) for contact, _ in members)
    return _Group(members[0][1], [contact for contact, _ in members], names, " ".join(sentences))


def _bootstrap(examination: Examination, now: datetime | None) -> Iterator[DoctorDiagnostic]:
    for group in _grouped(examination.bootstrap, examination, now, _server):
        fault = group.cause.fault
        # Others have answered: a client continues with the next server, after a delay.
        is_error = examination.answering is None or fault in (Fault.MIXING_LOAD_BALANCER, Fault.MIXED_CLUSTERS)
        why = group.why if is_error else f"{group.why} Another server answers, so clients still connect, but later."
        fix = fixes.bootstrap(fault, group.contacts[0], examination)
        advice = advice_for_name(examination) if fault is Fault.NAME_NOT_RESOLVED else ""
        yield finding(fault, group.names, why, group.cause.responsible, fix=fix, is_error=is_error, advice=advice)


def _server(contact: Contact) -> str:
    """Return a bootstrap server in words."""
    mapped = contact.address != contact.name
    return f"{contact.name} (dialled: {contact.address})" if mapped else str(contact.name)


def _mixed_clusters(examination: Examination) -> Iterator[DoctorDiagnostic]:
    clusters: dict[str, list[str]] = {}
    for contact in examination.bootstrap:
        if contact.cluster_id is not None:
            clusters.setdefault(contact.cluster_id, []).append(str(contact.name))
    if len(clusters) > 1:
        list_of_clusters = "; ".join(f"{', '.join(servers)}: {cluster_id}" for cluster_id, servers in clusters.items())
        why = (
            f"The bootstrap servers belong to different clusters ({list_of_clusters}). A client uses whichever answers"
            " first."
        )
        about = tuple(server for servers in clusters.values() for server in servers)
        line = f"bootstrap.servers={','.join(about)}"
        fix = tuple(
            line
            for name, servers in clusters.items()
            for line in (f"# for the cluster {name}", f"bootstrap.servers={','.join(servers)}")
        )
        yield finding(Fault.MIXED_BOOTSTRAP, about, why, CLIENT, line, fix)


def _advertised(examination: Examination, now: datetime | None) -> Iterator[DoctorDiagnostic]:
    groups = _grouped(examination.nodes, examination, now, lambda node: f"{node.expected} at {node.name}")
    better = None if examination.via else better_listener(examination)  # the client asks without the hop
    for group in groups:
        cause = group.cause
        if better is not None and cause.fault in _WRONG_LISTENER_FAULTS:
            yield _wrong_listener(examination, group, better)
            continue
        why = group.why
        if cause.responsible is BROKER and not examination.mapped:
            why = f"The broker advertises an address that does not work here. {why}"
        service = _service(group.contacts)
        if service and cause.fault in _WRONG_LISTENER_FAULTS:
            advice = _OF_SERVICE.format(service=service)
            yield finding(cause.fault, group.names, group.why, NETWORK, advice=advice)
            continue
        line, fix = fixes.advertised(cause.fault, group.contacts, examination)
        if cause.responsible is not BROKER and not examination.mapped:
            line = ""  # what the broker advertises is not what is wrong
        yield finding(cause.fault, group.names, why, cause.responsible, line, fix)
    if not groups:
        yield from _works_here_only(examination)


def _service(contacts: Sequence[Contact]) -> str:
    """Return the cloud service to which the advertised addresses belong, if all do; "" if not."""
    demands = [demand_of(contact.name.host, contact.name.port) for contact in contacts]
    services = {"" if demand is None else demand.service for demand in demands}
    return services.pop() if len(services) == 1 else ""


def better_listener(examination: Examination) -> Contact | None:
    """Return the address of another listener of the broker, through which every broker is reached from here."""
    cluster = None if examination.answering is None else examination.answering.cluster_id
    works = (listener.contact for listener in examination.other_listeners if listener.works)
    return next((contact for contact in works if contact.cluster_id == cluster), None)


def _wrong_listener(examination: Examination, group: _Group, better: Contact) -> DoctorDiagnostic:
    listeners = listeners_of(examination.settings or {})
    own = examination.contact_with_answering(group.contacts)
    used = listener_that_advertises(listeners, own.name)
    better_one = listener_that_advertises(listeners, better.address)
    assert examination.answering is not None
    why = (
        f"The client asked the wrong listener. {examination.answering.address} leads to the listener"
        f" {used.name if used else 'that others use'}. {group.why} The broker's listener"
        f" {better_one.name if better_one else ''} advertises {better.address}, and that works from here."
    )
    line = f"bootstrap.servers={','.join(str(one.name) for one in examination.bootstrap)}"
    fix = (f"bootstrap.servers={better.address}", *fixes.protocol(better_one.protocol if better_one else "PLAINTEXT"))
    return finding(
        Fault.WRONG_LISTENER,
        group.names,
        " ".join(why.split()),
        CLIENT,
        line,
        fix,
        symptom=group.cause.fault,
    )


def _works_here_only(examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find addresses that work for clients on this machine only."""
    for contact in examination.nodes:
        place = classify(contact.name.host)
        if place in (AddressClass.LOOPBACK, AddressClass.WILDCARD):
            fault = Fault.LOOPBACK_ADVERTISED if place is AddressClass.LOOPBACK else Fault.WILDCARD_ADVERTISED
            where = "this machine" if not examination.via else f"the machine of {examination.via[-1]}"
            why = (
                f"{contact.expected} advertises {contact.name}, which works on {where} only."
                " Clients in containers and on other machines will fail."
            )
            line, fix = fixes.advertised(fault, [contact], examination)
            yield finding(fault, (str(contact.advertised),), why, BROKER, line, fix, is_error=False)
            return


def _duplicate_addresses(examination: Examination) -> Iterator[DoctorDiagnostic]:
    brokers: dict[str, list[Contact]] = {}
    for contact in examination.nodes:
        brokers.setdefault(str(contact.name), []).append(contact)
    for address, contacts in brokers.items():
        if len(contacts) > 1:
            names = abbreviate([contact.expected for contact in contacts])
            why = f"{names} all advertise {address}. A client that wants one of them reaches whichever listens there."
            line, fix = fixes.same_address(contacts, examination)
            yield finding(Fault.SAME_ADDRESS_TWICE, (address,), why, BROKER, line, fix)
