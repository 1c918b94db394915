"""The use of both sides after a switch, and whether the source may be switched off, by what was tried.

The kproxies say which clients are connected now. The source says what was written to it since its last record was
copied, and which groups have members there. The rest is not seen, and is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kproxy.base.diagnostic import ERROR, NOTE, WARNING, Diagnostic, Severity
from kproxy.base.errors import ConfigError, KproxyError
from kproxy.base.format import abbreviate, format_count, format_duration
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError
from kproxy.migrate.clusters.groups import read_occupied_groups
from kproxy.migrate.clusters.topic_reader import PermissionAwareQueries, TopicReader
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.statetopic import find_job, is_partition_key, parse_states, read_state, read_state_topic
from kproxy.migrate.journal.switch_journal import SwitchEntry
from kproxy.migrate.spec.migration import Migration
from kproxy.migrate.switch.inverse_offset_map import reverse_name
from kproxy.migrate.switch.kproxy_replies import ClusterReply, ConnectedClient
from kproxy.migrate.switch.unseen_check import find_still_written
from kproxy.migrate.usage.observed import ObservedUsage
from kproxy.migrate.usage.sourcestate import read_own_producer_ids

# Of many clients, so many have a line of their own.
_MAX_ROWS = 50
NOT_SEEN = (
    "not seen: clients that are not connected now, such as one that connects once a week, unless they wrote since the"
    " switch; and clients at the source that only read without a group, or only administer. kproxy migrate observe FILE"
    " --for 7d watches for longer"
)


@dataclass(frozen=True, slots=True)
class ClientUse:
    """A client that is connected to a kproxy, and the upstream to which that kproxy routes it."""

    kproxy: str
    upstream: str
    client: ConnectedClient


def uses_of(kproxy: str, units: Iterable[ClusterReply]) -> Iterator[ClientUse]:
    """Yield the clients of one kproxy, by its replies about the cluster and the parts of it."""
    for unit in units:
        for client in unit.clients:
            yield ClientUse(kproxy, unit.state.active, client)


def describe_uses(uses: Sequence[ClientUse], upstreams: Iterable[str]) -> Iterator[str]:
    """Yield lines about connected clients, by side, user and client, with their kproxies. `upstreams`: both sides."""
    for upstream in upstreams:
        by_client: defaultdict[tuple[str, str, str], list[ClientUse]] = defaultdict(list)
        for use in uses:
            if use.upstream == upstream:
                by_client[use.client.named_user, use.client.name, use.client.software].append(use)
        yield f"on {upstream}: {format_count(len(by_client), 'client') if by_client else 'no client'} connected now"
        for key, same in sorted(by_client.items())[:_MAX_ROWS]:
            yield f"  {_describe_client(*key, same)}"
        if len(by_client) > _MAX_ROWS:
            yield f"  and {len(by_client) - _MAX_ROWS} more"


def _describe_client(user: str, name: str, software: str, uses: Sequence[ClientUse]) -> str:
    who = f"user {user}, client {name or '(no client id)'}" if user else f"client {name or '(no client id)'}"
    addresses = sorted({use.client.address for use in uses})
    verbs = [
        verb
        for verb, does in (
            ("reads", any(use.client.reads for use in uses)),
            ("writes", any(use.client.writes for use in uses)),
        )
        if does
    ]
    kproxies = sorted({use.kproxy for use in uses})
    return (
        f"{who}{f' ({software})' if software else ''} at {abbreviate(addresses)}:"
        f" {' and '.join(verbs) or 'neither reads nor writes'}; through {abbreviate(kproxies)}"
    )


def check_missing(uses: Iterable[ClientUse], usage: ObservedUsage | None) -> Iterator[Diagnostic]:
    """Yield clients that were observed before the switch, and are not connected now (pure)."""
    if usage is None:
        return
    connected = {(use.client.named_user, use.client.name) for use in uses}
    missing = sorted({(each.named_user, each.client_id) for each in usage.clients} - connected)
    for user, name in missing:
        subject = f"client {name or '(no client id)'}{f' of user {user}' if user else ''}"
        text = "used the kproxies while they were observed, and is not connected now"
        yield Diagnostic(NOTE, subject, f"{text}: it may come back")


@dataclass(frozen=True, slots=True)
class SourceUse:
    """The use of the source, as its logs and its groups show it."""

    partitions: int
    """The number of partitions whose logs were compared with what was copied."""
    findings: tuple[Diagnostic, ...]

    @property
    def is_written(self) -> bool:
        """True if records were written that no copy brings to the target."""
        return any(finding.severity is ERROR for finding in self.findings)


UNREACHED = SourceUse(0, (Diagnostic(WARNING, "source", "it is not known whether clients still use it"),))
"""The use of a source that cannot be reached."""


def read_source_use(migration: Migration, source: str, target: str, allowed: Collection[str] = ()) -> SourceUse:
    """Read what was written to the source since it was copied, and which groups have members there.

    `allowed`: names or globs of topics to which others may write. What cannot be read is a finding.
    """
    try:
        with Admin(source) as admin:
            ends, findings = check_still_written(migration, admin, target, allowed, severity=ERROR)
            findings += _check_groups(migration, admin)
    except KproxyError as error:
        return SourceUse(0, (Diagnostic(WARNING, "source", f"it is not known whether clients still use it: {error}"),))
    return SourceUse(len(ends), tuple(findings))


def check_still_written(
    migration: Migration,
    admin: Admin,
    target: str,
    allowed: Collection[str] = (),
    severity: Severity = WARNING,
) -> tuple[Collection[TopicPartition], list[Diagnostic]]:
    """Return the partitions of the source that were compared with what was copied, and what was written since.

    `admin` is of the source. Raises UpstreamError and BrokerError.
    """
    own = _read_own_ids(admin)
    ends, findings = _read_copied_ends(migration, admin, target, own)
    findings += find_still_written(admin.bootstrap, ends, own.values(), allowed, severity=severity)
    return ends.keys(), findings


def _read_own_ids(admin: Admin) -> Mapping[str, int]:
    try:
        return read_own_producer_ids(admin)
    except UnsupportedRequestError:
        return {}


def _read_copied_ends(
    migration: Migration, admin: Admin, target: str, own: Collection[str]
) -> tuple[dict[TopicPartition, int], list[Diagnostic]]:
    """Return, by partition of the source, the offset from which on nothing was copied to the target; and findings.

    A partition without a state had no record when the copy ended, or is newer. Where the copy back writes, and the
    brokers have forgotten its transactional id, only what follows its last record can be told from it. Of a wave, only
    that is read: it may be asked for often, and the copy back may be long.
    """
    states = parse_states(read_state(target, migration.name, is_partition_key))
    queries = PermissionAwareQueries(admin)
    topics = TopicReader(queries, sorted(admin.nodes()), migration.selects_topic).list_topics()
    places = [(name, number) for name, topic in topics.items() for number in range(len(topic.partitions))]
    ends = {place: states[place].source_next if place in states else 0 for place in places}
    findings = [
        Diagnostic(WARNING, gap.subject, f"it is not known whether clients still write to it: {gap.reason}")
        for gap in queries.gaps
        if migration.selects_topic(gap.subject.removeprefix("topic "))
    ]
    of_waves = () if migration.wave else (migration.of_wave(wave, ()) for wave in migration.waves)
    for back in map(reverse_name, (migration, *of_waves)):
        try:
            with ClusterClient(admin.bootstrap) as cluster:
                job = find_job(cluster, back)
                returned = parse_states(read_state_topic(cluster, back, is_partition_key).values)
        except ConfigError:  # nothing was copied back
            continue
        for (topic, partition), state in returned.items():
            place = state.target_topic, partition
            is_known = all(name in own for name in state.writers(job, topic, partition)) and not migration.wave
            if place in ends and not is_known:
                ends[place] = max(ends[place], state.target_next)
    return ends, findings


def _check_groups(migration: Migration, admin: Admin) -> Iterator[Diagnostic]:
    for group in read_occupied_groups(admin, migration.selects_group):
        text = "has members on the source, which get no new records: give them the target's bootstrap servers"
        yield Diagnostic(WARNING, f"group {group}", text)


def check_waiting(kproxy: str, units: Iterable[ClusterReply]) -> Iterator[Diagnostic]:
    """Yield consumers that have not asked for their positions since the switch (pure)."""
    for unit in units:
        for consumer in unit.waiting_consumers:
            text = f"gets no records at {kproxy}, as it has not asked for its position since the switch: restart it"
            yield Diagnostic(WARNING, f"consumer {consumer}", text)


def describe_safety(
    last: SwitchEntry, use: SourceUse, kproxies: int, silent: Collection[str], now: float
) -> Iterator[str]:
    """Yield whether the source may be switched off, by what was tried, and what was not seen (pure).

    `kproxies` routed all their clients to the target; `silent` ones did not reply. `now` is a Unix time.
    """
    source = last.source_upstream
    doubts = [f"{finding.subject}: {finding.text}" for finding in use.findings if finding.severity != NOTE]
    doubts += [f"{name} did not reply" for name in silent]
    if doubts:
        more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
        yield f"do not switch off {source} yet: {doubts[0]}{more}"
        return
    since = datetime.fromtimestamp(last.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    written = "was written only to topics that --allow-unseen names" if use.findings else "nothing was written"
    routes = "1 kproxy replied, and routes" if kproxies == 1 else f"{kproxies} kproxies replied, and route"
    yield (
        f"{source} can be switched off by what was tried: since the switch, which ended {since}"
        f" ({format_duration(max(0.0, now - last.at / 1000))} ago), {written} there (in"
        f" {format_count(use.partitions, 'partition')} of the file's topics); no group of the file has members there;"
        f" {routes} all clients to {last.target_upstream}"
    )
    yield NOT_SEEN
