"""Problems other than addresses: the controller, topics, rights, coordinators, versions, certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate
from kproxy.inspect.doctor import client_versions, fixes
from kproxy.inspect.doctor.evidence import Examination
from kproxy.inspect.doctor.findings import CERTIFICATE, CLIENT, CLUSTER, RIGHTS, DoctorDiagnostic, finding
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.wire.errorcodes import ErrorCode

_COORDINATOR_ERRORS = {14: "it is loading", 15: "no broker coordinates it now", 16: "another broker coordinates it"}
# A certificate that ends sooner than this is worth a note.
_SOON = timedelta(days=30)


def check_cluster(examination: Examination, now: datetime | None = None) -> Iterator[DoctorDiagnostic]:
    """Find such problems; none if no broker answered."""
    if examination.answering is None:
        return
    yield from _nodes(examination)
    yield from _topics(examination)
    yield from _topic_rights(examination)
    yield from _coordinator(examination)
    yield from _versions(examination)
    yield from _certificates(examination, now or datetime.now(UTC))


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


def _topic_rights(examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find rights that this user lacks on the topic of --topic."""
    if examination.topic is None or examination.contents is None:
        return
    topic = next((topic for topic in examination.contents.topics if topic.name == examination.topic), None)
    if topic is None or topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        hidden = "does not exist, or this user may not see it (the operation Describe on the topic)"
        why = f"The topic {examination.topic} {hidden}. A broker answers both alike."
        fix = fixes.rights(examination, examination.topic, ("Describe",))
        yield finding(Fault.TOPIC_UNKNOWN, (examination.topic,), why, RIGHTS, fix=fix)
        return
    denied = tuple(name for name in ("Read", "Write") if topic.allowed is not None and name not in topic.allowed)
    if denied:
        text = " and ".join(denied)
        why = f"The principal {fixes.principal(examination)} may not {text} the topic {examination.topic}."
        fix = fixes.rights(examination, examination.topic, denied)
        yield finding(Fault.NOT_AUTHORIZED, (examination.topic,), why, RIGHTS, fix=fix)


def _coordinator(examination: Examination) -> Iterator[DoctorDiagnostic]:
    if examination.coordinator is None:
        return
    error, _ = examination.coordinator
    group = examination.group or "a group"
    if error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        why = f"The principal {fixes.principal(examination)} may not use {group} (the operations Describe and Read)."
        fix = fixes.group_rights(examination)
        # Without --group, the group is one without members.
        yield finding(Fault.NOT_AUTHORIZED, (group,), why, RIGHTS, fix=fix, is_error=examination.group is not None)
    elif error != ErrorCode.NONE:
        why = f"No coordinator was found for {group}: {_COORDINATOR_ERRORS.get(error, f'error {error}')}."
        yield finding(Fault.NO_COORDINATOR, (group,), why, CLUSTER)


def _versions(examination: Examination) -> Iterator[DoctorDiagnostic]:
    asked = examination.answering
    if asked is None or not asked.versions:
        return
    about = (str(asked.address),)
    if examination.client is not None:
        conflict = client_versions.version_conflict(examination.client, asked.versions)
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
