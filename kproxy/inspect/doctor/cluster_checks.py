"""Problems of the cluster other than addresses: controller, leaders, versions, certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate
from kproxy.inspect.doctor import client_versions, fixes
from kproxy.inspect.doctor.evidence import Examination
from kproxy.inspect.doctor.findings import CERTIFICATE, CLIENT, CLUSTER, MACHINE, NETWORK, DoctorDiagnostic, finding
from kproxy.protocol.rewrite.endpoints import NodeKind

# A certificate that ends sooner than this is worth a note.
_SOON = timedelta(days=30)


def check_cluster(examination: Examination, now: datetime | None = None) -> Iterator[DoctorDiagnostic]:
    """Find such problems; none if no broker answered."""
    if examination.answering is None:
        return
    yield from _nodes(examination)
    yield from _topics(examination)
    yield from _versions(examination)
    yield from _certificates(examination, now or datetime.now(UTC))


def check_kproxy(examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find what the kproxy on this machine knows of the cluster: it refuses it, or addresses no longer lead to nodes.

    It refuses a cluster that was created again, perhaps.
    """
    kproxy = examination.refusing_kproxy
    if kproxy is not None:
        text = f"The kproxy on this machine (--admin {kproxy.admin}) disconnects clients: {kproxy.problem}."
        yield finding(Fault.WRONG_CLUSTER, (f"kproxy at {kproxy.admin}",), text, MACHINE)
    reached = {contact.expected for contact in examination.nodes if contact.is_right}
    for route in examination.ended_routes:
        if route.node not in reached:
            since = datetime.fromtimestamp(int(route.since), UTC).isoformat()
            text = f"No longer leads to {route.node} since {since}, says the kproxy at {route.admin}: {route.problem}."
            yield finding(Fault.FORWARD_ENDED, (route.address,), text, NETWORK)


def _nodes(examination: Examination) -> Iterator[DoctorDiagnostic]:
    contents = examination.contents
    if contents is None:
        return
    present = {
        contact.expected.node_id
        for contact in examination.nodes
        if contact.expected and contact.expected.kind is NodeKind.BROKER
    }
    partitions = [partition for topic in contents.topics for partition in topic.partitions]
    wanted = {node for partition in partitions for node in (*partition.replicas, partition.leader) if node >= 0}
    missing = sorted(wanted - present)
    if missing:
        names = ", ".join(f"broker {node}" for node in missing)
        why = (
            f"{names}: partitions have copies there, and the metadata does not name the broker: it is down, or cannot"
            " reach its controller. Clients cannot get its address."
        )
        yield finding(Fault.BROKER_MISSING, tuple(f"broker {node}" for node in missing), why, CLUSTER)
    if contents.controller_id < 0:
        why = "The cluster names no controller. Topics cannot be created, and leaders cannot move."
        yield finding(Fault.NO_CONTROLLER, (), why, CLUSTER)


def _topics(examination: Examination) -> Iterator[DoctorDiagnostic]:
    topics = examination.contents.topics if examination.contents else ()
    leaderless_partitions = {
        topic.name: [part.index for part in topic.partitions if part.is_leaderless] for topic in topics
    }
    leaderless = [name for name, parts in leaderless_partitions.items() if parts]
    if leaderless:
        names = ", ".join(f"{name} (partition {abbreviate(leaderless_partitions[name])})" for name in leaderless[:3])
        more = f" and {len(leaderless) - 3} more topics" if len(leaderless) > 3 else ""
        why = f"No broker leads {names}{more}. Clients wait for a leader, and time out."
        about = tuple(leaderless)
        yield finding(Fault.NO_LEADER, about, why, CLUSTER, fix=fixes.leaderless(examination))


def _versions(examination: Examination) -> Iterator[DoctorDiagnostic]:
    asked = examination.answering
    if asked is None or not asked.versions:
        return
    about = (str(asked.address),)
    if examination.intent.client is not None:
        conflict = client_versions.version_conflict(examination.intent.client, asked.versions)
        if conflict is not None:
            yield finding(conflict[0], about, conflict[1], CLIENT)
        return
    checks = "--client NAME:VERSION checks yours."
    if client_versions.is_4_0(asked.versions):
        why = (
            "The brokers are Kafka 4.0 or newer. They refuse old clients (KIP-896), such as the Java client before 2.1."
        )
        yield finding(Fault.CLIENT_TOO_OLD, about, f"{why} {checks}", CLIENT, is_error=False)
    elif client_versions.is_before_2_1(asked.versions):
        why = "The brokers are older than Kafka 2.1. The Java client 4.0 and newer cannot use them (KIP-896)."
        yield finding(Fault.BROKER_TOO_OLD, about, f"{why} {checks}", CLUSTER, is_error=False)


def _certificates(examination: Examination, now: datetime) -> Iterator[DoctorDiagnostic]:
    for contact in (*examination.bootstrap, *examination.nodes):
        certificate = contact.certificate
        if certificate is not None and not contact.reason and now < certificate.not_after < now + _SOON:
            ends = f"ends in {(certificate.not_after - now).days} days, {certificate.not_after:%Y-%m-%d %H:%M} UTC"
            why = f"The certificate of {contact.address} {ends}."
            yield finding(Fault.CERTIFICATE_EXPIRED, (str(contact.address),), why, CERTIFICATE, is_error=False)
            return
