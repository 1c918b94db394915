"""Which findings are causes, and which only follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as copy

from kproxy.advice.explain.addressfaults import host_of, refine
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.remedies import Fault

_UNREACHED = frozenset(
    {
        Fault.NAME_NOT_RESOLVED, Fault.NAME_RESOLVES_WRONGLY, Fault.DNS_SILENT, Fault.LOOPBACK_ADVERTISED,
        Fault.WILDCARD_ADVERTISED, Fault.CONTAINER_NAME_ADVERTISED, Fault.KUBERNETES_NAME_ADVERTISED,
        Fault.PRIVATE_ADDRESS_ADVERTISED, Fault.PORT_CLOSED, Fault.FILTERED, Fault.NO_ROUTE, Fault.IPV6_ONLY,
    }
)  # fmt: skip
_TLS = frozenset(
    {
        Fault.TLS_TO_PLAINTEXT, Fault.PLAINTEXT_TO_TLS, Fault.CERTIFICATE_NAME, Fault.CERTIFICATE_EXPIRED,
        Fault.CERTIFICATE_NOT_YET_VALID, Fault.CERTIFICATE_UNTRUSTED, Fault.CLIENT_CERTIFICATE_MISSING,
        Fault.CLIENT_CERTIFICATE_REFUSED, Fault.TLS_VERSION,
    }
)  # fmt: skip
_LOGIN = frozenset(
    {
        Fault.LOGIN_NEEDED, Fault.LOGIN_NOT_OFFERED, Fault.SASL_MECHANISM, Fault.CREDENTIALS_REFUSED, Fault.KERBEROS,
        Fault.CREDENTIALS_UNREADABLE,
    }
)  # fmt: skip
# What happens to groups, transactions and requests while brokers cannot be used.
_LATER = frozenset(
    {Fault.TOPIC_UNKNOWN, Fault.OVERLOADED, Fault.GROUP, Fault.NO_COORDINATOR, Fault.NO_CONTROLLER, Fault.CONFIGURATION}
)

# Each fault, and those that follow from it.
_FOLLOWS: dict[Fault, frozenset[Fault]] = {
    **dict.fromkeys(_UNREACHED, _LATER | {Fault.SILENT, Fault.CLOSED, Fault.BROKER_MISSING, Fault.NO_LEADER}),
    **dict.fromkeys(_TLS, _LATER | {Fault.CLOSED, Fault.SILENT, Fault.TLS_FAILED, Fault.FRAME_SIZE, Fault.PORT_CLOSED}),
    **dict.fromkeys(_LOGIN, _LATER | {Fault.CLOSED, Fault.SILENT, Fault.PORT_CLOSED}),
    Fault.SASL_MECHANISM: _LATER | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED},
    Fault.LOGIN_NOT_OFFERED: _LATER | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED},
    Fault.KERBEROS: _LATER | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED, Fault.CREDENTIALS_UNREADABLE},
    Fault.CREDENTIALS_UNREADABLE: _LATER | {Fault.CLOSED, Fault.TLS_FAILED},
    Fault.NOT_KAFKA: _LATER | {Fault.CLOSED, Fault.FRAME_SIZE, Fault.SILENT},
    Fault.TLS_FAILED: _LATER | {Fault.CLOSED, Fault.SILENT},
    Fault.SILENT: _LATER | {Fault.CLOSED},
    Fault.CLOSED: _LATER,
    Fault.TOO_MANY_FILES: _LATER | {Fault.CLOSED, Fault.PORT_CLOSED},
    Fault.BROKER_MISSING: frozenset({Fault.NO_COORDINATOR, Fault.NO_LEADER, Fault.OVERLOADED}),
    Fault.NOT_AUTHORIZED: frozenset({Fault.OVERLOADED, Fault.CONFIGURATION}),
    Fault.TOPIC_UNKNOWN: frozenset({Fault.OVERLOADED}),
    Fault.NO_LEADER: frozenset({Fault.OVERLOADED}),
    Fault.NO_COORDINATOR: frozenset({Fault.GROUP, Fault.OVERLOADED}),
    Fault.LISTENER_CONFIGURATION: frozenset({Fault.CONFIGURATION}),
    Fault.FRAME_SIZE: frozenset({Fault.CLOSED}),
}


@dataclass(slots=True)
class Cause:
    """Findings of one cause. With several `faults`, the words fit each of them. No fault: only a code's meaning is
    known. `follows` came after it and because of it."""

    faults: tuple[Fault, ...]
    matches: list[MessageMatch]
    consequences: list[MessageMatch] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The line where it begins."""
        return min(finding.first for finding in self.matches)

    def clients(self) -> set[str]:
        return {finding.facts.client for finding in self.matches if finding.facts.client}

    def addresses(self) -> list[str]:
        """In the order of the text. A host alone is left out where it stands with its port too."""
        found = list(dict.fromkeys(finding.facts.address for finding in self.matches if finding.facts.address))
        hosts = {host_of(address) for address in found if host_of(address) != address}
        return [address for address in found if address not in hosts]


_WEAK = frozenset({Fault.SILENT, Fault.CLOSED})

# What is said last where words fit several causes: it says least.
_UNSPECIFIC = frozenset({Fault.CLOSED, Fault.SILENT, Fault.TLS_FAILED, Fault.OVERLOADED})

# Words that fit all of these say only that something failed.
_VAGUE = frozenset({Fault.PORT_CLOSED, Fault.CLOSED})


def causes_of(findings: Iterable[MessageMatch], servers: Iterable[str]) -> list[Cause]:
    """The causes, the first that is to be mended first."""
    known = set(servers)
    all_findings = [refine(finding, known) for finding in findings]
    certain = list(_merged(finding for finding in all_findings if len(finding.faults) == 1))
    unclear = [finding for finding in all_findings if len(finding.faults) > 1]
    unknown = [finding for finding in all_findings if not finding.faults]

    roots: list[Cause] = []
    for cause in certain:
        above = next((one for one in certain if one is not cause and _explains(one, cause)), None)
        if above is None:
            roots.append(cause)
    for cause in certain:
        if cause not in roots:
            _top(cause, certain, roots).consequences += cause.matches
    left = []
    for finding in unclear:
        above = _above(finding, roots)
        if above:
            above.consequences.append(finding)
        else:
            left.append(finding)
    groups = _narrowed(left)
    for root in [root for root in roots if root.faults[0] in _LATER | _WEAK]:
        group = next((one for one in groups if _may_explain(one, root)), None)
        if group:
            roots.remove(root)
            group.consequences += root.matches + root.consequences
    roots += groups
    roots += [Cause((), [finding]) for finding in unknown if not roots]
    for root in roots:
        root.consequences.sort(key=lambda finding: finding.first)
    for root in groups:
        root.faults = tuple(sorted(root.faults, key=lambda fault: fault in _UNSPECIFIC))
    return sorted(roots, key=lambda cause: (len(cause.faults) != 1, cause.first))


def _merged(findings: Iterable[MessageMatch]) -> Iterator[Cause]:
    """One cause for each fault, and for each group of clients that share no address."""
    by_fault: dict[Fault, Cause] = {}
    for finding in findings:
        fault = finding.faults[0]
        if fault in by_fault:
            by_fault[fault].matches.append(finding)
        else:
            by_fault[fault] = Cause((fault,), [finding])
    return iter(by_fault.values())


def _explains(above: Cause, below: Cause) -> bool:
    if below.faults[0] not in _FOLLOWS.get(above.faults[0], ()):
        return False
    if above.faults[0] in _FOLLOWS.get(below.faults[0], ()) and below.first < above.first:
        return False  # each may follow from the other: the first is the cause
    return _together(above, below)


def _together(above: Cause, below: Cause) -> bool:
    """Whether they may be of one client and one address."""
    if above.clients() and below.clients() and not above.clients() & below.clients():
        return False
    if below.faults and below.faults[0] in _LATER:
        return True
    mine, others = above.addresses(), below.addresses()
    return not mine or not others or any(_same(one, other) for one in mine for other in others)


def _same(one: str, other: str) -> bool:
    """Whether two addresses are one; some messages give no port, and this machine has several names."""
    hosts, ports = zip(*map(_parts, (one, other)), strict=True)
    return hosts[0] == hosts[1] and (ports[0] == ports[1] or "" in ports)


def _parts(address: str) -> tuple[str, str]:
    host = host_of(address)
    port = address[len(host) + 1 :]
    return ("localhost" if host.startswith("127.") or host == "[::1]" else host), port


def _may_explain(group: Cause, root: Cause) -> bool:
    """Whether what is known for certain only follows from one of the causes that other words fit."""
    if root.faults[0] not in _LATER and root.first < group.first:
        return False
    return _together(group, root) and any(root.faults[0] in _FOLLOWS.get(fault, ()) for fault in group.faults)


def _top(cause: Cause, certain: list[Cause], roots: list[Cause]) -> Cause:
    """The root above a cause."""
    seen: list[Cause] = []
    while cause not in roots:
        seen.append(cause)
        above = next((one for one in certain if one not in seen and _explains(one, cause)), None)
        if above is None:
            return roots[0] if roots else cause
        cause = above
    return cause


def _above(finding: MessageMatch, roots: list[Cause]) -> Cause | None:
    """The root that explains words with several causes."""
    one = Cause(finding.faults, [finding])
    fits = [root for root in roots if _together(root, one)]
    same = [root for root in fits if root.faults[0] in finding.faults]
    after = [root for root in fits if _FOLLOWS.get(root.faults[0], frozenset()) & set(finding.faults)]
    # That a server is silent or hangs up may itself follow from what was said before.
    after = [root for root in after if root.faults[0] not in _WEAK or root.first < finding.first]
    if finding.broker:  # it has many clients, and each its own cause
        after = []
    if not finding.facts.address:  # a request that failed for whatever reason stands under the first one
        same = same or after
    return next(iter(sorted(same, key=lambda root: root.first) + sorted(after, key=lambda root: root.first)), None)


def _narrowed(findings: list[MessageMatch]) -> list[Cause]:
    """Words of one client with several causes each: what they have in common."""
    groups: list[Cause] = []
    for finding in sorted(findings, key=lambda one: (_is_vague(one.faults), len(one.faults), one.first)):
        one = Cause(finding.faults, [finding])
        for group in groups:
            if _is_vague(finding.faults) and not _is_vague(group.faults) and _together(group, one):
                group.consequences.append(finding)  # it fits nearly everything, and says nothing more
                break
            common = tuple(fault for fault in group.faults if fault in finding.faults)
            if common and _together(group, one):
                group.faults = common
                group.matches.append(finding)
                break
        else:
            groups.append(one)
    return groups


def _is_vague(faults: tuple[Fault, ...]) -> bool:
    return set(faults) >= _VAGUE


def merge_by_message(findings: Iterable[MessageMatch]) -> list[MessageMatch]:
    """One for each message of a program, whatever the addresses."""
    found: dict[tuple[object, ...], MessageMatch] = {}
    for finding in findings:
        key = (finding.program, finding.text)
        if key in found:
            seen = found[key]
            found[key] = copy(
                seen,
                first=min(seen.first, finding.first),
                last=max(seen.last, finding.last),
                count=seen.count + finding.count,
            )
        else:
            found[key] = finding
    return sorted(found.values(), key=lambda one: one.first)
