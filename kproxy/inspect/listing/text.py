"""A snapshot for people, in lines that fit a width. Pure. Texts of brokers are escaped already."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from kproxy.client.ask.contents import Partition, Topic, error_text
from kproxy.client.ask.listeners import parse_listeners
from kproxy.inspect.listing.columns import cut, table
from kproxy.inspect.listing.comparison import SnapshotPair
from kproxy.inspect.listing.local_kproxy import ServingKproxy
from kproxy.inspect.listing.snapshot import ListingOptions, Snapshot

_NOBODY = "-"
# More leaders of one topic are counted.
_MOST_LEADERS = 5


def snapshot(
    seen: Snapshot, running: ServingKproxy | None, options: ListingOptions, width: int, *, partitions: bool
) -> Iterator[str]:
    """All of it."""
    for line in _head(seen, running):
        yield from _wrapped(line, width)
    yield ""
    yield from _brokers(seen, running, width)
    yield ""
    yield from _topics(seen, width, partitions=partitions)
    if options.listeners or options.own_listeners:
        yield ""
        yield from _listeners(seen, width)
        if not options.listeners and len(seen.brokers) > 1:
            yield "(--listeners asks every broker that can be reached)"
    if options.groups:
        yield ""
        yield from _groups(seen, width)


def _head(seen: Snapshot, running: ServingKproxy | None) -> Iterator[str]:
    yield f"cluster {seen.cluster_id or 'without an id'}, as {seen.asked} says"
    kind = "KRaft" if seen.kraft else "ZooKeeper"
    controller = "not allowed to see" if seen.controller is None else str(seen.controller)
    yield f"{_count(len(seen.brokers), 'broker')}, controller {controller} ({kind}), {_topics_in_words(seen)}"
    if running is not None:
        where = "" if running.bootstrap is None else f": bootstrap.servers={running.bootstrap}"
        yield f"kproxy (--admin {running.admin}) serves it{where}"


def _topics_in_words(seen: Snapshot) -> str:
    hidden = f" ({seen.hidden} internal hidden)" if seen.hidden else ""
    return f"{_count(len(seen.topics), 'topic')}{hidden}, {_count(seen.partitions, 'partition')}"


def _brokers(seen: Snapshot, running: ServingKproxy | None, width: int) -> Iterator[str]:
    headings = ["BROKER", "ADVERTISED"]
    racks = any(broker.rack for broker in seen.brokers)
    headings += ["RACK"] if racks else []
    headings += ["LOCAL"] if running is not None else []
    rows = []
    for broker in seen.brokers:
        row = [str(broker.id), str(broker.advertised)]
        row += [broker.rack or _NOBODY] if racks else []
        row += [running.local.get(broker.id, _NOBODY)] if running is not None else []
        rows.append(row)
    yield from table(headings, rows, width, frozenset({0}))


def _topics(seen: Snapshot, width: int, *, partitions: bool) -> Iterator[str]:
    if not seen.topics:
        yield "no topic that the user may see" if not seen.hidden else "no topic but internal ones (--internal)"
        return
    if partitions:
        yield from _partitions(seen.topics, width)
        return
    headings = ["TOPIC", "PARTITIONS", "REPLICAS", "LEADERS", "STATE"]
    rows = [_topic(topic) for topic in seen.topics]
    yield from table(headings, rows, width, frozenset({1, 2}))


def _topic(topic: Topic) -> Sequence[str]:
    replicas = sorted({len(partition.replicas) for partition in topic.partitions})
    led = Counter(partition.leader for partition in topic.partitions if not partition.is_leaderless)
    leaders = " ".join(f"{node}:{count}" if count > 1 else str(node) for node, count in sorted(led.items()))
    if len(led) > _MOST_LEADERS:
        leaders = _count(len(led), "broker")
    return [
        topic.name,
        str(len(topic.partitions)),
        "-".join(map(str, replicas[:1] + replicas[1:][-1:])) or "0",
        leaders or _NOBODY,
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
            leader = _NOBODY if partition.is_leaderless else str(partition.leader)
            numbers = [_ids(partition.replicas), _ids(partition.isr)]
            rows.append([topic.name, str(partition.index), leader, *numbers, _partition_state(partition)])
    yield from table(headings, rows, width, frozenset({1, 2}))


def _partition_state(partition: Partition) -> str:
    words = ["leaderless"] if partition.is_leaderless else []
    words += ["under-replicated"] if partition.is_under_replicated else []
    return ", ".join(words) or "ok"


def _listeners(seen: Snapshot, width: int) -> Iterator[str]:
    told = {node_id: parse_listeners(one.settings) for node_id, one in sorted(seen.seen.items()) if one.settings}
    rows = [
        [str(node_id), one.name, one.protocol, one.bound or _NOBODY, one.advertised or _NOBODY, one.role]
        for node_id, found in told.items()
        for one in found
    ]
    headings = ["BROKER", "LISTENER", "PROTOCOL", "BOUND", "ADVERTISED", "FOR"]
    if len(told) == 1:
        yield f"listeners of broker {rows[0][0]}:" if rows else "listeners: none"
        yield from table(headings[1:], [row[1:] for row in rows], width)
    elif told:
        yield from table(headings, rows, width, frozenset({0}))
    for node_id, one in sorted(seen.seen.items()):
        why = one.problem or one.settings_problem
        if why is not None:
            yield from _wrapped(f"listeners of broker {node_id}: {why}", width)
    if not seen.seen:
        yield "listeners: not allowed to see"


def _groups(seen: Snapshot, width: int) -> Iterator[str]:
    found = [(group.id, node_id, group) for node_id, told in seen.seen.items() for group in told.groups]
    rows = [
        [group.id or '""', str(node_id), group.state or "?", group.protocol_type or _NOBODY, group.kind or "?"]
        for _, node_id, group in sorted(found, key=lambda one: one[:2])
    ]
    if rows:
        yield from table(["GROUP", "COORDINATOR", "STATE", "PROTOCOL", "KIND"], rows, width, frozenset({1}))
    else:
        yield "no group that the user may see"
    for node_id, told in sorted(seen.seen.items()):
        if told.problem is not None:
            yield from _wrapped(f"groups of broker {node_id}: not asked: {told.problem}", width)
        elif told.groups_problem is not None:
            yield from _wrapped(f"groups of broker {node_id}: {told.groups_problem}", width)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """A sentence; a word that is longer than a line is cut, but for the port of an address."""
    fitting = " ".join(cut(word, width - 2) for word in text.split(" "))
    return iter(textwrap.wrap(fitting, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def comparison(pair: SnapshotPair, width: int) -> Iterator[str]:
    """Two snapshots side by side."""
    headings = ["", f"direct ({pair.direct.asked})", f"through kproxy ({pair.through.asked})", ""]
    shown = [
        [row.what, row.direct or "not there", row.through or "not there", "DIFFERS" if row.differs else ""]
        for row in pair.rows
    ]
    yield from table(headings, shown, width)
    yield ""
    differing = sum(row.differs for row in pair.rows)
    if differing:
        yield f"{_count(differing, 'difference')} that kproxy must not make"
    else:
        yield f"nothing differs but addresses: {_topics_in_words(pair.direct)}"


def _ids(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
