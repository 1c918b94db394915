"""Problems with what the user's client is going to do with a topic and a group, and what was not tried of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.base.faults import Fault
from kproxy.base.format import abbreviate, format_count
from kproxy.client.ask.contents import Topic
from kproxy.inspect.doctor import fixes
from kproxy.inspect.doctor.evidence import Examination
from kproxy.inspect.doctor.findings import CLUSTER, RIGHTS, DoctorDiagnostic, finding
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name
from kproxy.proxy.cluster.topology import NodeKey

_COORDINATOR_ERRORS = {14: "it is loading", 15: "no broker coordinates it now", 16: "another broker coordinates it"}
# What a group's coordinator answers; the second for a group that does not exist yet.
_OF_COORDINATOR = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
_ALL = -1


def check_intent(examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find such problems; none if no broker answered."""
    if examination.answering is None:
        return
    yield from _topic(examination)
    yield from _group(examination)


def _topic(examination: Examination) -> Iterator[DoctorDiagnostic]:
    name = examination.intent.topic
    if name is None or examination.contents is None:
        return
    topic = _visible_topic(examination)
    if topic is None:
        hidden = "does not exist, or this user may not see it (the operation Describe on the topic)"
        why = f"The topic {name} {hidden}. A broker answers both alike."
        fix = fixes.rights(examination, name, ("Describe",))
        yield finding(Fault.TOPIC_UNKNOWN, (name,), why, RIGHTS, fix=fix)
        return
    denied = tuple(each for each in examination.intent.operations if _is_denied(each, topic, examination))
    if denied:
        why = f"The principal {fixes.principal(examination)} may not {' and '.join(denied)} the topic {name}."
        fix = fixes.rights(examination, name, denied)
        yield finding(Fault.NOT_AUTHORIZED, (name,), why, RIGHTS, fix=fix)
    yield from _reads(topic, examination)
    yield from _acks(topic, examination)


def _visible_topic(examination: Examination) -> Topic | None:
    topics = () if examination.contents is None else examination.contents.topics
    topic = next((topic for topic in topics if topic.name == examination.intent.topic), None)
    return None if topic is None or topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED else topic


def _is_denied(operation: str, topic: Topic, examination: Examination) -> bool:
    if topic.allowed is not None:
        return operation not in topic.allowed
    return operation == "Read" and ErrorCode.TOPIC_AUTHORIZATION_FAILED in examination.reads.values()


def _reads(topic: Topic, examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find partitions whose leader refuses a read for another reason than a right."""
    partitions: dict[int, list[int]] = {}
    for partition, code in examination.reads.items():
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            partitions.setdefault(code, []).append(partition)
    if partitions:
        reasons = "; ".join(f"partition {abbreviate(each)}: {error_name(code)}" for code, each in partitions.items())
        why = f"The leaders of {topic.name} refuse to be read, although the metadata names them: {reasons}."
        yield finding(Fault.NO_LEADER, (topic.name,), why, CLUSTER, fix=fixes.leaderless(examination))


def _acks(topic: Topic, examination: Examination) -> Iterator[DoctorDiagnostic]:
    """Find partitions that take no write with acks=all."""
    needed = examination.min_in_sync
    if examination.intent.acks != _ALL or needed is None:
        return
    short = [part for part in topic.partitions if not part.is_leaderless and len(part.isr) < needed]
    # Kafka 3.7 and later wants no more than there are replicas (KAFKA-15583).
    refused = [part for part in short if len(part.isr) < len(part.replicas)]
    for parts, is_error in ((refused, True), ([part for part in short if part not in refused], False)):
        if not parts:
            continue
        which = abbreviate([f"partition {part.index} ({len(part.isr)} of {len(part.replicas)})" for part in parts])
        why = (
            f"With acks=all, {topic.name} takes a write only if {format_count(needed, 'replica')} are in sync"
            f" (min.insync.replicas), and fewer are: {which}."
        )
        if not is_error:
            why += " There are no more replicas. Brokers before Kafka 3.7 refuse such writes; later ones take them."
        fix = fixes.under_min_isr(examination, topic.name)
        yield finding(Fault.NOT_ENOUGH_REPLICAS, (topic.name,), why, CLUSTER, fix=fix, is_error=is_error)


def _group(examination: Examination) -> Iterator[DoctorDiagnostic]:
    group = examination.intent.group
    descriptions = examination.descriptions.values()
    answers = [description for description in descriptions if description.error in _OF_COORDINATOR]
    codes = {description.error for description in descriptions}
    if examination.coordinator is not None and not answers:
        codes.add(examination.coordinator[0])
    if ErrorCode.GROUP_AUTHORIZATION_FAILED in codes:
        yield _lacks_right(examination, ("Read", "Describe"))
    elif any(answer.allowed is not None and "Read" not in answer.allowed for answer in answers):
        yield _lacks_right(examination, ("Read",))
    elif examination.coordinator is not None and examination.coordinator[0] != ErrorCode.NONE and not answers:
        code = examination.coordinator[0]
        why = f"No coordinator was found for {group or 'a group'}: {_COORDINATOR_ERRORS.get(code, error_name(code))}."
        yield finding(Fault.NO_COORDINATOR, (group or "a group",), why, CLUSTER)
    elif ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes and group is not None:
        why = f"The coordinator of {group} is loading, and serves no group until it has finished."
        yield finding(Fault.NO_COORDINATOR, (group,), why, CLUSTER)


def _lacks_right(examination: Examination, operations: tuple[str, ...]) -> DoctorDiagnostic:
    group, names = examination.intent.group or "a group", " and ".join(operations)
    which = f"the operation{'s' if len(operations) > 1 else ''} {names}"
    why = f"The principal {fixes.principal(examination)} may not use {group} ({which})."
    fix = fixes.group_rights(examination, operations)
    # Without --group, the group is one without members.
    is_error = examination.intent.group is not None
    return finding(Fault.NOT_AUTHORIZED, (group,), why, RIGHTS, fix=fix, is_error=is_error)


def coordinator_of(examination: Examination) -> NodeKey | None:
    """Return the broker that coordinates the group, as it says itself; None if no broker does."""
    nodes = (key for key, each in examination.descriptions.items() if each.error in _OF_COORDINATOR)
    return next(nodes, None)


def tried(examination: Examination) -> Iterator[str]:
    """Yield what the client is going to do that kproxy has done too, as parts of a sentence."""
    group, topic = examination.intent.group, examination.intent.topic
    coordinator = coordinator_of(examination)
    if coordinator is not None:
        yield f"{coordinator} answers as the coordinator of {group}"
    reads = list(examination.reads.values()).count(ErrorCode.NONE)
    if reads:
        yield f"{format_count(reads, 'partition')} of {topic} could be read at the end"


def not_tried(examination: Examination) -> Iterator[str]:
    """Yield what the client is going to do that kproxy has not tried, and why."""
    if examination.answering is None:
        return
    if examination.intent.group is not None:
        yield from _not_tried_of_group(examination, examination.intent.group)
    topic = _visible_topic(examination) if examination.intent.topic is not None else None
    if topic is not None:
        yield from _not_tried_of_topic(topic, examination)


def _not_tried_of_group(examination: Examination, group: str) -> Iterator[str]:
    brokers = [node for node in examination.nodes if node.expected and node.expected.kind is NodeKind.BROKER]
    asked = len(examination.descriptions)
    codes = {description.error for description in examination.descriptions.values()}
    if codes <= {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR} and examination.coordinator is None:
        yield (
            f"which broker coordinates {group}: none of the {asked} of {format_count(len(brokers), 'broker')} that"
            " kproxy asked. That is so until a first client has used a group: for it, the brokers create the topic"
            " __consumer_offsets. It is also so if that topic has lost a leader, or if kproxy did not reach the"
            " coordinator"
        )
    yield f"joining {group}: its members would have to share the partitions anew"


def _not_tried_of_topic(topic: Topic, examination: Examination) -> Iterator[str]:
    operations, acks = examination.intent.operations, examination.intent.acks
    if "Read" in operations and len(examination.reads) < len(topic.partitions):
        left = len(topic.partitions) - len(examination.reads)
        rest = f"{format_count(left, 'more partition')} of {topic.name}"
        yield f"reading {rest}: kproxy reads a few partitions of each leader that it reaches"
    unknown = [each for each in operations if topic.allowed is None and not (each == "Read" and examination.reads)]
    if unknown:
        names = " and ".join(unknown)
        yield f"whether this user may {names} {topic.name}: brokers before Kafka 2.3 do not say that"
    if "Write" in operations:
        yield f"writing to {topic.name}: kproxy writes nothing to a cluster, and only asks whether this user may"
    if acks == _ALL and examination.min_in_sync is None:
        yield (
            f"whether enough replicas of {topic.name} are in sync for acks=all: this user may not see"
            " min.insync.replicas (DescribeConfigs on the topic)"
        )
    if acks == 0:
        yield "whether writes arrive: with acks=0 a broker does not answer, and a producer does not notice a refusal"
