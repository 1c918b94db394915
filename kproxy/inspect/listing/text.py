"""A snapshot for people, in lines that fit a width. Pure. Texts of brokers are escaped already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kproxy.base.format import format_count, wrap
from kproxy.client.ask.contents import Partition, Topic, error_text
from kproxy.client.ask.settings import parse_listeners
from kproxy.inspect.listing.columns import cut, table
from kproxy.inspect.listing.comparison import SnapshotPair
from kproxy.inspect.listing.snapshot import ListingOptions, ServingKproxy, Snapshot

_NONE = "-"
# More leaders of one topic are counted.
_MOST_LEADERS = 5


def snapshot(
    snapshot: Snapshot, running: ServingKproxy | None, options: ListingOptions, width: int, *, partitions: bool
) -> Iterator[str]:
    """Yield the lines of a snapshot."""
    for line in _head(snapshot, running):
        yield from _wrapped(line, width)
    yield ""
    yield from _brokers(snapshot, running, width)
    yield ""
    yield from _topics(snapshot, width, partitions=partitions)
    if options.listeners or options.own_listeners:
        yield ""
        yield from _listeners(snapshot, width)
        if not options.listeners and len(snapshot.brokers) > 1:
            yield "(--listeners asks every broker that can be reached)"
    if options.groups:
        yield ""
        yield from _groups(snapshot, width)


def _head(snapshot: Snapshot, running: ServingKproxy | None) -> Iterator[str]:
    yield f"cluster {snapshot.cluster_id or 'without an id'}, as {snapshot.server} says"
    kind = "KRaft" if snapshot.kraft else "ZooKeeper"
    controller = "not allowed to see" if snapshot.controller is None else str(snapshot.controller)
    brokers = format_count(len(snapshot.brokers), "broker")
    yield f"{brokers}, controller {controller} ({kind}), {_topics_in_words(snapshot)}"
    if running is not None:
        where = "" if running.bootstrap is None else f": bootstrap.servers={running.bootstrap}"
        yield f"kproxy (--admin {running.admin}) serves it{where}"


def _topics_in_words(snapshot: Snapshot) -> str:
    hidden = f" ({snapshot.hidden} internal hidden)" if snapshot.hidden else ""
    return f"{format_count(len(snapshot.topics), 'topic')}{hidden}, {format_count(snapshot.partitions, 'partition')}"


def _brokers(snapshot: Snapshot, running: ServingKproxy | None, width: int) -> Iterator[str]:
    headings = ["BROKER", "ADVERTISED"]
    racks = any(broker.rack for broker in snapshot.brokers)
    headings += ["RACK"] if racks else []
    headings += ["LOCAL"] if running is not None else []
    rows = []
    for broker in snapshot.brokers:
        row = [str(broker.id), str(broker.advertised)]
        row += [broker.rack or _NONE] if racks else []
        row += [running.local.get(broker.id, _NONE)] if running is not None else []
        rows.append(row)
    yield from table(headings, rows, width, frozenset({0}))


def _topics(snapshot: Snapshot, width: int, *, partitions: bool) -> Iterator[str]:
    if not snapshot.topics:
        yield "no topic that the user may see" if not snapshot.hidden else "no topic but internal ones (--internal)"
        return
    if partitions:
        yield from _partitions(snapshot.topics, width)
        return
    headings = ["TOPIC", "PARTITIONS", "REPLICAS", "LEADERS", "STATE"]
    rows = [_topic(topic) for topic in snapshot.topics]
    yield from table(headings, rows, width, frozenset({1, 2}))


def _topic(topic: Topic) -> Sequence[str]:
    replicas = sorted({len(partition.replicas) for partition in topic.partitions})
    leaderships = Counter(partition.leader for partition in topic.partitions if not partition.is_leaderless)
    leaders = " ".join(f"{node}:{count}" if count > 1 else str(node) for node, count in sorted(leaderships.items()))
    if len(leaderships) > _MOST_LEADERS:
        leaders = format_count(len(leaderships), "broker")
    return [
        topic.name,
        str(len(topic.partitions)),
        "-".join(map(str, replicas[:1] + replicas[1:][-1:])) or "0",
        leaders or _NONE,
        _state(topic),
    ]


def _state(topic: Topic) -> str:
    if topic.error:
        return error_text(topic.error)
    leaderless = sum(partition.is_leaderless for partition in topic.partitions)
    behind = sum(partition.is_under_replicated for partition in topic.partitions)
    words = [f"{leaderless} leaderless"] if leaderless else []
    words += [f"{behind} under-replicated"] if behind else []
    return ", ".join(words) or "ok"


def _partitions(topics: Sequence[Topic], width: int) -> Iterator[str]:
    headings = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "STATE"]
    rows = []
    for topic in topics:
        if topic.error:
            rows.append([topic.name, "", "", "", "", _state(topic)])
        for partition in topic.partitions:
            leader = _NONE if partition.is_leaderless else str(partition.leader)
            numbers = [_ids(partition.replicas), _ids(partition.isr)]
            rows.append([topic.name, str(partition.index), leader, *numbers, _partition_state(partition)])
    yield from table(headings, rows, width, frozenset({1, 2}))


def _partition_state(partition: Partition) -> str:
    words = ["leaderless"] if partition.is_leaderless else []
    words += ["under-replicated"] if partition.is_under_replicated else []
    return ", ".join(words) or "ok"


def _listeners(snapshot: Snapshot, width: int) -> Iterator[str]:
    listeners_of_brokers = {
        node_id: parse_listeners(details.settings)
        for node_id, details in sorted(snapshot.details.items())
        if details.settings
    }
    rows = [
        [
            str(node_id),
            listener.name,
            listener.protocol,
            listener.bound or _NONE,
            listener.advertised or _NONE,
            listener.role,
        ]
        for node_id, listeners in listeners_of_brokers.items()
        for listener in listeners
    ]
    headings = ["BROKER", "LISTENER", "PROTOCOL", "BOUND", "ADVERTISED", "FOR"]
    if len(listeners_of_brokers) == 1:
        yield f"listeners of broker {rows[0][0]}:" if rows else "listeners: none"
        yield from table(headings[1:], [row[1:] for row in rows], width)
    elif listeners_of_brokers:
        yield from table(headings, rows, width, frozenset({0}))
    for node_id, details in sorted(snapshot.details.items()):
        why = details.problem or details.settings_problem
        if why is not None:
            yield from _wrapped(f"listeners of broker {node_id}: {why}", width)
    if not snapshot.details:
        yield "listeners: not allowed to see"


def _groups(snapshot: Snapshot, width: int) -> Iterator[str]:
    groups = [(group.id, node_id, group) for node_id, details in snapshot.details.items() for group in details.groups]
    rows = [
        [group.id or '""', str(node_id), group.state or "?", group.protocol_type or _NONE, group.kind or "?"]
        for _, node_id, group in sorted(groups, key=lambda entry: entry[:2])
    ]
    if rows:
        yield from table(["GROUP", "COORDINATOR", "STATE", "PROTOCOL", "KIND"], rows, width, frozenset({1}))
    else:
        yield "no group that the user may see"
    for node_id, details in sorted(snapshot.details.items()):
        if details.problem is not None:
            yield from _wrapped(f"groups of broker {node_id}: not asked: {details.problem}", width)
        elif details.groups_problem is not None:
            yield from _wrapped(f"groups of broker {node_id}: {details.groups_problem}", width)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield a sentence in lines; a word that is longer than a line is cut, but for the port of an address."""
    fitting = " ".join(cut(word, width - 2) for word in text.split(" "))
    return iter(wrap(fitting, width, "  ", ""))


def comparison(pair: SnapshotPair, width: int) -> Iterator[str]:
    """Yield the lines of two snapshots side by side."""
    headings = ["", f"direct ({pair.direct.server})", f"through kproxy ({pair.through.server})", ""]
    shown = [
        [row.what, row.direct or "not there", row.through or "not there", "DIFFERS" if row.differs else ""]
        for row in pair.rows
    ]
    yield from table(headings, shown, width)
    yield ""
    differing = sum(row.differs for row in pair.rows)
    if differing:
        yield f"{format_count(differing, 'difference')} that kproxy must not make"
    else:
        yield f"nothing differs but addresses: {_topics_in_words(pair.direct)}"


def _ids(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
