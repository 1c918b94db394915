"""What is wrong beyond addresses: the controller, topics, rights, coordinators, versions, certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from kproxy.advice.remedies.faults import Fault
from kproxy.client.ask.contents import GROUP_REFUSED, TOPIC_REFUSED, Topic
from kproxy.client.ask.questions import NONE
from kproxy.inspect.doctor import client_versions, fixes
from kproxy.inspect.doctor.evidence import Examination
from kproxy.inspect.doctor.findings import DoctorFinding, Responsible
from kproxy.protocol.rewrite.endpoints import NodeKind

_COORDINATOR_ERRORS = {14: "it is loading", 15: "no broker coordinates it now", 16: "another broker coordinates it"}
# A certificate that ends sooner than this is worth a note.
_SOON = timedelta(days=30)


def findings(found: Examination, now: datetime | None = None) -> Iterator[DoctorFinding]:
    """Nothing where nobody answered."""
    if found.asked is None:
        return
    yield from _nodes(found)
    yield from _topics(found)
    yield from _asked_topic(found)
    yield from _coordinator(found)
    yield from _versions(found)
    yield from _certificates(found, now or datetime.now(UTC))


def _nodes(found: Examination) -> Iterator[DoctorFinding]:
    contents = found.contents
    if contents is None:
        return
    present = {one.expected.node_id for one in found.nodes if one.expected and one.expected.kind is NodeKind.BROKER}
    parts = [one for topic in contents.topics for one in topic.partitions]
    wanted = {node for one in parts for node in (*one.replicas, one.leader) if node >= 0}
    missing = sorted(wanted - present)
    if missing:
        named = ", ".join(f"broker {node}" for node in missing)
        why = (
            f"{named}: partitions have copies there, and the metadata does not name the broker: it is down, or cannot"
            " reach its controller. Clients cannot be told where it is."
        )
        yield DoctorFinding(Fault.BROKER_MISSING, tuple(f"broker {node}" for node in missing), why, Responsible.CLUSTER)
    if contents.controller_id < 0:
        why = "The cluster names no controller. Topics cannot be created, and leaders cannot move."
        yield DoctorFinding(Fault.NO_CONTROLLER, (), why, Responsible.CLUSTER)


def _topics(found: Examination) -> Iterator[DoctorFinding]:
    topics = found.contents.topics if found.contents else ()
    lost = {one.name: [part.index for part in one.partitions if part.is_leaderless] for one in topics}
    leaderless = [name for name, parts in lost.items() if parts]
    if leaderless:
        names = ", ".join(f"{name} (partition {_some(lost[name])})" for name in leaderless[:3])
        more = f" and {len(leaderless) - 3} more topics" if len(leaderless) > 3 else ""
        why = f"No broker leads {names}{more}. Clients wait for a leader, and time out."
        about = tuple(leaderless)
        yield DoctorFinding(Fault.NO_LEADER, about, why, Responsible.CLUSTER, fix=fixes.leaderless(found))


def _asked_topic(found: Examination) -> Iterator[DoctorFinding]:
    """What this user may do with the topic that was named with --topic."""
    if found.topic is None or found.contents is None:
        return
    topic = next((one for one in found.contents.topics if one.name == found.topic), None)
    if topic is None or topic.error == TOPIC_REFUSED:
        hidden = "does not exist, or this user may not see it (the operation Describe on the topic)"
        why = f"The topic {found.topic} {hidden}. A broker answers both alike."
        fix = fixes.rights(found, found.topic, ("Describe",))
        yield DoctorFinding(Fault.TOPIC_UNKNOWN, (found.topic,), why, Responsible.RIGHTS, fix=fix)
        return
    denied = _denied(topic)
    if denied:
        text = " and ".join(denied)
        why = f"The principal {fixes.principal(found)} may not {text} the topic {found.topic}."
        fix = fixes.rights(found, found.topic, denied)
        yield DoctorFinding(Fault.NOT_AUTHORIZED, (found.topic,), why, Responsible.RIGHTS, fix=fix)


def _denied(topic: Topic) -> tuple[str, ...]:
    if topic.allowed is None:
        return ()
    return tuple(name for name in ("Read", "Write") if name not in topic.allowed)


def _coordinator(found: Examination) -> Iterator[DoctorFinding]:
    if found.coordinator is None:
        return
    error, _ = found.coordinator
    group = found.group or "a group"
    if error == GROUP_REFUSED:
        why = f"The principal {fixes.principal(found)} may not use {group} (the operations Describe and Read)."
        fix = fixes.group_rights(found)
        # Without --group, the group is one that nobody uses.
        yield DoctorFinding(
            Fault.NOT_AUTHORIZED, (group,), why, Responsible.RIGHTS, fix=fix, problem=found.group is not None
        )
    elif error != NONE:
        why = f"No coordinator was found for {group}: {_COORDINATOR_ERRORS.get(error, f'error {error}')}."
        yield DoctorFinding(Fault.NO_COORDINATOR, (group,), why, Responsible.CLUSTER)


def _versions(found: Examination) -> Iterator[DoctorFinding]:
    asked = found.asked
    if asked is None or not asked.versions:
        return
    about = (str(asked.address),)
    if found.client is not None:
        misfit = client_versions.version_conflict(found.client, asked.versions)
        if misfit is not None:
            yield DoctorFinding(misfit[0], about, misfit[1], Responsible.CLIENT)
        return
    if client_versions.is_4_0(asked.versions):
        why = (
            "The brokers are Kafka 4.0 or newer. They refuse old clients (KIP-896), such as the Java client before 2.1."
            " --client NAME:VERSION checks yours."
        )
        yield DoctorFinding(Fault.CLIENT_TOO_OLD, about, why, Responsible.CLIENT, problem=False)
    elif client_versions.is_before_2_1(asked.versions):
        why = (
            "The brokers are older than Kafka 2.1. The Java client 4.0 and newer cannot use them (KIP-896)."
            " --client NAME:VERSION checks yours."
        )
        yield DoctorFinding(Fault.BROKER_TOO_OLD, about, why, Responsible.CLUSTER, problem=False)


def _certificates(found: Examination, now: datetime) -> Iterator[DoctorFinding]:
    for one in (*found.bootstrap, *found.nodes):
        certificate = one.certificate
        if certificate is not None and not one.reason and now < certificate.not_after < now + _SOON:
            days = (certificate.not_after - now).days
            why = f"The certificate of {one.address} ends in {days} days, {certificate.not_after:%Y-%m-%d %H:%M} UTC."
            about = (str(one.address),)
            yield DoctorFinding(Fault.CERTIFICATE_EXPIRED, about, why, Responsible.CERTIFICATE, problem=False)
            return


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")
